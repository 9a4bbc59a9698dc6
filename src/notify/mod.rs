//! Notices: a person or a program is told what needs attention, and when it is over.
//!
//! ```text
//! findings, changes, restarts ─────► collect (each minute) ─► notice, open for `window` ─► due ─► deliver ─► sent
//!                                                                                          ▲          │ failed
//!                                                                                          └── delay ─┘
//! ```
//!
//! [`collect_notices`] compares what needs attention with the rows of what was told. A difference becomes an item
//! of the open notice of each notifier with the topic, in the same transaction. [`deliver_notices`] sends the
//! notices that are due, oldest first, and marks each that its receiver took. A process that ends between both
//! sends the notice again, under the same id, so a receiver can drop the repetition. While a receiver is away, its
//! notices wait, with growing delays between attempts.
//!
//! Nothing here reads the clock or the configuration. The rules of health are those of `health`.

mod channel;
mod collect;
mod deliver;
mod message;
mod topic;

pub(crate) use channel::HeaderSecret;
pub use channel::{NoticeChannel, NoticeSender, SecretUrl};
pub use collect::collect_notices;
pub(crate) use collect::tell_occurrence;
pub use deliver::deliver_notices;
pub(crate) use message::NoticeItem;
pub use message::NoticeOrigin;
pub use topic::NoticeTopic;
pub(crate) use topic::finding_topic;

use crate::health::HealthReport;
use std::collections::BTreeSet;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq)]
pub struct NotifierSettings {
    pub name: String,
    /// Topics that it sends; of a ping: the topics whose findings count as unwell.
    pub topics: BTreeSet<NoticeTopic>,
    pub channel: NoticeChannel,
    pub window: Duration,
    pub account: String,
}

impl NotifierSettings {
    /// Returns true if no finding of the notifier's topics needs an operator.
    pub fn is_well(&self, health: &HealthReport) -> bool {
        let concerns = |code| self.topics.contains(&finding_topic(code));
        !health.all_findings().any(|found| found.needs_operator() && concerns(found.code))
    }
}
