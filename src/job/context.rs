//! What every job works with: the rooms at the edges, and plain settings.

use super::insist::Gate;
use super::probe::Proofs;
use super::push::Starts;
use crate::client::Client;
use crate::limiter::Limiter;
use crate::model::{Clock, JobKind, Moment, Timestamp, WarehouseId};
use crate::reconcile::isolation::Failures;
use crate::reconcile::{Policy, brake};
use crate::store::Store;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex as SyncMutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use tokio_util::sync::CancellationToken;

/// What every job works with.
#[derive(Clone)]
pub struct Context {
    /// The database.
    pub store: Store,
    /// The service.
    pub client: Client,
    /// The account's budget, shared by all.
    pub limiter: Limiter,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// This start of the daemon.
    pub session_id: i64,
    /// Shut while an answer cannot be written down.
    pub(super) gate: Gate,
    /// Recent results of key probes.
    pub(super) proofs: Proofs,
    settings: Arc<RwLock<Arc<Settings>>>,
    stopping: CancellationToken,
    /// Rung when wishes came while a push may be at work.
    wishes: watch::Sender<()>,
    /// Held by the run of each kind of job.
    turns: Arc<BTreeMap<JobKind, Arc<Mutex<()>>>>,
    /// The calls that failed lately, entry by entry ([`super::apart`]).
    pub(super) failures: Arc<SyncMutex<Failures>>,
    /// Times at which a push of few cells may begin.
    starts: Arc<SyncMutex<Starts>>,
}

/// The settings of the jobs, as plain values.
#[derive(Clone, Debug)]
pub struct Settings {
    /// SKUs in a balances call.
    pub skus_per_call: usize,
    /// The rules for quantities.
    pub quantities: QuantitySettings,
    /// How long and how large the journal is kept.
    pub retention: super::Retention,
    /// Calls of one operation in flight at a time.
    pub calls_in_flight: usize,
    /// The longest a call may take: what became of it may still change for as long again.
    pub timeout: Duration,
    /// Room on the disk below which no wish is claimed, in bytes.
    pub free_floor_bytes: u64,
    /// Where copies of the database go.
    pub backup: BackupSettings,
}

/// `[backup]`.
#[derive(Clone, Debug)]
pub struct BackupSettings {
    /// Where copies of the database are written.
    pub directory: PathBuf,
    /// How many of them are kept.
    pub keep: usize,
}

/// The rules for quantities.
#[derive(Clone, Debug)]
pub struct QuantitySettings {
    /// Where both sides moved.
    pub policy: Policy,
    /// The same for single warehouses.
    pub by_warehouse: BTreeMap<WarehouseId, Policy>,
    /// A cell is read again before it is written when its fact is older.
    pub max_fact_age: Duration,
    /// When a push is stopped before mass damage.
    pub brakes: brake::Settings,
    /// A count made against an older fact waits for the next read as its base.
    pub max_base_age: Duration,
}

impl QuantitySettings {
    /// The policy of a warehouse.
    pub fn policy_of(&self, warehouse: WarehouseId) -> Policy {
        self.by_warehouse.get(&warehouse).copied().unwrap_or(self.policy)
    }
}

impl Context {
    /// Puts the rooms together.
    pub fn new(
        store: Store,
        client: Client,
        limiter: Limiter,
        clock: Arc<dyn Clock>,
        session_id: i64,
        settings: Settings,
    ) -> Self {
        let settings = Arc::new(RwLock::new(Arc::new(settings)));
        let stopping = CancellationToken::new();
        let turns = Arc::new(JobKind::ALL.iter().map(|kind| (*kind, Arc::default())).collect());
        let (gate, proofs, wishes) = (Gate::default(), Proofs::default(), watch::Sender::default());
        let (failures, starts) = (Arc::default(), Arc::default());
        Self {
            store,
            client,
            limiter,
            clock,
            session_id,
            gate,
            proofs,
            settings,
            stopping,
            wishes,
            turns,
            failures,
            starts,
        }
    }

    /// Waits until no other run of the job is under way, whoever began it; the turn ends with what is returned.
    pub(super) async fn turn(&self, kind: JobKind) -> OwnedMutexGuard<()> {
        let turn = self.turns.get(&kind).expect("every kind of job has a turn");
        Arc::clone(turn).lock_owned().await
    }

    /// The settings in force now.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().expect("nobody panics while holding the settings"))
    }

    /// Puts other settings in force, from the next look on.
    pub fn reconfigure(&self, settings: Settings) {
        *self.settings.write().expect("nobody panics while holding the settings") = Arc::new(settings);
    }

    /// Lets nothing new begin: calls that wait for a place and pauses between attempts end at once.
    pub fn stop(&self) {
        self.limiter.close();
        self.stopping.cancel();
    }

    /// Until nothing new may begin.
    pub(super) async fn stopped(&self) {
        self.stopping.cancelled().await;
    }

    /// True if nothing new may begin.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// The times at which a push of few cells may begin.
    pub(super) fn starts(&self) -> MutexGuard<'_, Starts> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a push that is at work that there are new wishes; one that is not looks at its start anyway.
    pub fn wishes_came(&self) {
        self.wishes.send_replace(());
    }

    /// Changes when wishes come from now on.
    pub(super) fn new_wishes(&self) -> watch::Receiver<()> {
        self.wishes.subscribe()
    }

    /// The calendar's now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The time since boot, by which ages and waits are measured.
    pub fn moment(&self) -> Moment {
        self.clock.moment()
    }
}
