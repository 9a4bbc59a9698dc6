//! A refused key, and how it heals without a restart.
//!
//! While the key is refused nothing is sent but a probe: one cheap call, at growing intervals, and at once when the
//! key files hold something new.

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
    pub(super) fn new(source: KeySource, transport: Option<Arc<HttpTransport>>) -> Self {
        Self { source, transport, refused: None, healed: false }
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
                let is_new = read(&self.source, self.transport.as_deref());
                if is_new || now >= refused.probe_at {
                    refused.probe_at = now + refused.delays.next().unwrap_or(LOOK);
                    refused.probing = Some(tokio::spawn(probe(context.clone())));
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

/// Reads the keys and hands them to the transport; whether they changed.
pub(super) fn read(source: &KeySource, transport: Option<&HttpTransport>) -> bool {
    let Some(transport) = transport else { return false };
    let pair = source.read().map_err(|error| error.to_string());
    let set = pair.and_then(|pair| {
        let keys = Keys { integration: pair.integration, gateway: pair.gateway };
        transport.set_keys(&keys).map_err(|error| error.to_string())
    });
    match set {
        Ok(changed) => changed,
        Err(why) => {
            tracing::warn!(event = event::AUTH_REFUSED, "{why}");
            false
        }
    }
}

/// One call in a run of its own, so that it stands in the journal.
async fn probe(context: Context) -> Result<bool, StoreError> {
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
    Ok(works.unwrap_or(false))
}
