//! Health rules on the outbox: late changes with their reason, changes that need a decision, and rejected
//! changes.

use super::finding::{Code, Finding};
use super::{Daemon, Look, few};
use crate::limiter::{Kept, Scope};
use crate::model::{Operation, Timestamp, age};
use crate::outbox::{Kind, Reason, shown_key};
use crate::store::{HealthRows, OrphanRow, RejectedRow, WaitingRow};
use std::time::Duration;

/// Least wait of a late change, in addition to holds in force.
///
/// A change is noticed at once and sent with the next call, so a longer wait has another cause than its turn.
const PATIENCE: Duration = Duration::from_secs(120);
/// Calls that may go before a change under a small quota.
const CALLS_AHEAD: u64 = 6;
/// Calls of a backlog, in tenths for each change.
///
/// 25 quantities share a write, and more share a read. Every other change takes a preflight and a call of its
/// own. Both figures are doubled, for polls and earlier calls.
const TENTHS_QUANTITY: u64 = 2;
const TENTHS_OTHER: u64 = 40;

pub(super) fn judge(rows: &HealthRows, kept: &Kept, look: &Look) -> Vec<Finding> {
    let queue = Queue::of(rows, kept, look);
    let waiting = rows
        .waiting
        .iter()
        .filter(|row| row.why.as_deref() != Some(NOBODY))
        .filter_map(|row| queue.late(row));
    let orphans = orphans(&rows.orphans, look.now);
    waiting.chain(orphans).chain(states(rows)).chain(rows.rejected.as_ref().map(rejected)).collect()
}

/// Reason code for a tracking number whose shipment no change creates: a finding of its own.
const NOBODY: &str = "awaits_nobody";

/// Figures of the backlog for the time that it may take.
struct Queue<'a> {
    kept: &'a Kept,
    look: &'a Look,
    /// Least wait of a late change.
    patience: Duration,
    /// Time that the backlog may take while it moves.
    allowance: Duration,
    /// True if a write was accepted recently: the backlog moves.
    moves: bool,
    /// True if the platform refuses the key.
    is_refused: bool,
}

impl<'a> Queue<'a> {
    fn of(rows: &HealthRows, kept: &'a Kept, look: &'a Look) -> Self {
        let permille = u64::from(kept.standing(look.now).share_permille.max(1));
        let rate = (u64::from(look.limits.limit()) * permille / 1000).max(1);
        let tenths = |row: &WaitingRow| {
            let each = if row.kind.starts_with("quantity.") { TENTHS_QUANTITY } else { TENTHS_OTHER };
            each.saturating_mul(u64::try_from(row.wishes).unwrap_or(0))
        };
        let calls = rows.waiting.iter().map(tenths).fold(0, u64::saturating_add) / 10;
        let minutes = |calls: u64| Duration::from_millis(calls.saturating_mul(60_000) / rate);
        let patience = PATIENCE + minutes(CALLS_AHEAD);
        let accepted = rows.writes.iter().find(|call| call.verdict == "accepted");
        let moves = accepted.is_some_and(|call| look.now.since(Timestamp(call.sent_ms)) <= patience);
        Self {
            kept,
            look,
            patience,
            allowance: patience + minutes(calls),
            moves,
            is_refused: rows.is_refused,
        }
    }

    fn late(&self, row: &WaitingRow) -> Option<Finding> {
        // Without a daemon a change is late only if a session has found it waiting.
        if self.look.daemon == Daemon::Gone && row.found_ms.is_none() {
            return None;
        }
        let since = Timestamp(row.since_ms);
        let (held_until, hold) = self.hold(row).unzip();
        let from = [Some(since), row.found_ms.map(Timestamp), held_until].into_iter().flatten().max()?;
        let waited = self.look.now.since(from);
        if waited <= self.patience || (self.moves && waited <= self.allowance) {
            return None;
        }
        let waits = age(i64::try_from(self.look.now.since(since).as_secs()).unwrap_or(i64::MAX));
        let (why, todo) = self.why(row, hold);
        let text = format!(
            "{} wish(es) ({}) wait longer than they should, `{}` for {waits}: {why}",
            row.wishes, row.kind, row.key
        );
        let todo = format!("{todo}; the oldest: tallyd outbox show {}", shown_key(&row.key));
        Some(Finding::new(Code::Waiting, row.wishes, text, todo).since(since).about([row.key.clone()]))
    }

    /// Returns the end of the last hold on a call of the change, and its reason.
    ///
    /// The limiter's memory keeps a hold that has ended until the next is set. Changes that waited for it
    /// have their time from its end.
    fn hold(&self, row: &WaitingRow) -> Option<(Timestamp, String)> {
        let concerns = |scope: Scope| match scope {
            Scope::Account | Scope::Key => true,
            Scope::Operation(operation) => operations(&row.kind).contains(&operation),
        };
        let holds = self.kept.holds.iter().filter(|hold| concerns(hold.scope));
        let timed = holds.filter_map(|hold| {
            let until = hold.since.plus(Duration::from_millis(hold.duration_ms?));
            Some((until, hold.reason.as_str().to_owned()))
        });
        timed.max_by_key(|(until, _)| *until)
    }

    /// Returns the reason of the wait, and the next step.
    fn why(&self, row: &WaitingRow, hold: Option<String>) -> (String, String) {
        let said = |why: &str, todo: &str| (why.to_owned(), todo.to_owned());
        if self.look.daemon != Daemon::Works {
            return said("no tallyd works on this database", "start it: systemctl start tallyd");
        }
        if self.is_refused {
            return said("the service refuses the key", "put the right key in its place");
        }
        match row.why.as_deref() {
            Some("quarantined") => {
                said("an entry of theirs is set aside, because calls that hold it fail", "see `quarantined`")
            }
            Some("behind_in_doubt") => {
                said("another wish of the same cell is in doubt", "see: tallyd outbox list --state in_doubt")
            }
            Some("behind_held") => {
                said("another wish of the same cell is held", "see: tallyd outbox list --state held")
            }
            Some(code) => {
                let todo = code.parse::<Reason>().map(|reason| reason.advice(&row.key));
                let words = row.detail.as_deref().unwrap_or(code);
                let todo = todo.unwrap_or_else(|_| "see: tallyd job list --kind push".to_owned());
                (format!("{} ({words})", code.replace('_', " ")), todo)
            }
            None => {
                let why = hold.map_or_else(
                    || "no push has taken them up".to_owned(),
                    |reason| format!("no push has taken them up since the last hold ({reason})"),
                );
                (why, "see: tallyd job list --kind push".to_owned())
            }
        }
    }
}

/// Returns the operations that a change of this kind calls.
fn operations(kind: &str) -> &'static [Operation] {
    use Operation as Op;
    match kind.parse::<Kind>() {
        Ok(Kind::QuantitySet | Kind::QuantityAdjust) => &[Op::GetProductBalances, Op::UpdateQuantityOnHand],
        Ok(Kind::ShipmentCreate) => &[Op::GetOrderLineItems, Op::CreateShipments],
        Ok(Kind::TrackingSubmit) => &[Op::ShipmentLineItems, Op::SubmitTracking],
        Ok(Kind::ProductCreate) => &[Op::GetProducts, Op::CreateProduct],
        Ok(Kind::ProductUpdate) => &[Op::GetProductBalances, Op::UpdateProduct],
        Ok(Kind::WarehouseCreate) => &[Op::ListWarehouses, Op::CreateWarehouse],
        Ok(Kind::ListingTemplateCreate) => &[Op::ListListingTemplates, Op::CreateListingTemplate],
        Err(_) => &[],
    }
}

fn orphans(rows: &[OrphanRow], now: Timestamp) -> Option<Finding> {
    let late = |row: &&OrphanRow| now.since(Timestamp(row.since_ms)) > PATIENCE;
    let late: Vec<&OrphanRow> = rows.iter().filter(late).collect();
    let since = late.iter().map(|row| row.since_ms).min()?;
    let named = late.iter().map(|row| format!("`{}` names `{}`", row.key, row.names));
    let text = format!(
        "{} tracking number(s) wait for a shipment that no wish makes: {}",
        late.len(),
        few(named, late.len())
    );
    let todo =
        "insert that `shipment.create`, or tallyd outbox cancel KEY and insert them with the right key";
    let found = Finding::new(Code::AwaitsNobody, i64::try_from(late.len()).unwrap_or(i64::MAX), text, todo);
    Some(found.since(Timestamp(since)).about(late.iter().map(|row| row.key.clone())))
}

fn states(rows: &HealthRows) -> Vec<Finding> {
    let told = [("held", Code::Held, "held"), ("in_doubt", Code::InDoubt, "in doubt")];
    let finding = |(state, code, words): (&str, Code, &str)| {
        let (_, count) = rows.wishes.iter().find(|(name, count)| name == state && *count > 0)?;
        let todo = format!("see: tallyd outbox list --state {state}");
        Some(Finding::new(code, *count, format!("{count} wish(es) are {words}"), todo))
    };
    told.into_iter().filter_map(finding).collect()
}

fn rejected(row: &RejectedRow) -> Finding {
    let RejectedRow { wishes, key, reason, detail, since_ms } = row;
    let (reason, detail) = (reason.as_deref().unwrap_or("-"), detail.as_deref().unwrap_or("-"));
    let text = format!("{wishes} wish(es) were rejected, the newest is `{key}` ({reason}: {detail})");
    let todo = "see: tallyd outbox list --state rejected; then: tallyd outbox acknowledge KEY… or --all";
    Finding::new(Code::Rejected, *wishes, text, todo).since(Timestamp(*since_ms)).about([key.clone()])
}
