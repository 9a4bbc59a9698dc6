//! The recovery from a refused key without a restart.
//!
//! While the key is refused, only probes are sent: one cheap call at growing intervals, and at once after the
//! key files changed. A key not known to belong to the same account counts as refused until the list of
//! warehouses verifies it (docs/rules.md 21). Until then only probes use it; a call that already has its
//! reservation goes out with the old key.

use super::account_check::Account;
use super::start_error::StartError;
use crate::client::{Client, HttpTransport, Keys};
use crate::config::KeySource;
use crate::exec;
use crate::exec::{Context, Probed};
use crate::journal::RunOutcome;
use crate::model::{Delays, JobKind, Trigger};
use crate::reconcile::proof::Key;
use crate::store::{Durability, StoreError};
use crate::telemetry::event;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The interval at which the key files are read while the key is refused; it costs no call.
const LOOK: Duration = Duration::from_secs(2);

/// The probe of a refused key.
pub(super) struct Prober {
    source: KeySource,
    base_url: String,
    /// The transport; `None` if requests do not go over HTTP, so that there is no key.
    transport: Option<Arc<HttpTransport>>,
    /// The account of the keys last read; `None` until they were read.
    account: Option<Account>,
    /// The transport with new keys that are not verified yet; only probes use it.
    trial: Option<Arc<HttpTransport>>,
    refused: Option<Refused>,
    healed: bool,
}

struct Refused {
    delays: Delays,
    probe_at: Instant,
    look_at: Instant,
    /// The probe in progress. The loop does not wait for it, because it can take a call's time-out.
    probing: Option<JoinHandle<Result<bool, StoreError>>>,
}

impl Prober {
    pub(super) fn new(source: KeySource, base_url: String, transport: Option<Arc<HttpTransport>>) -> Self {
        let keyless = || Account { base_url: base_url.clone(), integration_key: None };
        let account = transport.is_none().then(keyless);
        Self { source, base_url, transport, account, trial: None, refused: None, healed: false }
    }

    /// Starts probing.
    pub(super) fn refused(&mut self) {
        if self.refused.is_none() {
            if self.source.needs_restart() {
                tracing::warn!(
                    event = event::DAEMON_WARNING,
                    "the keys are copies made at the start (systemd credentials, environment): once the right one is \
                     in its place, `systemctl restart` puts it in force"
                );
            }
            let mut delays = Delays::probe();
            let now = Instant::now();
            let probe_at = now + delays.next().unwrap_or(LOOK);
            self.refused = Some(Refused { delays, probe_at, look_at: now + LOOK, probing: None });
        }
    }

    /// Replaces the source of the keys, and probes at once if a changed key is not verified.
    pub(super) async fn take(&mut self, source: KeySource, context: &Context) -> Result<(), StoreError> {
        self.source = source;
        if self.read(context).await? && context.limiter.is_refused() {
            self.refused();
            if let Some(refused) = &mut self.refused {
                refused.probe_at = Instant::now();
            }
        }
        Ok(())
    }

    /// Returns the time of the next check.
    pub(super) fn due(&self) -> Option<Instant> {
        self.refused.as_ref().map(|refused| refused.look_at.min(refused.probe_at))
    }

    /// Returns true once after the key was restored.
    pub(super) fn healed(&mut self) -> bool {
        std::mem::take(&mut self.healed)
    }

    /// Reads the key files and starts a probe, if either is due.
    pub(super) async fn look(&mut self, context: &Context) -> Result<(), StoreError> {
        let Some(refused) = &mut self.refused else { return Ok(()) };
        let now = Instant::now();
        if now < refused.look_at && now < refused.probe_at {
            return Ok(());
        }
        refused.look_at = now + LOOK;
        match refused.probing.take_if(|probe| probe.is_finished()) {
            Some(probe) => {
                // A cancelled probe decided nothing.
                if probe.await.unwrap_or(Ok(false))? {
                    self.heal(context);
                }
            }
            None if refused.probing.is_some() => {}
            None => {
                let is_new = self.read(context).await?;
                self.probe(context, is_new, now);
            }
        }
        Ok(())
    }

    fn probe(&mut self, context: &Context, at_once: bool, now: Instant) {
        let Some(refused) = self.refused.as_mut().filter(|refused| at_once || now >= refused.probe_at) else {
            return;
        };
        refused.probe_at = now + refused.delays.next().unwrap_or(LOOK);
        let mut context = context.clone();
        if let Some(trial) = &self.trial {
            context.client = Client::new(Arc::<HttpTransport>::clone(trial), Arc::clone(&context.clock));
        }
        refused.probing = Some(tokio::spawn(probe(context, self.account.clone())));
    }

    fn heal(&mut self, context: &Context) {
        if let (Some(transport), Some(trial)) = (&self.transport, self.trial.take()) {
            transport.take_keys(&trial);
        }
        context.limiter.lift_refusal();
        self.refused = None;
        self.healed = true;
        tracing::info!(event = event::AUTH_RESTORED, "the service accepts the key again; work goes on");
    }

    /// Returns the account of the keys in the files, and a transport with these keys.
    fn trial_of(&self, transport: &HttpTransport) -> Result<(Account, HttpTransport), Box<dyn Error>> {
        let pair = self.source.read()?;
        let keys = Keys { integration: pair.integration, gateway: pair.gateway };
        let way = transport.with_keys(&keys)?;
        Ok((Account { base_url: self.base_url.clone(), integration_key: Some(keys.integration) }, way))
    }

    /// Reads the keys and returns true if they changed.
    ///
    /// Keys that may belong to another account are used only by probes.
    async fn read(&mut self, context: &Context) -> Result<bool, StoreError> {
        let Some(transport) = &self.transport else { return Ok(false) };
        let (account, read) = match self.trial_of(transport) {
            Ok(read) => read,
            Err(why) => {
                tracing::warn!(event = event::AUTH_REFUSED, "{why}");
                return Ok(false);
            }
        };
        let is_new = !read.has_keys_of(self.trial.as_ref().unwrap_or(transport));
        if self.account.insert(account).is_known(context).await? {
            transport.take_keys(&read);
            self.trial = None;
        } else {
            drop(context.limiter.refuse_key("it is another key: is it the same company's?"));
            if is_new {
                self.trial = Some(Arc::new(read));
            }
        }
        if let Some(refused) = self.refused.as_mut().filter(|_| is_new) {
            // The result of a probe with old keys is recorded, but does not lift the refusal.
            refused.probing = None;
        }
        Ok(is_new)
    }
}

/// Probes the key in a run of its own. Returns true only if the answer proves that the key works.
pub(super) async fn probe(context: Context, account: Option<Account>) -> Result<bool, StoreError> {
    let now = context.now();
    let mut write = context.store.begin(Durability::Normal).await?;
    let run = write.run_begin(context.session_id, JobKind::WorkQueue, Trigger::Retry, now).await?;
    write.commit().await?;
    let probed = exec::probe_key(&context, run).await;
    let works = matches!(&probed, Ok(Probed { key: Key::Works, .. }));
    let (outcome, summary) = match probed {
        Ok(Probed { key: Key::Works, .. }) => (RunOutcome::Ok, "probe: the key works".to_owned()),
        Ok(Probed { key: Key::Refused, why }) => {
            (RunOutcome::Failed, format!("probe: the key is still refused: {why}"))
        }
        Ok(Probed { key: Key::NotKnown, why }) => (
            RunOutcome::Failed,
            format!("probe: the platform does not tell whether it accepts the key: {why}"),
        ),
        Err(error) => (RunOutcome::Interrupted, format!("probe: {error}")),
    };
    let mut write = context.store.begin(Durability::Normal).await?;
    write.run_end(run, JobKind::WorkQueue, outcome, &summary, context.now()).await?;
    write.commit().await?;
    let Some(account) = account.filter(|_| works) else { return Ok(false) };
    match account.prove(&context).await {
        Ok(()) => Ok(true),
        Err(StartError::Store(error)) => Err(error),
        Err(why) => {
            tracing::error!(event = event::AUTH_REFUSED, "{why}");
            Ok(false)
        }
    }
}
