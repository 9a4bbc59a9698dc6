//! SQLite storage: the only module with SQL beside the sandbox.
//!
//! Each file holds one concept. Method names begin with their noun, so completion after `outbox_` lists the
//! operations on the outbox.
//!
//! | folder | subject |
//! | --- | --- |
//! | `engine` | the database file: connections, transactions, lock, copies |
//! | `journal` | sessions, runs, exchanges, events, snapshots |
//! | `mirror` | facts from answers of the platform |
//! | `outbox` | changes, their transitions, and the decisions on them |
//! | `views` | read-only rows for people and for the health judgement |
//! | `control` | state of the daemon that is neither journal, fact nor change |
//!
//! A single process holds the lock beside the database ([`Lock`]). It migrates, writes facts and runs checkpoints;
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

mod control;
mod engine;
mod journal;
mod mirror;
mod outbox;
mod views;

pub use control::account_binding::Belonging;
pub use control::quarantine::QuarantineRow;
pub use control::request::RequestRow;
pub use engine::backup::{Copied, scheduled_name};
pub use engine::connection::{CommitHook, Opening};
pub use engine::error::StoreError;
pub use engine::files::FileId;
pub use engine::lock::{Holder, Lock, LockError};
pub use engine::open::{Durability, Store, Write};
pub use engine::rollback_detection::Restored;
pub use engine::watch::{News, Watch};
pub use journal::detail::{ToldExchange, ToldRow, ToldWish};
pub use journal::event::{LIFTED, RESOLVED};
pub use journal::exchange::UsedPlace;
pub use journal::fact_tables::{Compared, Difference, FACTS, FactRow, FactTable, REST};
pub use journal::projection_version::{FOLD_CHANGED, ParkedRow};
pub use journal::prune::Gone;
pub use journal::reader::{Asking, Decided, Ending, Entry, Journal};
pub use journal::run::{ExchangeRow, JobPlan, RunRow, SessionStart};
pub use journal::snapshot::{Snapshot, SnapshotRow};
pub use mirror::allocations::{AllocationFact, AllocationPage, AllocationRow};
pub use mirror::balances::BalancesRecorded;
pub use mirror::balances::absence::{UnshownRow, WITNESSES};
pub use mirror::balances::history::PAST_FORGOTTEN;
pub use mirror::balances::page::{BalanceFact, BalancePage, CellBalance};
pub use mirror::balances::unchanged::Unread;
pub use mirror::kits::{ComponentFact, ComponentRow, KIT, KIT_DENIED, KitPage, ProductFact};
pub use mirror::orders::OrderPage;
pub use mirror::platform_lists::{LIST_COMPLETE, LIST_MISSING, ListOf};
pub use mirror::product_list::{ProductCell, ProductRow};
pub use mirror::product_stock::{ProductCell as ProductCellRow, ProductCells};
pub use mirror::readback::MismatchRow;
pub use mirror::refresh_priority::EarlyRow;
pub use mirror::reports::{HealthFigures, HealthMonthRow, Report, TopSellerFact, TopSellerRow};
pub use mirror::shipments::{ShipmentFact, ShipmentItemFact, ShipmentItemRow, ShipmentPage};
pub use mirror::stock_level_writes::{CELL_ENDED, CELL_LANDED};
pub use mirror::stock_levels::{CellRow, CellSeen, CellWrite};
pub use mirror::storefronts::{StorefrontFact, StorefrontRow, TemplateFact, TemplateRow};
pub use mirror::suppliers::{SupplierFact, SupplierRow};
pub use mirror::tracked_orders::{AskedOrder, OrderRow, OrderState, OrdersDue, QUIET_AFTER, QUIET_LOOK};
pub use mirror::tracked_skus::{SKU_LEARNT, Stalest};
pub use mirror::unchanged_orders::Vouched;
pub use mirror::warehouses::{WarehouseFact, WarehouseRow};
pub use mirror::work_queue::{WorkQueueCounts, WorkQueueMoved, WorkQueueRow};
pub use outbox::brake::TripRow;
pub use outbox::changes::{Claim, OpenWish, OutboxFilter, Verdict, WishRow};
pub use outbox::evidence::{Kept, NamedWish};
pub use outbox::in_doubt::{AdoptionRow, DoubtRow};
pub use outbox::resolve::{Resolved, Said};
pub use outbox::suspected_absence::LackingRow;
pub use views::call_stats::SpentRow;
pub use views::change_history::{CandidateRow, DecisionRow, MoveRow};
pub use views::explain::{CellNow, KnownSku, PairRow, StoryEvent, StoryWish};
pub use views::health::{
    BackupRow, CallRow, EndedRunRow, HealthRows, OrphanRow, RejectedRow, UnreadableRow, WaitingRow, WorkedRow,
};
pub use views::status::{HealthRow, StateCount, StockRow};
pub use views::verify::{MirrorAge, VerifyRow};
