//! SQLite storage: the only module with SQL beside the sandbox.
//!
//! Each file holds one concept. Method names begin with their noun, so completion after `outbox_` lists the
//! operations on the outbox.
//!
//! One process holds the lock beside the database ([`Lock`]). It migrates, writes facts and runs checkpoints;
//! other programs read and insert changes. Inside the process one writer works at a time: [`Store::begin`]
//! waits for the connection, then runs `BEGIN IMMEDIATE`. A deferred transaction that reads first would fail
//! at once after a write by another program, and SQLite applies no busy timeout to that failure.
//!
//! [`Durability::Full`] syncs the write-ahead log at commit. It serves claims and outcomes of writes, which
//! must survive a power cut. [`Durability::Normal`] does not sync: pages of facts can be read again. A killed
//! process loses nothing with either.
//!
//! No transaction may stay open during a call to the platform, so [`Write`] is not passed to code that awaits
//! the network.

mod acknowledge;
mod allocations;
mod at_hand;
mod attention;
mod backup;
mod balances;
mod belonging;
mod brake;
mod bulk;
mod cells;
mod claimed;
mod delivery;
mod doubt;
mod due;
mod error;
mod event;
mod exchange;
mod explain;
mod facts;
mod files;
mod fold;
mod health;
mod journal;
mod kits;
mod lacking;
mod list;
mod lock;
mod migrations;
mod open;
mod orders;
mod outbox;
mod page;
mod past;
mod position_file;
mod product;
mod products;
mod prune;
mod quarantine;
mod readback;
mod repeat;
mod reports;
mod request;
mod resolve;
mod restored;
mod run;
mod seat;
mod shipments;
mod snapshot;
mod spent;
mod status;
mod storefronts;
mod story;
mod suppliers;
mod table_hash;
mod telling;
mod text;
mod tracked;
mod unshown;
mod verify;
mod vouched;
mod warehouses;
mod watch;
mod work_queue;

pub use allocations::{AllocationFact, AllocationPage, AllocationRow};
pub use attention::EarlyRow;
pub use backup::{Copied, scheduled_name};
pub use balances::BalancesRecorded;
pub use belonging::Belonging;
pub use brake::TripRow;
pub use cells::{CellRow, CellSeen, CellWrite};
pub use claimed::{CELL_ENDED, CELL_LANDED};

pub use delivery::{Kept, NamedWish};
pub use doubt::{AdoptionRow, DoubtRow};
pub use due::{AskedOrder, OrderRow, OrderState, OrdersDue, QUIET_AFTER, QUIET_LOOK};
pub use error::StoreError;
pub use event::{LIFTED, RESOLVED};
pub use exchange::UsedPlace;
pub use explain::{CellNow, KnownSku, PairRow, StoryEvent, StoryWish};
pub use facts::{Compared, Difference, FACTS, FactRow, FactTable, REST};
pub use files::FileId;
pub use fold::{FOLD_CHANGED, ParkedRow};
pub use health::{
    BackupRow, CallRow, EndedRunRow, HealthRows, OrphanRow, RejectedRow, UnreadableRow, WaitingRow, WorkedRow,
};
pub use journal::{Asking, Decided, Ending, Entry, Journal};
pub use kits::{ComponentFact, ComponentRow, KIT, KIT_DENIED, KitPage, ProductFact};
pub use lacking::LackingRow;
pub use list::{LIST_COMPLETE, LIST_MISSING, ListOf};
pub use lock::{Holder, Lock, LockError};
pub use open::{Durability, Store, Write};
pub use orders::OrderPage;
pub use outbox::{Claim, OpenWish, OutboxFilter, Verdict, WishRow};
pub use page::{BalanceFact, BalancePage, CellBalance};
pub use past::PAST_FORGOTTEN;
pub use product::{ProductCell as ProductCellRow, ProductCells};
pub use products::{ProductCell, ProductRow};
pub use prune::Gone;
pub use quarantine::QuarantineRow;
pub use readback::MismatchRow;
pub use repeat::Unread;
pub use reports::{HealthFigures, HealthMonthRow, Report, TopSellerFact, TopSellerRow};
pub use request::RequestRow;
pub use resolve::{Resolved, Said};
pub use restored::Restored;
pub use run::{ExchangeRow, JobPlan, RunRow, SessionStart};
pub use seat::{CommitHook, Opening};
pub use shipments::{ShipmentFact, ShipmentItemFact, ShipmentItemRow, ShipmentPage};
pub use snapshot::{Snapshot, SnapshotRow};
pub use spent::SpentRow;
pub use status::{HealthRow, StateCount, StockRow};
pub use storefronts::{StorefrontFact, StorefrontRow, TemplateFact, TemplateRow};
pub use story::{CandidateRow, DecisionRow, MoveRow};
pub use suppliers::{SupplierFact, SupplierRow};
pub use telling::{ToldExchange, ToldRow, ToldWish};
pub use tracked::{SKU_LEARNT, Stalest};
pub use unshown::{UnshownRow, WITNESSES};
pub use verify::{MirrorAge, VerifyRow};
pub use vouched::Vouched;
pub use warehouses::{WarehouseFact, WarehouseRow};
pub use watch::{News, Watch};
pub use work_queue::{WorkQueueCounts, WorkQueueMoved, WorkQueueRow};
