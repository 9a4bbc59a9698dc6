//! Kinds of job, and the causes of their runs.

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
