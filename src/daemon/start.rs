//! The start of the daemon, in the order given in [`super`].

use super::account_check::AccountIdentity;
use super::health_monitor::check_database_file;
use super::past_calls::past_reservations;
use super::standby::{Lead, LeaderHeartbeat, Looks};
use super::start_error::{StartError, check_attempt};
use super::supervise::{Supervisor, end_session};
use super::system_clock::machine_id;
use super::{boot_id, key_probe, settings, systemd};
use crate::client::{Client, HttpTransport, Transport, run_aside};
use crate::config::Config;
use crate::exec::JobContext;
use crate::limiter::{Limiter, LimiterState, PersistedState};
use crate::model::time::DAY;
use crate::model::{Clock, counted};
use crate::notify::{NoticeTopic, tell_occurrence};
use crate::projection;
use crate::schedule::ScheduleDriver;
use crate::store::{DatabaseLock, Durability, RollbackSign, Store, StoreError, StoreOptions};
use crate::telemetry::event;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The time limit for the checkpoint of the write-ahead log at shutdown. The
/// next start repeats a skipped one.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_millis(500);

pub struct Daemon {
    pub(super) context: JobContext,
    pub(crate) config: Config,
    transport: Option<Arc<HttpTransport>>,
    heartbeat: LeaderHeartbeat,
    _lock: DatabaseLock,
}

struct OpenedDatabase {
    store: Store,
    limiter: Limiter,
    session_id: i64,
    heartbeat: LeaderHeartbeat,
    /// True if another host led before.
    stood_by: bool,
}

impl Daemon {
    /// Takes the lock, opens the database, recovers interrupted work and restores the limiter. Fails with
    /// [`StartError::Led`] if another host's daemon leads the schema of a server.
    pub async fn start(config: Config, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        Self::start_with_options(config, clock, StoreOptions::default()).await
    }

    /// Starts like [`Daemon::start`], but waits for a lock on the database or a full disk, and stands
    /// by while another host's daemon leads.
    pub async fn start_or_stand_by(config: Config, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let options = StoreOptions { waits_to_start: true, ..StoreOptions::default() };
        Self::start_with_options(config, clock, options).await
    }

    async fn start_with_options(
        config: Config,
        clock: Arc<dyn Clock>,
        options: StoreOptions,
    ) -> Result<Self, StartError> {
        let (service, database) = (config.service.clone(), config.database.clone());
        let set_up = move || {
            let keys = service.keys.read_keys()?;
            for warning in keys.warnings.iter().chain(&database.password_warning()) {
                tracing::warn!(event = event::DAEMON_WARNING, "{warning}");
            }
            Ok::<_, StartError>(HttpTransport::new(&settings::http_settings(&service), &keys.account)?)
        };
        let transport = run_aside("the files of the keys and certificates", set_up).await;
        let transport = Arc::new(transport.map_err(StartError::FileHangs)??);
        let keyed = Some(Arc::clone(&transport));
        let options = StoreOptions { is_real_time: true, ..options };
        Self::start_with_transport(config, clock, transport, keyed, options).await
    }

    /// Starts over any transport; a simulation runs the platform in the same process.
    pub async fn start_with_transport(
        config: Config,
        clock: Arc<dyn Clock>,
        transport: Arc<dyn Transport>,
        keyed: Option<Arc<HttpTransport>>,
        options: StoreOptions,
    ) -> Result<Self, StartError> {
        let lock = DatabaseLock::acquire(&config.database.path)?;
        let may_retry = if options.waits_to_start { StoreError::delays_start } else { |_: &_| false };
        let opened = loop {
            let attempt = open_database(&config, &clock, &lock, options.clone()).await;
            if let Some(opened) = check_attempt("open the database", may_retry, &*clock, attempt).await? {
                break opened;
            }
        };
        let OpenedDatabase { store, limiter, session_id, heartbeat, stood_by } = opened;
        let (client, settings) =
            (Client::new(transport, Arc::clone(&clock)), settings::job_settings(&config));
        let context = JobContext::new(store, client, limiter, Arc::clone(&clock), session_id, settings);
        let daemon = Self { context, config, transport: keyed, heartbeat, _lock: lock };
        if stood_by {
            daemon.keep_refusal().await?;
        }
        let verified = loop {
            let attempt = daemon.account_identity().verify_binding(&daemon.context).await;
            let doing = "store the account of the database";
            if let Some(verified) = check_attempt(doing, may_retry, &*clock, attempt).await.transpose() {
                break verified;
            }
        };
        match verified {
            Ok(()) => {}
            // If the account could not be checked, only probes are sent.
            Err(StartError::Unverified(why)) => {
                daemon.context.limiter.refuse_key();
                tracing::error!(event = event::AUTH_REFUSED, "{why}; nothing is sent until a probe shows it");
            }
            Err(error) => {
                daemon.close().await?;
                return Err(error);
            }
        }
        Ok(daemon)
    }

    /// Refuses the key as the leader before did, if it is the same key: only probes are sent until one succeeds.
    async fn keep_refusal(&self) -> Result<(), StartError> {
        let context = &self.context;
        if context.store.key_is_refused().await? && self.account_identity().is_bound(context).await? {
            context.limiter.refuse_key();
            tracing::error!(
                event = event::AUTH_REFUSED,
                "the platform refused the key of the leader before, which is that of this host; nothing is sent until a \
                 probe succeeds; put the right key into its file on each host"
            );
        }
        Ok(())
    }

    fn account_identity(&self) -> AccountIdentity {
        let integration_key = self.transport.as_ref().and_then(|transport| transport.integration_key());
        AccountIdentity { base_url: self.config.service.base_url.clone(), integration_key }
    }

    pub fn context(&self) -> &JobContext {
        &self.context
    }

    /// Probes a refused key once and lifts the refusal if the platform accepts the key. For a
    /// simulation, which has its own loop.
    pub fn probe_key(&self) -> impl Future<Output = Result<bool, StartError>> + Send + use<> {
        let (context, account) = (self.context.clone(), self.account_identity());
        async move {
            context.key.forget();
            let works = key_probe::probe_in_run(context.clone(), Some(account)).await?;
            if works {
                context.limiter.lift_refusal();
            }
            Ok(works)
        }
    }

    /// Works until `stop`, then drains and closes. A configuration from `reload`
    /// is applied without dropping a call.
    pub async fn run(
        mut self,
        stop: CancellationToken,
        mut reload: mpsc::Receiver<Config>,
    ) -> Result<(), StartError> {
        let (driver, due_jobs) =
            ScheduleDriver::start(self.config.jobs.enabled_schedules(), Arc::clone(&self.context.clock))
                .await?;
        let (context, transport) = (self.context.clone(), self.transport.clone());
        let mut supervisor = Supervisor::new(context, &self.config, transport, due_jobs, driver.heartbeat());
        systemd::notify_ready("working");
        tracing::info!(event = event::DAEMON_READY, version = env!("CARGO_PKG_VERSION"), "tallyd is ready");
        loop {
            // A stop is not delayed by a statement that waits for a lock of another program.
            let changed = tokio::select! {
                () = stop.cancelled() => Ok(None),
                lost = self.heartbeat.wait_for_loss() => Err(lost),
                changed = supervisor.run_loop(&stop, &mut reload) => changed,
            };
            let changed = changed.inspect_err(|error| {
                if error.is_fenced() {
                    tracing::error!(event = event::LEAD_LOST, "{error}");
                }
            })?;
            let Some(config) = changed else { break };
            self.warn_of_restart(&config);
            let config = settings::until_restart(&self.config, config);
            tokio::select! {
                () = stop.cancelled() => break,
                reloaded = self.reload_with_retry(&config, &mut supervisor) => reloaded?,
            }
            driver.replace_schedules(config.jobs.enabled_schedules());
            self.config = config;
            systemd::notify_ready("working, with the configuration just read");
        }
        driver.stop().await;
        supervisor.drain_calls().await?;
        drop(supervisor);
        tracing::info!(event = event::DAEMON_STOPPED, "tallyd stopped in good order");
        match timeout(CHECKPOINT_TIMEOUT, self.context.store.close()).await {
            Ok(Err(error)) if !error.is_transient() => Err(error.into()),
            // Another program holds a lock: the next start makes the checkpoint.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Returns true if this process no longer leads the schema that it led. For a
    /// simulation, which has its own loop.
    pub fn has_lost_lead(&self) -> bool {
        self.heartbeat.has_ended()
    }

    /// Ends the session and checkpoints the write-ahead log; no job may be running.
    pub async fn close(self) -> Result<(), StoreError> {
        end_session(&self.context).await?;
        self.context.store.close().await
    }

    async fn reload_with_retry(
        &self,
        config: &Config,
        supervisor: &mut Supervisor,
    ) -> Result<(), StartError> {
        systemd::notify_reloading();
        loop {
            check_database_file(&self.context)?;
            let attempt = match supervisor.apply_reload(config).await {
                Ok(()) => self.apply_reload(config).await,
                Err(error) => Err(error.into()),
            };
            let (doing, may_retry) = ("apply the changed configuration", StoreError::is_transient);
            if check_attempt(doing, may_retry, &*self.context.clock, attempt).await?.is_some() {
                return Ok(());
            }
        }
    }

    /// Applies a new configuration, except its schedules, which the caller applies.
    async fn apply_reload(&self, config: &Config) -> Result<(), StartError> {
        self.context.reconfigure(settings::job_settings(config));
        self.context.limiter.reconfigure(config.limits.clone());
        let now = self.context.now();
        let mut write = self.context.store.begin_write(Durability::Full).await?;
        write.job_schedules_store(&settings::job_plans(config, now), now).await?;
        write.quantity_policies_store(&settings::policy_codes(config)).await?;
        write.commit().await?;
        tracing::info!(event = event::CONFIG_RELOADED, "the changed configuration is in force");
        Ok(())
    }

    fn warn_of_restart(&self, config: &Config) {
        let keys = settings::restart_for(&self.config, config).join(", ");
        if !keys.is_empty() {
            tracing::warn!(
                event = event::DAEMON_WARNING,
                keys,
                "{keys}: changed, but in force only after `sudo systemctl restart`"
            );
        }
        key_probe::warn_of_copied_keys(&config.service.keys);
    }
}

/// Opens the database, leads if others could, and begins a session. A failed attempt may be repeated.
async fn open_database(
    config: &Config,
    clock: &Arc<dyn Clock>,
    lock: &DatabaseLock,
    options: StoreOptions,
) -> Result<OpenedDatabase, StartError> {
    let database = config.database.clone();
    let location = run_aside("the file of the database's password", move || database.location()).await;
    let location = location.map_err(StartError::FileHangs)??;
    let store = Store::open_to_lead(location, lock, options.clone()).await?;
    let lead = Lead::take(&store, lock, config, &**clock, &options).await?;
    // A simulation of one host has no heartbeat, so that its order of events is the same on both engines.
    let heartbeat = match lead.is_some() && (options.is_real_time || options.waits_to_start) {
        true => LeaderHeartbeat::start(&store, config.database.takeover_after, clock),
        false => LeaderHeartbeat::default(),
    };
    store.migrate().await?;
    let host = match machine_id() {
        Some(id) => Some(store.account_binding().await?.host_digest(&id)),
        None => None,
    };
    let is_sign = !config.database.moves_between_hosts && lead.is_none();
    let restored = store.rollback_sign(host.as_deref().filter(|_| is_sign)).await?;
    let looks = lead.as_ref().map(|lead| &lead.looks);
    let limiter = restore_limiter(&store, config, clock, (restored.is_some(), looks)).await?;
    let signs = (restored.as_ref(), host.as_deref(), lead.as_ref());
    let may_wait = |error: &StoreError| options.waits_to_start && error.is_refusal();
    let session_id = loop {
        let attempt = begin_session(&store, config, &**clock, signs).await;
        if let Some(id) = check_attempt("begin a session", may_wait, &**clock, attempt).await? {
            break id;
        }
    };
    let stood_by = lead.is_some_and(|lead| lead.stood_by);
    Ok(OpenedDatabase { store, limiter, session_id, heartbeat, stood_by })
}

/// Recovers interrupted work, holds what a restore may have undone, and stores the settings of jobs and
/// policies. A single transaction with full durability.
async fn begin_session(
    store: &Store,
    config: &Config,
    clock: &dyn Clock,
    (restored, host, lead): (Option<&RollbackSign>, Option<&str>, Option<&Lead>),
) -> Result<i64, StartError> {
    let (now, moment) = (clock.now(), clock.moment());
    let mut write = store.begin_write(Durability::Full).await?;
    let changed = projection::upgrade_projection(store, &mut write, now).await?;
    let started = write.session_begin(&boot_id(clock), env!("CARGO_PKG_VERSION"), now, moment).await?;
    write.session_describe(started.session_id, projection::PROJECTION_VERSION, host).await?;
    let held = match restored {
        Some(restored) => write.rollback_hold(restored, now).await?,
        None => 0,
    };
    write.job_schedules_store(&settings::job_plans(config, now), now).await?;
    write.quantity_policies_store(&settings::policy_codes(config)).await?;
    if let Some(lead) = lead {
        write.takeover_store(lead.takeover_duration(clock.moment())).await?;
    }
    if started.was_interrupted {
        let message = "the last tallyd ended in the middle of its work; this one recovered it and works";
        let todo = "nothing; if it comes often, see: sudo journalctl -u tallyd -p warning";
        tell_occurrence(&mut write, &config.notifiers, NoticeTopic::Daemon, (message, todo), now).await?;
    }
    write.commit().await?;
    if let Some(from) = changed {
        let to = projection::PROJECTION_VERSION;
        tracing::info!(
            event = event::PROJECTION_CHANGED,
            from,
            to,
            "projection version {to} continues after a snapshot of version {from}"
        );
    }
    if let Some(RollbackSign { description, .. }) = restored {
        tracing::error!(
            event = event::DATABASE_RESTORED,
            changes = held,
            "{description}; tallyd holds {} that may have taken effect since, and new ones: see `tallyd outbox list \
             --state held`; `tallyd outbox release --all` ends it",
            counted(held, "change")
        );
    }
    if started.interrupted_runs + started.in_doubt > 0 {
        tracing::warn!(
            event = event::DAEMON_RECOVERED,
            runs = started.interrupted_runs,
            changes = started.in_doubt,
            "the last tallyd ended during {}, with {} in doubt",
            counted(started.interrupted_runs, "run"),
            counted(started.in_doubt, "change")
        );
    }
    Ok(started.session_id)
}

/// Restores the limiter from the journal. If the database went back in time, its newest calls are unknown.
/// The known calls then count as just answered, as after a reboot.
async fn restore_limiter(
    store: &Store,
    config: &Config,
    clock: &Arc<dyn Clock>,
    (has_lost_calls, looks): (bool, Option<&Looks>),
) -> Result<Limiter, StoreError> {
    let limits = config.limits.clone();
    let (now, moment) = (clock.now(), clock.moment());
    let looks = looks.filter(|_| !has_lost_calls);
    let boot_id = if has_lost_calls { String::new() } else { boot_id(&**clock) };
    let used = store.exchange_reservations(limits.calls_in_longest_reservation()).await?;
    let bad_requests = store.exchange_bad_requests(&boot_id, (now, moment), DAY).await?;
    let stored = store.limiter_state().await?;
    let limiter_state = stored.map_or_else(LimiterState::default, |text| parse_limiter_state(&text));
    let persisted = PersistedState {
        reservations: past_reservations(&used, &boot_id, looks, moment),
        bad_requests: bad_requests
            .into_iter()
            .map(|(ago, operation)| (moment.minus(ago), operation))
            .collect(),
        limiter_state,
    };
    Ok(Limiter::new(limits, Arc::clone(clock), persisted))
}

fn parse_limiter_state(text: &str) -> LimiterState {
    serde_json::from_str(text).unwrap_or_else(|error| {
        tracing::warn!(
            event = event::DAEMON_WARNING,
            "the stored state of the limiter is unreadable ({error}); its holds and its adaptive limit are dropped; \
             the platform orders a wait again with its next 429"
        );
        LimiterState::default()
    })
}
