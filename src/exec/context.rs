//! Shared dependencies of all jobs, and their settings.

use super::commit_retry::ClaimGate;
use super::key_probe::KeyRecord;
use super::start_budget::StartBudget;
use crate::client::Client;
use crate::limiter::Limiter;
use crate::model::{Clock, JobKind, Moment, Timestamp, WarehouseId};
use crate::reconcile::isolation::EntryFailures;
use crate::reconcile::{CountPolicy, brake};
use crate::store::Store;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as SyncMutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use tokio_util::sync::CancellationToken;

/// Shared dependencies of all jobs. Clones share their state.
#[derive(Clone)]
pub struct JobContext {
    /// Database.
    pub store: Store,
    /// Client of the platform.
    pub client: Client,
    /// Limiter of the account's calls, shared by all jobs.
    pub limiter: Limiter,
    /// Clock.
    pub clock: Arc<dyn Clock>,
    /// Session: this start of the daemon.
    pub session_id: i64,
    /// Claim gate, closed while an answer cannot be committed.
    pub(crate) claim_gate: ClaimGate,
    /// True if free disk space was below its floor when changes were last to be claimed.
    pub(super) is_disk_low: Arc<AtomicBool>,
    pub(crate) key: KeyRecord,
    settings: Arc<RwLock<Arc<JobSettings>>>,
    stopping: CancellationToken,
    /// Notification of new changes for a running push.
    change_notifier: watch::Sender<()>,
    /// Lock of each kind of job; its run holds it.
    job_locks: Arc<BTreeMap<JobKind, Arc<Mutex<()>>>>,
    /// Recent failures by entry ([`super::quarantine`]).
    pub(crate) entry_failures: Arc<SyncMutex<EntryFailures>>,
    start_budget: Arc<SyncMutex<StartBudget>>,
    /// SKUs of a balances call, as proved since the start; 0: none was proved under these settings.
    pub(crate) proved_page_skus: Arc<AtomicUsize>,
    /// Time for which a commit is tried again.
    pub(crate) commit_patience: Duration,
}

/// Settings of the jobs, as plain values.
#[derive(Clone, Debug)]
pub struct JobSettings {
    /// SKUs in a balances call.
    pub skus_per_call: usize,
    /// Settings of quantities.
    pub(crate) quantities: QuantitySettings,
    /// Limits of the journal's age and size.
    pub retention: JournalRetention,
    /// Limit of calls of an operation in flight.
    pub calls_in_flight: usize,
    /// Timeout of a call. The outcome of a call may still change until twice this time after the send.
    pub timeout: Duration,
    /// Longest time between the record of a call and its send, where another host may take over (docs/rules.md 23).
    pub send_within: Duration,
    /// Free disk space in bytes, below which no change is claimed.
    pub free_floor_bytes: u64,
    /// Settings of scheduled copies of the database.
    pub(crate) backup: BackupSettings,
}

/// Limits of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalRetention {
    /// Time for which the bodies of exchanges are kept.
    pub keep_bodies: Duration,
    /// Used bytes of the database above which the oldest bodies are deleted earlier.
    pub max_size: u64,
}

/// Settings of `[backup]`.
#[derive(Clone, Debug)]
pub(crate) struct BackupSettings {
    /// Directory of the copies.
    pub directory: PathBuf,
    /// Number of copies that are kept.
    pub keep: usize,
}

/// Settings of quantities.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QuantitySettings {
    /// Policy for a stock level that moved at the platform since it was counted.
    pub policy: CountPolicy,
    /// Policies of single warehouses.
    pub by_warehouse: BTreeMap<WarehouseId, CountPolicy>,
    /// Limit of a fact's age at a write; an older fact is read again first.
    pub max_fact_age: Duration,
    /// Thresholds of the brakes.
    pub(crate) brakes: brake::BrakeSettings,
    /// Limit of a base's age at the insertion of a count. With an older fact the next read is the base.
    pub max_base_age: Duration,
}

impl QuantitySettings {
    /// Returns the policy of a warehouse.
    pub(crate) fn policy_of(&self, warehouse: WarehouseId) -> CountPolicy {
        self.by_warehouse.get(&warehouse).copied().unwrap_or(self.policy)
    }
}

impl JobContext {
    /// Creates the context.
    pub fn new(
        store: Store,
        client: Client,
        limiter: Limiter,
        clock: Arc<dyn Clock>,
        session_id: i64,
        settings: JobSettings,
    ) -> Self {
        Self {
            store,
            client,
            limiter,
            clock,
            session_id,
            claim_gate: ClaimGate::default(),
            is_disk_low: Arc::default(),
            key: KeyRecord::default(),
            settings: Arc::new(RwLock::new(Arc::new(settings))),
            stopping: CancellationToken::new(),
            change_notifier: watch::Sender::default(),
            job_locks: Arc::new(JobKind::ALL.iter().map(|kind| (*kind, Arc::default())).collect()),
            entry_failures: Arc::default(),
            start_budget: Arc::default(),
            proved_page_skus: Arc::default(),
            commit_patience: Duration::MAX,
        }
    }

    /// Waits until no other run of the job is active. The run owns the job until the guard is dropped.
    pub(crate) async fn lock_job(&self, kind: JobKind) -> OwnedMutexGuard<()> {
        Arc::clone(&self.job_locks[&kind]).lock_owned().await
    }

    /// Returns the settings in force.
    pub fn settings(&self) -> Arc<JobSettings> {
        Arc::clone(&self.settings.read().expect("no code panics while it holds the settings"))
    }

    /// Replaces the settings. A job uses them from its next call of [`Self::settings`] on.
    pub fn reconfigure(&self, settings: JobSettings) {
        if self.settings().skus_per_call != settings.skus_per_call {
            self.proved_page_skus.store(0, Ordering::Relaxed);
        }
        *self.settings.write().expect("no code panics while it holds the settings") = Arc::new(settings);
    }

    /// Returns the page size of balances that was proved, or else the configured one.
    pub(crate) fn page_skus(&self) -> usize {
        match self.proved_page_skus.load(Ordering::Relaxed) {
            0 => self.settings().skus_per_call,
            proved => proved,
        }
    }

    /// Stops the jobs: waits for reservations and pauses between attempts end at once.
    pub fn stop_jobs(&self) {
        self.stopping.cancel();
    }

    pub(crate) async fn wait_for_stop(&self) {
        self.stopping.cancelled().await;
    }

    pub(crate) fn start_budget(&self) -> MutexGuard<'_, StartBudget> {
        self.start_budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies a running push of new changes. A push that starts later reads them anyway.
    pub fn notify_changes(&self) {
        self.change_notifier.send_replace(());
    }

    /// Returns a receiver that changes with each later notification of new changes.
    pub(crate) fn subscribe_changes(&self) -> watch::Receiver<()> {
        self.change_notifier.subscribe()
    }

    /// Returns the time by the calendar.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the time since boot, by which ages and delays are measured.
    pub fn moment(&self) -> Moment {
        self.clock.moment()
    }
}
