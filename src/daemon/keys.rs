//! A refused key, and how it heals without a restart.
//!
//! While the key is refused nothing is sent but a probe: one cheap call, at growing intervals, and at once when the
//! key files hold something new. A key that is not known to be the same company's counts as refused until the list of
//! warehouses has shown it (rules.md 21).

use super::belonging::Account;
use super::start::StartError;
use crate::client::{HttpTransport, Keys};
use crate::config::KeySource;
use crate::job::{self, Context};
use crate::model::{JobKind, Trigger};
use crate::outbox::Delays;
use crate::store::{Durability, StoreError};
use crate::telemetry::event;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How often the key files are looked at while the key is refused; it costs no call.
const LOOK: Duration = Duration::from_secs(2);

/// Looks after a refused key.
pub(super) struct Prober {
    source: KeySource,
    base_url: String,
    /// None where the requests do not go over HTTP: then there is no key to exchange.
    transport: Option<Arc<HttpTransport>>,
    refused: Option<Refused>,
    healed: bool,
}

struct Refused {
    delays: Delays,
    probe_at: Instant,
    look_at: Instant,
    /// The probe under way. The loop does not wait for it: an answer can take as long as a call's time-out.
    probing: Option<JoinHandle<Result<bool, StoreError>>>,
}

impl Prober {
    pub(super) fn new(source: KeySource, base_url: String, transport: Option<Arc<HttpTransport>>) -> Self {
        Self { source, base_url, transport, refused: None, healed: false }
    }

    /// Begins to look after the key.
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

    /// Looks after a key that was exchanged, at once.
    pub(super) fn probe_now(&mut self) {
        self.refused();
        if let Some(refused) = &mut self.refused {
            refused.probe_at = Instant::now();
        }
    }

    /// Takes the keys from elsewhere from now on.
    pub(super) fn take(&mut self, source: KeySource) {
        self.source = source;
    }

    /// When it wants to look next.
    pub(super) fn due(&self) -> Option<Instant> {
        self.refused.as_ref().map(|refused| refused.look_at.min(refused.probe_at))
    }

    /// Whether the key works again since the last time this was asked.
    pub(super) fn healed(&mut self) -> bool {
        std::mem::take(&mut self.healed)
    }

    /// Reads the key files again and probes if that is due.
    pub(super) async fn look(&mut self, context: &Context) -> Result<(), StoreError> {
        let Some(refused) = &mut self.refused else { return Ok(()) };
        let now = Instant::now();
        if now < refused.look_at && now < refused.probe_at {
            return Ok(());
        }
        refused.look_at = now + LOOK;
        match refused.probing.take_if(|probe| probe.is_finished()) {
            Some(probe) => {
                // A probe that broke off has decided nothing.
                if probe.await.unwrap_or(Ok(false))? {
                    self.heal(context);
                }
            }
            None if refused.probing.is_some() => {}
            None => {
                let is_new = read(context, &self.source, &self.base_url, self.transport.as_deref()).await?;
                if is_new || now >= refused.probe_at {
                    refused.probe_at = now + refused.delays.next().unwrap_or(LOOK);
                    let account = account(&self.source, &self.base_url, self.transport.is_some());
                    refused.probing = Some(tokio::spawn(probe(context.clone(), account)));
                }
            }
        }
        Ok(())
    }

    fn heal(&mut self, context: &Context) {
        context.limiter.lift_refusal();
        self.refused = None;
        self.healed = true;
        tracing::info!(event = event::AUTH_RESTORED, "the service accepts the key again; work goes on");
    }
}

/// Reads the keys and hands them to the transport; whether they changed. Nothing but a probe goes out with a key that
/// may be another company's.
pub(super) async fn read(
    context: &Context,
    source: &KeySource,
    base_url: &str,
    transport: Option<&HttpTransport>,
) -> Result<bool, StoreError> {
    let Some(transport) = transport else { return Ok(false) };
    let pair = match source.read() {
        Ok(pair) => pair,
        Err(why) => {
            tracing::warn!(event = event::AUTH_REFUSED, "{why}");
            return Ok(false);
        }
    };
    let integration_key = Some(pair.integration.clone());
    if !(Account { base_url: base_url.to_owned(), integration_key }).is_known(context).await? {
        drop(context.limiter.refuse_key("it is another key: is it the same company's?"));
    }
    let keys = Keys { integration: pair.integration, gateway: pair.gateway };
    Ok(transport.set_keys(&keys).unwrap_or_else(|why| {
        tracing::warn!(event = event::AUTH_REFUSED, "{why}");
        false
    }))
}

/// Whom the keys speak as, if they can be read.
fn account(source: &KeySource, base_url: &str, is_keyed: bool) -> Option<Account> {
    let keys = is_keyed.then(|| source.read()).transpose().ok()?;
    Some(Account { base_url: base_url.to_owned(), integration_key: keys.map(|keys| keys.integration) })
}

/// One call in a run of its own, so that it stands in the journal.
pub(super) async fn probe(context: Context, account: Option<Account>) -> Result<bool, StoreError> {
    let now = context.now();
    let mut write = context.store.begin(Durability::Normal).await?;
    let run = write.run_begin(context.session_id, JobKind::WorkQueue, Trigger::Retry, now).await?;
    write.commit().await?;
    let works = job::key_works(&context, run).await;
    let (outcome, summary) = match &works {
        Ok(true) => (crate::journal::RunOutcome::Ok, "probe: the key works"),
        Ok(false) => (crate::journal::RunOutcome::Failed, "probe: the key is still refused"),
        Err(_) => (crate::journal::RunOutcome::Interrupted, "probe: not answered"),
    };
    let mut write = context.store.begin(Durability::Normal).await?;
    write.run_end(run, JobKind::WorkQueue, outcome, summary, context.now()).await?;
    write.commit().await?;
    let Some(account) = account.filter(|_| works.unwrap_or(false)) else { return Ok(false) };
    match account.prove(&context).await {
        Ok(()) => Ok(true),
        Err(StartError::Store(error)) => Err(error),
        Err(why) => {
            tracing::error!(event = event::AUTH_REFUSED, "{why}");
            Ok(false)
        }
    }
}
