//! The start: every room in its order, and the daemon that comes of it.

use super::keys::{self, Prober};
use super::supervise::{Reload, Supervisor};
use super::{boot_id, notify, settings};
use crate::client::{Client, HttpTransport, SetupError, Transport};
use crate::config::{Config, KeyError};
use crate::job::Context;
use crate::limiter::{Kept, Limiter, Memory, Place, Reason};
use crate::model::{Clock, JobKind, Moment, Timestamp};
use crate::schedule::{Driver, DriverError};
use crate::store::{Durability, Lock, LockError, Store, StoreError, UsedPlace};
use crate::telemetry::event;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The ledger of 400s looks back so far (*Limits*).
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Triggers that may wait for the loop; one per kind of job would do.
const TRIGGERS: usize = 64;

/// Why the daemon does not start, or does not go on.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another one works on this database.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The keys.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The way to the service.
    #[error(transparent)]
    Transport(#[from] SetupError),
    /// The schedules.
    #[error(transparent)]
    Schedule(#[from] DriverError),
}

/// A daemon that is started and does nothing yet.
pub struct Daemon {
    pub(super) context: Context,
    pub(super) config: Config,
    transport: Option<Arc<HttpTransport>>,
    _lock: Lock,
}

impl Daemon {
    /// Takes the lock, opens the database, mends what a crash left and remembers the account's budget.
    pub async fn start(config: Config, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let keys = config.service.keys.read()?;
        for warning in &keys.warnings {
            tracing::warn!(event = event::DAEMON_WARNING, "{warning}");
        }
        let pair = crate::client::Keys { integration: keys.integration, gateway: keys.gateway };
        let transport = Arc::new(HttpTransport::new(&settings::http(&config), &pair)?);
        Self::start_over(config, clock, Arc::<HttpTransport>::clone(&transport), Some(transport)).await
    }

    /// The same over any transport: in a simulation the service is in the same process.
    pub async fn start_over(
        config: Config,
        clock: Arc<dyn Clock>,
        transport: Arc<dyn Transport>,
        keyed: Option<Arc<HttpTransport>>,
    ) -> Result<Self, StartError> {
        let path = &config.database.path;
        let lock = Lock::take(path)?;
        let store = Store::open(path, &lock).await?;
        let limiter = limiter(&store, &config, &clock).await?;
        let (now, moment) = (clock.now(), clock.moment());
        let mut write = store.begin(Durability::Full).await?;
        let started = write.session_begin(&boot_id(&*clock), env!("CARGO_PKG_VERSION"), now, moment).await?;
        write.job_plan(&settings::plans(&config, now), now).await?;
        write.quantity_policies(&settings::policies(&config)).await?;
        write.commit().await?;
        if started.interrupted_runs + started.in_doubt > 0 {
            tracing::warn!(
                event = event::DAEMON_RECOVERED,
                runs = started.interrupted_runs,
                wishes = started.in_doubt,
                "the last tallyd ended in the middle of {} run(s); {} wish(es) are in doubt",
                started.interrupted_runs,
                started.in_doubt
            );
        }
        let client = Client::new(transport, Arc::clone(&clock));
        let context =
            Context::new(store, client, limiter, clock, started.session_id, settings::jobs(&config));
        Ok(Self { context, config, transport: keyed, _lock: lock })
    }

    /// What the jobs work with; the demonstration looks at the budget through it.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Works until `stop`, then drains and closes. What comes over `reload` is put in force without dropping a call.
    pub async fn run(
        self,
        stop: CancellationToken,
        mut reload: mpsc::Receiver<Config>,
    ) -> Result<(), StartError> {
        let schedules = settings::schedules(&self.config);
        self.warn_of_unbuilt();
        let (due, triggers) = mpsc::channel(TRIGGERS);
        let fire = move |kind: JobKind, at: Timestamp| {
            // A full channel means that the loop has as many triggers to look at as there are jobs, this one too.
            let _ = due.try_send((kind, at));
        };
        let mut driver = Driver::start(schedules.clone(), Arc::clone(&self.context.clock), fire).await?;
        let watch = self.context.store.watch();
        let prober = Prober::new(self.config.service.keys.clone(), self.transport.clone());
        let mut supervisor = Supervisor::new(self.context.clone(), schedules, triggers, watch, prober);
        notify::ready("working");
        tracing::info!(event = event::DAEMON_READY, version = env!("CARGO_PKG_VERSION"), "tallyd is ready");
        while let Some(config) = supervisor.work(&stop, &mut reload).await? {
            let changed = self.reload(&config).await?;
            driver.replace(changed.schedules.clone()).await?;
            supervisor.reload(changed, config.service.keys);
            notify::ready("working, with the configuration just read");
        }
        driver.stop().await;
        supervisor.drain().await?;
        drop(supervisor);
        tracing::info!(event = event::DAEMON_STOPPED, "tallyd stopped in good order");
        self.context.store.close().await?;
        Ok(())
    }

    /// Ends the session and folds the write-ahead log in, when nothing runs any more.
    pub(super) async fn close(self) -> Result<(), StoreError> {
        let context = self.context;
        let mut write = context.store.begin(Durability::Full).await?;
        write.session_end(context.session_id, context.now(), context.clock.moment()).await?;
        write.commit().await?;
        context.store.close().await
    }

    /// Puts a changed configuration in force, as far as it concerns the rooms; the schedules are left to the caller.
    async fn reload(&self, config: &Config) -> Result<Reload, StartError> {
        notify::reloading();
        self.context.reconfigure(settings::jobs(config));
        self.context.limiter.reconfigure(settings::limits(config));
        keys::read(&config.service.keys, self.transport.as_deref());
        let now = self.context.now();
        let mut write = self.context.store.begin(Durability::Full).await?;
        write.job_plan(&settings::plans(config, now), now).await?;
        write.quantity_policies(&settings::policies(config)).await?;
        write.commit().await?;
        tracing::info!(event = event::CONFIG_RELOADED, "the changed configuration is in force");
        Ok(Reload { schedules: settings::schedules(config) })
    }

    pub(super) fn warn_of_unbuilt(&self) {
        for (kind, _) in self.config.jobs.enabled() {
            if !crate::job::is_built(kind) {
                tracing::warn!(
                    event = event::DAEMON_WARNING,
                    job = kind.as_str(),
                    "the job {kind} is enabled, but this version does not do it yet"
                );
            }
        }
    }
}

/// The account's budget as the journal remembers it.
async fn limiter(store: &Store, config: &Config, clock: &Arc<dyn Clock>) -> Result<Limiter, StoreError> {
    let limits = settings::limits(config);
    let (now, moment) = (clock.now(), clock.moment());
    let boot_id = boot_id(&**clock);
    let used = store.exchange_places(&boot_id, limits.calls_per_minute).await?;
    let bad_requests = store.exchange_bad_requests(&boot_id, (now, moment), DAY).await?;
    let kept = store.limiter_memory().await?;
    let mut kept: Kept = kept.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    // A refused key may be another by now and the first call shows it; whoever judged an operation is gone.
    kept.holds.retain(|hold| !matches!(hold.reason, Reason::RefusedKey | Reason::Judging));
    let memory = Memory {
        places: used.iter().map(|place| held(place, moment)).collect(),
        bad_requests: bad_requests
            .into_iter()
            .map(|(ago, operation)| (moment.minus(ago), operation))
            .collect(),
        kept,
    };
    Ok(Limiter::new(limits, Arc::clone(clock), memory))
}

/// The place of a call of an earlier run; a moment of another boot means nothing in this one, so it counts as just
/// answered.
fn held(used: &UsedPlace, now: Moment) -> Place {
    match (used.same_boot, used.answered) {
        (true, Some(answered)) => Place::Answered(answered),
        (true, None) => Place::Unanswered(used.operation),
        (false, _) => Place::Answered(now),
    }
}
