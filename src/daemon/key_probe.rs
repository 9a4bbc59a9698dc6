//! The recovery from a refused key without a restart.
//!
//! While the key is refused, only probes are sent: one cheap call a minute, later at growing intervals, and at once
//! after the key files changed. A key not known to belong to the same account counts as refused until the list of
//! warehouses verifies it (docs/rules.md 13). Until then only probes use it; a call that already has its
//! reservation goes out with the old key.

use super::account_check::AccountIdentity;
use super::start_error::{RETRY_PAUSE, StartError};
use crate::client::{Client, HttpTransport, run_aside};
use crate::config::{KeySource, ServiceConfig};
use crate::exec::{self, JobContext, JobError, KeyStatus, RunEnd};
use crate::journal::RunOutcome;
use crate::model::{JobKind, RetryDelays, RunTrigger};
use crate::reconcile::proof::KeyState;
use crate::store::StoreError;
use crate::telemetry::event;
use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

pub(super) struct KeyProbe {
    source: KeySource,
    base_url: String,
    /// The transport; `None` if requests do not go over HTTP, so that there is no key.
    transport: Option<Arc<HttpTransport>>,
    /// The account of the keys last read; `None` until they were read.
    account: Option<AccountIdentity>,
    /// The transport with new keys that are not verified yet; only probes use it.
    trial: Option<Arc<HttpTransport>>,
    refusal: Option<RefusalState>,
    /// The failure of the last read of the keys.
    unreadable: Option<String>,
}

struct RefusalState {
    read_at: Instant,
    /// The probe in progress. The loop does not wait for it, because it can take a call's time-out.
    probing: Option<JoinHandle<Result<bool, StoreError>>>,
}

impl KeyProbe {
    pub(super) fn new(service: &ServiceConfig, transport: Option<Arc<HttpTransport>>) -> Self {
        let (source, base_url) = (service.keys.clone(), service.base_url.clone());
        let keyless = || AccountIdentity { base_url: base_url.clone(), integration_key: None };
        let account = transport.is_none().then(keyless);
        Self { source, base_url, transport, account, trial: None, refusal: None, unreadable: None }
    }

    pub(super) fn start_probing(&mut self) {
        if self.refusal.is_some() {
            return;
        }
        warn_of_copied_keys(&self.source);
        self.refusal = Some(RefusalState { read_at: Instant::now() + RETRY_PAUSE, probing: None });
    }

    pub(super) async fn replace_source(
        &mut self,
        source: KeySource,
        context: &JobContext,
    ) -> Result<(), StoreError> {
        self.source = source;
        if self.read_changed_keys(context).await? && context.limiter.is_refused() {
            self.start_probing();
        }
        Ok(())
    }

    pub(super) fn next_check_at(&self) -> Option<Instant> {
        self.refusal.as_ref().map(|refused| refused.read_at)
    }

    /// Reads the key files and starts a probe, if either is due. Returns true if a probe has restored the key.
    pub(super) async fn check_due(&mut self, context: &JobContext) -> Result<bool, StoreError> {
        let Some(refused) = &mut self.refusal else { return Ok(false) };
        let now = Instant::now();
        if now < refused.read_at {
            return Ok(false);
        }
        refused.read_at = now + RETRY_PAUSE;
        if let Some(probe) = refused.probing.take_if(|probe| probe.is_finished()) {
            let works = super::join_result(probe.await).transpose()?.unwrap_or(false);
            if works {
                self.mark_restored(context);
            }
            return Ok(works);
        }
        if refused.probing.is_some() {
            return Ok(false);
        }
        self.read_changed_keys(context).await?;
        let probe_at = context.key.next_probe_at(RetryDelays::KEY_PROBES_APART);
        let is_due = probe_at.is_none_or(|at| at <= context.moment());
        if let Some(refused) = self.refusal.as_mut().filter(|_| is_due) {
            let mut context = context.clone();
            if let Some(trial) = &self.trial {
                context.client = Client::new(Arc::<HttpTransport>::clone(trial), Arc::clone(&context.clock));
            }
            refused.probing = Some(tokio::spawn(probe_in_run(context, self.account.clone())));
        }
        Ok(false)
    }

    fn mark_restored(&mut self, context: &JobContext) {
        if let (Some(transport), Some(trial)) = (&self.transport, self.trial.take()) {
            transport.use_keys(&trial);
        }
        context.limiter.lift_refusal();
        self.refusal = None;
        tracing::info!(event = event::AUTH_RESTORED, "the platform accepts the key again; calls resume");
    }

    async fn trial_transport(
        &self,
        transport: &HttpTransport,
    ) -> Result<(AccountIdentity, HttpTransport), Box<dyn Error + Send + Sync>> {
        let source = self.source.clone();
        let keys = run_aside("the files of the keys", move || source.read_keys()).await??.account;
        let read = transport.with_keys(&keys)?;
        let (base_url, integration_key) = (self.base_url.clone(), Some(keys.integration));
        Ok((AccountIdentity { base_url, integration_key }, read))
    }

    /// Reads the keys and returns true if they changed. Only probes use keys that may be another account's.
    async fn read_changed_keys(&mut self, context: &JobContext) -> Result<bool, StoreError> {
        let Some(transport) = &self.transport else { return Ok(false) };
        let (account, read) = match self.trial_transport(transport).await {
            Ok(read) => read,
            Err(why) => {
                // The files are read every 2 s: the same failure is logged once.
                let why = why.to_string();
                if self.unreadable.as_ref() != Some(&why) {
                    tracing::warn!(event = event::AUTH_REFUSED, "{why}");
                }
                self.unreadable = Some(why);
                return Ok(false);
            }
        };
        self.unreadable = None;
        let is_new = !read.has_keys_of(self.trial.as_ref().unwrap_or(transport));
        if self.account.insert(account).is_bound(context).await? {
            transport.use_keys(&read);
            self.trial = None;
        } else {
            context.limiter.refuse_key();
            if is_new {
                self.trial = Some(Arc::new(read));
            }
        }
        if is_new {
            // The result of a probe with old keys is recorded, but does not lift the refusal. A refusal of them may be
            // known before its run has ended.
            self.refusal.iter_mut().for_each(|refused| refused.probing = None);
            context.key.forget();
        }
        Ok(is_new)
    }
}

pub(super) fn warn_of_copied_keys(source: &KeySource) {
    if source.needs_restart() {
        tracing::warn!(
            event = event::DAEMON_WARNING,
            "the keys are copies made at the start (systemd credentials, environment): after you replace the key, \
             `sudo systemctl restart` applies it"
        );
    }
}

/// Does the work of a task alone until a call of this process has ended without a refusal, or for a minute. A refused
/// key then costs the calls of one job, however many are due.
pub(super) async fn alone_until_tried<T>(
    context: &JobContext,
    turn: &Mutex<()>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    let tried = timeout(RetryDelays::KEY_PROBES_APART, context.key.wait_until_tried());
    let turn = turn.lock().await;
    tokio::select! {
        biased;
        _ = tried => drop(turn),
        done = &mut work => return done,
    }
    work.await
}

/// Probes the key in a run of its own. Returns true only if the answer proves that the key works.
pub(super) async fn probe_in_run(
    context: JobContext,
    account: Option<AccountIdentity>,
) -> Result<bool, StoreError> {
    let probe = async |run| {
        let (outcome, summary) = match exec::probe_key(&context, run).await {
            Ok(KeyStatus { key: KeyState::Works, .. }) => (RunOutcome::Ok, "probe: the key works".to_owned()),
            Ok(KeyStatus { key: KeyState::Refused, why }) => {
                (RunOutcome::Failed, format!("probe: the key is still refused: {why}"))
            }
            Ok(KeyStatus { key: KeyState::NotKnown, why }) => (
                RunOutcome::Failed,
                format!("probe: the platform does not tell whether it accepts the key: {why}"),
            ),
            Err(error @ JobError::Stopped) => (RunOutcome::Interrupted, format!("probe: {error}")),
            Err(error) => (RunOutcome::Failed, format!("probe: {error}")),
        };
        (outcome == RunOutcome::Ok, (outcome, summary))
    };
    let job = (JobKind::WorkQueue, RunTrigger::Retry);
    let works = exec::with_run(&context, job, RunEnd::Pass, None, probe).await?;
    let Some(account) = account.filter(|_| works) else { return Ok(false) };
    match account.verify_binding(&context).await {
        Ok(()) => Ok(true),
        Err(StartError::Store(error)) => Err(error),
        Err(why) => {
            tracing::error!(event = event::AUTH_REFUSED, "{why}");
            Ok(false)
        }
    }
}
