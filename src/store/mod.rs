//! Storage in SQLite, and in PostgreSQL for the tests: the only module with SQL beside the sandbox.
//!
//! Each file holds one concept. Method names begin with their noun, so completion after `outbox_`
//! lists the operations on the outbox.
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
//! A single process holds the lock beside the database ([`DatabaseLock`]). It migrates, writes facts and
//! runs checkpoints; other programs read and insert changes. Inside the process one writer works at a
//! time: [`Store::begin_write`] waits for the connection, then runs `BEGIN IMMEDIATE`. A deferred
//! transaction that reads first would fail at once after a write by another program, and SQLite applies
//! no busy timeout to that failure.
//!
//! [`Durability::Full`] syncs the write-ahead log at commit. It serves claims and outcomes of writes, which
//! must survive a power cut. [`Durability::Normal`] does not sync: pages of facts can be read again. A
//! killed process loses nothing with either.
//!
//! No transaction may stay open during a call to the platform, so [`WriteTransaction`] is not passed
//! to code that awaits the network.

mod control;
mod engine;
mod journal;
mod mirror;
mod outbox;
mod views;

pub(crate) use control::pause::PauseRow;
pub(crate) use control::quarantine::QuarantineRow;
pub(crate) use control::request::ControlRequestRow;
pub(crate) use engine::backup::VerifiedCopy;
pub use engine::backup::scheduled_copy_name;
pub use engine::connection::StoreOptions;
pub use engine::error::{Result, StoreError};
pub(crate) use engine::files::{FileId, remove_database, with_suffix};
pub(crate) use engine::leader::LeaderRow;
pub(crate) use engine::leadership::{DaemonName, host_name};
pub use engine::location::DatabaseLocation;
pub(crate) use engine::lock::LockError;
pub use engine::lock::{DatabaseLock, LockState};
pub(crate) use engine::lossy_text::LossyText;
pub use engine::migrations::migrations_of;
pub(crate) use engine::move_database::MovedTable;
pub use engine::move_database::{MoveReport, move_database};
pub use engine::open::Store;
#[cfg(test)]
pub(crate) use engine::postgres::server_statements;
pub use engine::postgres_database::PostgresDatabase;
pub(crate) use engine::postgres_database::url_has_password;
pub(crate) use engine::rollback_detection::RollbackSign;
pub(crate) use engine::server_check::ServerReport;
pub(crate) use engine::table_rows::ReplacedText;
pub(crate) use engine::watch::DatabaseWatch;
pub use engine::write_transaction::{Durability, WriteTransaction};
pub(crate) use journal::detail::{ExchangeDetail, RunChange};
pub(crate) use journal::event::{JournalEvent, QUOTA_LIFTED};
pub(crate) use journal::exchange::UsedReservation;
pub use journal::fact_tables::TableComparison;
pub(crate) use journal::fact_tables::{FACT_TABLES, FactRow, RowDifference, row_differences};
pub(crate) use journal::projection_version::PROJECTION_CHANGED;
pub(crate) use journal::prune::PrunedRows;
pub(crate) use journal::reader::{JournalEntry, JournalReader};
pub(crate) use journal::run::{ExchangeRow, JobSchedule, RunRow};
pub(crate) use journal::snapshot::SnapshotRow;
pub(crate) use mirror::balances::BalancesRecorded;
pub(crate) use mirror::balances::page::BalancePage;
pub(crate) use mirror::balances::unchanged::UnparsedAnswer;
pub(crate) use mirror::kits::KIT_TYPE;
pub(crate) use mirror::orders::OrderPage;
pub(crate) use mirror::platform_lists::PlatformList;
pub(crate) use mirror::products::ProductStock;
pub(crate) use mirror::readback::MismatchRow;
pub(crate) use mirror::stock_levels::{PlannedStockLevel, StockLevelRow, StockLevelWrite};
pub(crate) use mirror::tracked_orders::{OrderRow, OrderState, RequestedOrder};
pub(crate) use mirror::tracked_skus::StalestProgress;
pub(crate) use outbox::brake::BrakeTripRow;
pub(crate) use outbox::changes::ChangeRow;
pub(crate) use outbox::changes::{OpenChange, OutboxMark};
pub(crate) use outbox::evidence::{ClaimEvidence, ReferencedChange};
pub(crate) use outbox::in_doubt::{AdoptionRow, InDoubtRow};
pub(crate) use outbox::list::{NamedChange, OutboxFilter, OutboxGroup};
pub(crate) use outbox::not_shown::NotShownRow;
pub(crate) use outbox::queued::ChangeSummary;
pub(crate) use outbox::resolve::DecisionResult;
pub use outbox::transitions::ChangeOutcome;
pub(crate) use outbox::transitions::ClaimedChange;
pub(crate) use outbox::window::OutboxWindow;
pub(crate) use views::call_stats::CallInterval;
pub(crate) use views::change_history::CandidateShipment;
pub(crate) use views::change_history::TransitionRow;
pub(crate) use views::explain::{
    CurrentStockLevel, ExplainedChange, ExplainedEvent, KnownSku, QuantityStateRow,
};
pub use views::health::HealthRows;
pub(crate) use views::health::{LastSessionRow, OTHER_ACCOUNT, RejectedRow, WaitingRow};
pub(crate) use views::pages::{ExchangeFilter, PAGE_ROWS, StockSelection};
pub(crate) use views::pages::{StockFilter, StockPage, StockPageRow};
pub(crate) use views::status::JobHealthRow;
pub(crate) use views::status::{MirrorCounts, StockRow};
pub(crate) use views::units_at_risk::{UnitsAtRisk, UnitsTakenRow};
pub(crate) use views::verify::VerifyRow;
