//! `run --once`: each enabled job once, the outbox drained, then the end. For tests, for a first fill, for cron.
//!
//! What keeps the house and reads nothing, pruning and copies, runs where its hour has passed since it was last done:
//! from cron each minute, a copy of everything each minute would serve nobody.

use super::error::StartError;
use super::settings;
use super::start::Daemon;
use crate::job::{self, Finished};
use crate::journal::RunOutcome;
use crate::model::{JobKind, Trigger};
use std::collections::VecDeque;

/// What came of it.
#[derive(Debug)]
pub struct Once {
    /// The runs, in order.
    pub runs: Vec<Finished>,
    /// Jobs that were not tried, because the first could not reach the service at all.
    pub untried: Vec<JobKind>,
}

impl Once {
    /// Whether every run did all it set out to do.
    pub fn is_good(&self) -> bool {
        self.untried.is_empty() && self.runs.iter().all(|run| run.outcome == RunOutcome::Ok)
    }
}

/// Facts that others build on come first: the work queue's counts call for order lines, templates are read per storefront, shipments close orders, orders teach kits
/// and SKUs, kits and top sellers teach SKUs, and balances are what a push is decided on.
const ORDER: [JobKind; 11] = [
    JobKind::WorkQueue,
    JobKind::Warehouses,
    JobKind::Suppliers,
    JobKind::Storefronts,
    JobKind::ListingTemplates,
    JobKind::Shipments,
    JobKind::OrderLines,
    JobKind::KitComponents,
    JobKind::TopSelling,
    JobKind::Balances,
    JobKind::BusinessHealth,
];

/// What reads nothing from the service.
const HOUSEKEEPING: [JobKind; 2] = [JobKind::Prune, JobKind::Backup];

impl Daemon {
    /// Runs each enabled job once, then the push until nothing is left to send, and closes.
    pub async fn once(self) -> Result<Once, StartError> {
        self.warn_of_unbuilt();
        let enabled: Vec<JobKind> =
            settings::schedules(&self.config).into_iter().map(|(kind, _)| kind).collect();
        let first = ORDER.into_iter().filter(|kind| enabled.contains(kind));
        let mut others = Vec::new();
        for kind in enabled.iter().copied().filter(|kind| !ORDER.contains(kind)) {
            if !HOUSEKEEPING.contains(&kind) || self.is_overdue(kind).await? {
                others.push(kind);
            }
        }
        let mut once = Once { runs: Vec::new(), untried: Vec::new() };
        let mut next: VecDeque<JobKind> = first.chain(others).chain([JobKind::Push]).collect();
        while let Some(kind) = next.pop_front() {
            let finished = job::run(&self.context, kind, Trigger::Once).await?;
            finished.say_failed(None);
            let (refused, wakes, run) = (finished.refused, finished.wakes, finished.run);
            let has_failed = finished.outcome == RunOutcome::Failed;
            once.runs.push(finished);
            if refused {
                break;
            }
            // Each of the others would take as long to find out the same.
            if has_failed && self.context.store.run_reached_nobody(run).await? {
                let (kept, untried): (VecDeque<_>, VecDeque<_>) =
                    next.into_iter().partition(|kind| HOUSEKEEPING.contains(kind));
                (next, once.untried) = (kept, untried.into());
                continue;
            }
            next.extend(wakes.filter(|kind| !next.contains(kind)));
            // What the push left in doubt may have landed visibly; what takes a quiet time is left to the next start.
            if kind == JobKind::Push && enabled.contains(&JobKind::Settle) && self.settle_is_due().await? {
                next.push_back(JobKind::Settle);
            }
        }
        self.close().await?;
        Ok(once)
    }

    /// Whether a start of the job has passed since it was last done, or since the database was taken into use.
    async fn is_overdue(&self, kind: JobKind) -> Result<bool, StartError> {
        let schedules = settings::schedules(&self.config);
        let schedule = schedules.iter().find(|(scheduled, _)| *scheduled == kind);
        let last = self.context.store.job_done_or_begun(kind).await?;
        let next = schedule.zip(last).and_then(|((_, schedule), last)| schedule.next_start(kind, last));
        Ok(next.is_some_and(|next| next <= self.context.now()))
    }

    async fn settle_is_due(&self) -> Result<bool, StartError> {
        let due = job::settle_due(&self.context).await?;
        Ok(due.is_some_and(|due| due <= self.context.now()))
    }
}
