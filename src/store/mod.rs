//! Storage in SQLite, and in PostgreSQL for the tests: the only module with SQL beside the sandbox.
//!
//! Each file holds one concept. Method names begin with their noun, so completion after `outbox_` lists the
//! operations on the outbox.
//!
//! | folder | subject |
//! | --- | --- |
//! | `engine` | the database of either engine: connections, transactions; the file with its lock and copies |
//! | `journal` | sessions, runs, exchanges, events, snapshots |
//! | `mirror` | facts from answers of the platform |
//! | `outbox` | changes, their transitions, and the decisions on them |
//! | `views` | read-only rows for people and for the health judgement |
//! | `control` | state of the daemon that is neither journal, fact nor change |
//!
//! A single process holds the lock beside the database ([`DatabaseLock`]). It migrates, writes facts and runs
//! checkpoints; other programs read and insert changes. Inside the process one writer works at a time:
//! [`Store::begin_write`] waits for the connection, then runs `BEGIN IMMEDIATE`. A deferred transaction that
//! reads first would fail at once after a write by another program, and SQLite applies no busy timeout to
//! that failure.
//!
//! [`Durability::Full`] syncs the write-ahead log at commit. It serves claims and outcomes of writes, which
//! must survive a power cut. [`Durability::Normal`] does not sync: pages of facts can be read again. A killed
//! process loses nothing with either.
//!
//! No transaction may stay open during a call to the platform, so [`WriteTransaction`] is not passed to code
//! that awaits the network.

mod control;
mod engine;
mod journal;
mod mirror;
mod outbox;
mod views;

pub use control::account_binding::AccountBinding;
pub use control::notice::{NoticeChangeRow, NoticeRow};
pub use control::pause::{PauseEvent, PauseRow};
pub use control::quarantine::QuarantineRow;
pub use control::request::ControlRequestRow;
pub use engine::backup::{VerifiedCopy, scheduled_copy_name};
pub use engine::connection::{CommitHook, StoreOptions};
pub use engine::error::{Result, StoreError};
pub use engine::files::FileId;
pub use engine::leadership::{DaemonName, LeaderRow, host_name};
pub use engine::location::DatabaseLocation;
pub use engine::lock::{DatabaseLock, LockError, LockState};
pub use engine::lossy_text::LossyText;
pub use engine::move_database::{MoveReport, MovedTable, move_database};
pub use engine::open::Store;
pub use engine::postgres::server_statements;
pub use engine::postgres_database::{PostgresDatabase, url_has_password};
pub use engine::rollback_detection::RollbackSign;
pub use engine::server_check::ServerReport;
pub use engine::table_rows::ReplacedText;
pub use engine::watch::{DatabaseWatch, NewEntries, ReleaseWatch};
pub use engine::write_transaction::{Durability, WriteTransaction};
pub use journal::detail::{ExchangeDetail, ExchangeDetailRow, RunChange};
pub use journal::event::{OUTBOX_RESOLVED, QUOTA_LIFTED};
pub use journal::exchange::UsedReservation;
pub use journal::fact_tables::{FACT_TABLES, FactRow, FactTable, RowDifference, TableComparison};
pub use journal::projection_version::{PROJECTION_CHANGED, ParkedRow};
pub use journal::prune::PrunedRows;
pub use journal::reader::{JournalEntry, JournalEvent, JournalReader, RecordedEnd, RecordedRequest};
pub use journal::run::{ExchangeRow, JobSchedule, RunRow, SessionStart};
pub use journal::snapshot::{MirrorSnapshot, SnapshotRow};
pub use mirror::allocations::{ALLOCATIONS_OF_ORDER_MAX, AllocationPage, AllocationRow};
pub use mirror::balances::BalancesRecorded;
pub use mirror::balances::absence::{UnshownRow, WITNESSES};
pub use mirror::balances::history::HISTORY_PRUNED;
pub use mirror::balances::page::{BalanceFact, BalancePage, StockLevelFact};
pub use mirror::balances::unchanged::UnparsedAnswer;
pub use mirror::kits::{ComponentFact, ComponentRow, KIT_DENIED, KIT_TYPE, KitPage, ProductFact};
pub use mirror::orders::OrderPage;
pub use mirror::platform_lists::{LIST_COMPLETE, LIST_MISSING, PlatformList};
pub use mirror::products::{ProductRow, ProductStock, ProductStockRow, WarehouseQuantity};
pub use mirror::readback::MismatchRow;
pub use mirror::reports::{BusinessHealthFigures, BusinessHealthRow, MonthlyReport, TopSellerRow};
pub use mirror::shipments::{ShipmentFact, ShipmentItemFact, ShipmentItemRow, ShipmentPage};
pub use mirror::stock_level_writes::{WRITE_ENDED, WRITE_TOOK_EFFECT};
pub use mirror::stock_levels::{PlannedStockLevel, StockLevelRow, StockLevelWrite};
pub use mirror::storefronts::{StorefrontRow, TemplateRow};
pub use mirror::suppliers::SupplierRow;
pub use mirror::tracked_orders::{
    OrderRow, OrderState, OrdersDue, QUIET_AFTER, QUIET_READ_INTERVAL, RequestedOrder,
};
pub use mirror::tracked_skus::{MissingSkuRow, SKU_DISCOVERED, StalestProgress};
pub use mirror::warehouses::WarehouseRow;
pub use mirror::work_queue::{WorkQueueCounts, WorkQueueDifference, WorkQueueRow};
pub use outbox::brake::BrakeTripRow;
pub use outbox::changes::{ChangeContent, ChangeRow, NewChange, OpenChange, OutboxMark};
pub use outbox::evidence::{ClaimEvidence, ReferencedChange};
pub use outbox::in_doubt::{AdoptionRow, InDoubtRow};
pub use outbox::list::{NamedChange, OutboxFilter, OutboxGroup};
pub use outbox::queued::QueuedChange;
pub use outbox::resolve::{DecisionResult, ResolutionEffect};
pub use outbox::suspected_absence::SuspectedAbsenceRow;
pub use outbox::transitions::{ChangeOutcome, ClaimedChange};
pub use outbox::window::OutboxWindow;
pub use views::call_stats::{CallCount, CallOutcomeCount};
pub use views::change_history::{CandidateShipment, TransitionRow};
pub use views::explain::{CurrentStockLevel, ExplainedChange, ExplainedEvent, KnownSku, QuantityStateRow};
pub use views::health::{
    BackupRow, CallRow, EndedRunRow, HealthRows, LastSessionRow, OTHER_ACCOUNT, RejectedRow, UnreadableRow,
    WaitingRow,
};
pub use views::pages::{
    CallInterval, ExchangeFilter, PAGE_ROWS, StockFilter, StockPage, StockPageRow, StockSelection,
};
pub use views::status::{JobHealthRow, MirrorCounts, StockRow};
pub use views::units_at_risk::{UnitsAtRisk, UnitsTakenRow};
pub use views::verify::{MirrorAge, VerifyRow};
