//! The notifiers in the daemon: what is told is collected with each health check, and delivered beside the loop.
//!
//! Only the daemon that works on the database tells of the account, so a standby sends nothing but its pings.

use super::settings;
use crate::client::run_aside;
use crate::config::{Config, ServiceConfig};
use crate::exec::JobContext;
use crate::health::HealthReport;
use crate::model::{Clock, Moment};
use crate::notify::{
    NoticeChannel, NoticeOrigin, NoticeSender, NotifierSettings, collect_notices, deliver_notices,
};
use crate::store::{StoreError, host_name};
use crate::telemetry::event;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) struct Notifiers {
    settings: Arc<[NotifierSettings]>,
    service: ServiceConfig,
    pings: PingTimes,
    /// Pings that are due, each with the state to report.
    due_pings: Vec<(NotifierSettings, bool)>,
}

/// Times of the last pings, by notifier.
#[derive(Default)]
pub(super) struct PingTimes(BTreeMap<String, Moment>);

impl PingTimes {
    /// Returns the pings that are due, and notes them as sent.
    pub(super) fn take_due<'a>(
        &mut self,
        notifiers: &'a [NotifierSettings],
        now: Moment,
    ) -> Vec<&'a NotifierSettings> {
        let mut due = Vec::new();
        for notifier in notifiers {
            let NoticeChannel::Ping { every, .. } = notifier.channel else { continue };
            if self.0.get(&notifier.name).is_none_or(|last| now.duration_since(*last) >= every) {
                self.0.insert(notifier.name.clone(), now);
                due.push(notifier);
            }
        }
        due
    }
}

/// Returns the sender of the notices. Keys that cannot be read are not masked: the daemon has none then.
pub(crate) async fn notice_sender(service: &ServiceConfig) -> NoticeSender {
    let source = service.keys.clone();
    let keys = run_aside("the keys", move || source.read_keys()).await.ok().and_then(Result::ok);
    NoticeSender { http: settings::http_settings(service), keys: keys.map(|keys| keys.account) }
}

impl Notifiers {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            settings: config.notifiers.clone().into(),
            service: config.service.clone(),
            pings: PingTimes::default(),
            due_pings: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.settings.is_empty()
    }

    pub(super) fn reload(&mut self, config: &Config) {
        (self.settings, self.service) = (config.notifiers.clone().into(), config.service.clone());
    }

    /// Collects what is to be told after a health check.
    pub(super) async fn collect(
        &mut self,
        context: &JobContext,
        health: &HealthReport,
    ) -> Result<(), StoreError> {
        let due = self.pings.take_due(&self.settings, context.moment());
        self.due_pings.extend(due.into_iter().map(|notifier| (notifier.clone(), notifier.is_well(health))));
        collect_notices(&context.store, &self.settings, health, context.now()).await
    }

    /// Returns the work of sending everything that is due.
    pub(super) fn start_delivery(
        &mut self,
        context: &JobContext,
    ) -> Option<impl Future<Output = Result<(), StoreError>> + Send + use<>> {
        if self.is_empty() {
            return None;
        }
        let pings = std::mem::take(&mut self.due_pings);
        let (settings, service, context) =
            (Arc::clone(&self.settings), self.service.clone(), context.clone());
        Some(async move {
            let all = async { deliver_all(&context, pings, &settings, &notice_sender(&service).await).await };
            tokio::select! {
                done = all => done,
                // Notices that are not delivered stay due.
                () = context.wait_for_stop() => Ok(()),
            }
        })
    }
}

async fn deliver_all(
    context: &JobContext,
    pings: Vec<(NotifierSettings, bool)>,
    notifiers: &[NotifierSettings],
    sender: &NoticeSender,
) -> Result<(), StoreError> {
    let database = context.store.account_binding().await?.database_name();
    let origin = NoticeOrigin { database, host: host_name() };
    // Pings go first, because a receiver of notices may hang until its time-out.
    for (notifier, is_well) in pings {
        send_ping(sender, &notifier, is_well).await;
    }
    for notifier in notifiers {
        deliver_notices(&context.store, notifier, (sender, &origin), || context.now()).await?;
    }
    Ok(())
}

/// Sends a ping. A failure needs no warning, because the receiver raises the alarm.
pub(super) async fn send_ping(sender: &NoticeSender, notifier: &NotifierSettings, is_well: bool) {
    if let Err(why) = sender.ping(&notifier.channel, is_well).await {
        let name = &notifier.name;
        tracing::debug!(event = event::NOTICE_FAILED, notifier = name, "{name}: the ping failed: {why}");
    }
}

/// Sends the due pings of a host that stands by, without waiting for them.
pub(super) fn ping_from_standby(config: &Config, times: &mut PingTimes, clock: &dyn Clock) {
    for notifier in times.take_due(&config.notifiers, clock.moment()) {
        let (service, notifier) = (config.service.clone(), notifier.clone());
        drop(tokio::spawn(async move { send_ping(&notice_sender(&service).await, &notifier, true).await }));
    }
}
