//! The only room that knows SQLite. One file per concept; noun first in the names, so that typing `outbox_` lists
//! all that can be done to the outbox.
//!
//! One process holds the lock beside the database ([`Lock`]) and migrates, writes facts and checkpoints; others read
//! and insert wishes. Inside the process one writer works at a time: [`Store::begin`] waits its turn, then takes
//! `BEGIN IMMEDIATE`. A deferred transaction that reads first would fail at once when a program beside us wrote
//! meanwhile, and no busy timeout helps against that.
//!
//! Two durabilities. [`Durability::Full`] syncs the WAL at commit: claims and conclusions of writes, which must
//! outlive a power cut. [`Durability::Normal`] does not: pages of facts can be read again; a killed process loses
//! nothing either way.
//!
//! No transaction may be held over a call to the service: `Write` is not handed to anything that awaits the network.

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
