//! Kinds of job, the table of the jobs, and the causes of their runs.

use super::code_enum;

code_enum! {
    /// Recurring work of the daemon; the code is its name in the configuration and the journal.
    pub enum JobKind {
        /// Reads product balances; of the tracked SKUs, those read longest ago come first.
        Balances = "balances",
        /// Reads the lines of open tracked orders.
        OrderLines = "order_lines",
        /// Reads the items of shipments that are not completely shipped and confirmed.
        Shipments = "shipments",
        Warehouses = "warehouses",
        Suppliers = "suppliers",
        /// Reads the list of active storefronts.
        Storefronts = "storefronts",
        /// Reads the listing templates of each storefront.
        ListingTemplates = "listing_templates",
        /// Reads the components of known kits.
        KitComponents = "kit_components",
        /// Reads the top sellers of each month.
        TopSelling = "top_selling",
        /// Reads the business health of each month.
        BusinessHealth = "business_health",
        WorkQueue = "work_queue",
        /// Pushes the changes of the outbox; started by new changes, not by a schedule.
        Push = "push",
        /// Decides changes in doubt by checks at the platform.
        Settle = "settle",
        Prune = "prune",
        Backup = "backup",
    }
}

/// Calls of a run, from which `tallyd check` estimates the demand of the schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobCalls {
    PerSkuPage,
    PerOrder,
    PerShipment,
    PerStorefront,
    PerKit,
    Single,
    AsNeeded,
    /// No call: the job maintains the database.
    None,
}

/// Jobs in the order of `run --once`, each with its calls and its default schedule. `Push` has no schedule,
/// because queued changes wake the job.
///
/// Facts that other jobs depend on come first: the work queue's counts tell which order lines to read,
/// shipments close orders, orders name SKUs, and a push plans from balances.
///
/// Default seconds and minutes are spread, so that jobs of one account do not call in the same second. Daily
/// jobs may use any hour, because the default zone is UTC, which has no clock changes.
pub(crate) const JOBS: [(JobKind, JobCalls, Option<&str>); 15] = [
    (JobKind::WorkQueue, JobCalls::Single, Some("45 * * * * *")),
    (JobKind::Warehouses, JobCalls::Single, Some("0 7 * * * *")),
    (JobKind::Suppliers, JobCalls::Single, Some("0 11 2 * * *")),
    (JobKind::Storefronts, JobCalls::Single, Some("0 23 * * * *")),
    (JobKind::ListingTemplates, JobCalls::PerStorefront, Some("0 17 2 * * *")),
    (JobKind::Shipments, JobCalls::PerShipment, Some("15 */10 * * * *")),
    (JobKind::OrderLines, JobCalls::PerOrder, Some("30 */2 * * * *")),
    (JobKind::KitComponents, JobCalls::PerKit, Some("0 31 2 * * *")),
    (JobKind::TopSelling, JobCalls::Single, Some("0 41 4 * * *")),
    (JobKind::Balances, JobCalls::PerSkuPage, Some("0 */5 * * * *")),
    (JobKind::BusinessHealth, JobCalls::Single, Some("0 47 4 * * *")),
    (JobKind::Settle, JobCalls::AsNeeded, Some("10 * * * * *")),
    (JobKind::Prune, JobCalls::None, Some("0 13 3 * * *")),
    (JobKind::Backup, JobCalls::None, Some("0 43 3 * * *")),
    (JobKind::Push, JobCalls::AsNeeded, None),
];

impl JobKind {
    fn row(self) -> (JobKind, JobCalls, Option<&'static str>) {
        JOBS.into_iter().find(|(kind, ..)| *kind == self).expect("every kind has a row")
    }

    pub(crate) fn calls(self) -> JobCalls {
        self.row().1
    }

    pub(crate) fn default_schedule(self) -> Option<&'static str> {
        self.row().2
    }
}

code_enum! {
    pub enum RunTrigger {
        Schedule = "schedule",
        /// The schedule was due while the daemon could not run the job (`missed = "run_once"`).
        Missed = "missed",
        /// New or due changes in the outbox, changed counts of the work queue, new storefronts, or spare calls of the quota.
        Outbox = "outbox",
        /// An operator or a program requested the run.
        Operator = "operator",
        Once = "once",
        /// An earlier run failed and its delay is over.
        Retry = "retry",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_has_a_row_and_every_kind_but_push_a_default_schedule() {
        let rows: BTreeSet<JobKind> = JOBS.iter().map(|(kind, ..)| *kind).collect();
        assert_eq!((rows.len(), rows), (JOBS.len(), JobKind::ALL.iter().copied().collect()));
        let unscheduled = JOBS.iter().filter(|(.., schedule)| schedule.is_none()).map(|(kind, ..)| *kind);
        assert_eq!(unscheduled.collect::<Vec<_>>(), [JobKind::Push]);
    }
}
