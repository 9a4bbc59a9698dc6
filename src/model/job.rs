//! The kinds of job, by the names used in the configuration, the journal and on the command line.

use std::fmt;
use std::str::FromStr;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal),+ $(,)?) => {
        /// A kind of work the daemon does again and again.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum JobKind { $($(#[doc = $doc])+ $variant),+ }

        impl JobKind {
            /// Every kind.
            pub const ALL: &'static [JobKind] = &[$(JobKind::$variant),+];

            /// Its name everywhere.
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

kinds! {
    /// Reads product balances, stalest tracked SKUs first.
    Balances = "balances",
    /// Reads the lines of open tracked orders.
    OrderLines = "order_lines",
    /// Reads the items of shipments that are not yet wholly shipped and confirmed.
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
    /// Pushes the wishes of the outbox; woken by them, not by a schedule.
    Push = "push",
    /// Decides wishes in doubt by looking at the service.
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

/// A name that is no kind of job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no job named `{0}`")]
pub struct UnknownJob(pub String);

/// Why a run was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Its schedule came due.
    Schedule,
    /// It came due while the daemon could not run it (`missed = "run_once"`).
    Missed,
    /// Something woke it: a wish, a wish's hold that ended, a count that moved, calls that nobody needs.
    Outbox,
    /// A person or program asked for it.
    Operator,
    /// `run --once`.
    Once,
    /// An earlier run failed and its delay is over.
    Retry,
}

impl Trigger {
    /// The word used in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Trigger::Schedule => "schedule",
            Trigger::Missed => "missed",
            Trigger::Outbox => "outbox",
            Trigger::Operator => "operator",
            Trigger::Once => "once",
            Trigger::Retry => "retry",
        }
    }
}
