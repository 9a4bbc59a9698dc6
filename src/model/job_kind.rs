//! Kinds of job, by their names in the configuration, the journal and on the command line.

use std::fmt;
use std::str::FromStr;

macro_rules! job_kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal),+ $(,)?) => {
        /// A kind of recurring work of the daemon.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum JobKind { $($(#[doc = $doc])+ $variant),+ }

        impl JobKind {
            /// All kinds.
            pub const ALL: &'static [JobKind] = &[$(JobKind::$variant),+];

            /// Returns the name in the configuration, the journal and on the command line.
            pub fn as_str(self) -> &'static str {
                match self { $(JobKind::$variant => $name),+ }
            }
        }

        impl FromStr for JobKind {
            type Err = UnknownJob;
            fn from_str(name: &str) -> Result<Self, UnknownJob> {
                match name { $($name => Ok(JobKind::$variant),)+ _ => Err(UnknownJob(name.into())) }
            }
        }
    };
}

job_kinds! {
    /// Reads product balances; of the tracked SKUs, those read longest ago come first.
    Balances = "balances",
    /// Reads the lines of open tracked orders.
    OrderLines = "order_lines",
    /// Reads the items of shipments that are not completely shipped and confirmed.
    Shipments = "shipments",
    /// Reads the list of warehouses.
    Warehouses = "warehouses",
    /// Reads the list of suppliers.
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
    /// Reads the work queue's counts.
    WorkQueue = "work_queue",
    /// Pushes the changes of the outbox; started by new changes, not by a schedule.
    Push = "push",
    /// Decides changes in doubt by checks at the platform.
    Settle = "settle",
    /// Prunes the journal.
    Prune = "prune",
    /// Copies the database.
    Backup = "backup",
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An unknown name of a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no job named `{0}`")]
pub struct UnknownJob(pub String);

/// The cause of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunTrigger {
    /// The schedule was due.
    Schedule,
    /// The schedule was due while the daemon could not run the job (`missed = "run_once"`).
    Missed,
    /// New or due changes in the outbox, changed counts of the work queue, or spare calls of the quota.
    Outbox,
    /// An operator or a program requested the run.
    Operator,
    /// `run --once`.
    Once,
    /// An earlier run failed and its delay is over.
    Retry,
}

impl RunTrigger {
    /// Returns the code in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            RunTrigger::Schedule => "schedule",
            RunTrigger::Missed => "missed",
            RunTrigger::Outbox => "outbox",
            RunTrigger::Operator => "operator",
            RunTrigger::Once => "once",
            RunTrigger::Retry => "retry",
        }
    }
}
