//! The judgement of a full world.
//!
//! Stock levels are judged after each run, everything when the faults have ended, the journal after each kill
//! of the daemon.

use super::super::auditor::Fate;
use super::super::books::Level;
use super::super::outsider::quoted;
use super::agenda::{Act, HOUR_MS};
use super::trial::Trial;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use tallyd::model::JobKind;
use tallyd::projection::JournalReplay;

/// Calls after which the mirror must show what the platform shows, from the end of the last fault's
/// consequences.
///
/// They are one for each page of balances, and second reads of stock levels whose last write did not show.
const CALLS_TO_AGREE: u64 = 6;

/// State and reason of changes, with the written quantity of those that were cancelled while undecided.
pub const FATES: &str = "SELECT key, state, coalesce(reason, ''), \
    CASE WHEN state = 'cancelled' AND (SELECT m.reason FROM change_transition m WHERE m.change_id = outbox.id \
        ORDER BY m.revision DESC LIMIT 1 OFFSET 1) = 'undecided' THEN written END \
    FROM outbox";

/// Claims of applied changes that no answer ended, so that a check took them for done: the change, the written quantity, the moment and the boot.
const INTERRUPTED: &str = "SELECT o.key, o.written, e.sent_moment, s.boot_id FROM outbox o \
    JOIN exchange e ON e.id = o.exchange_id JOIN session s ON s.id = e.session_id \
    WHERE e.verdict = 'interrupted' AND o.state = 'applied' AND o.written IS NOT NULL";

/// Calls of a session that began after a call of a later session.
const CALLS_OF_REPLACED: &str = "SELECT count(*) FROM (SELECT session_id, \
        max(session_id) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS latest FROM exchange) e \
    WHERE session_id < latest";

impl Trial {
    /// Judges the stock levels that have no change on its way.
    pub async fn judge_levels(&mut self) {
        let unsettled: Vec<String> =
            self.auditor(|auditor| auditor.levels.unsettled().into_iter().map(str::to_owned).collect());
        if unsettled.is_empty() {
            return;
        }
        let keys = unsettled.iter().map(|key| change_of(key));
        let keys = keys.map(quoted).collect::<Vec<_>>().join(", ");
        let rows: Vec<(String, String, String, Option<i64>)> =
            self.world.outsider.rows(&format!("{FATES} WHERE key IN ({keys})")).await;
        let fates: BTreeMap<String, Fate> = self.auditor(|auditor| {
            let fate = |(key, state, reason, undecided): (String, String, String, Option<i64>)| {
                let landed = undecided.is_some_and(|written| auditor.levels.has_landed(&key, written));
                (key, fate(&state, &reason, landed))
            };
            rows.into_iter().map(fate).collect()
        });
        let claims: Vec<(String, i64, i64, String)> =
            self.world.outsider.rows(&format!("{INTERRUPTED} AND o.key IN ({keys})")).await;
        let clock = &self.world.clock;
        self.auditor(|auditor| {
            for (key, written, moment, boot) in claims {
                let at_ms = clock.world_ms(&boot, moment);
                auditor.levels.claimed(&key, written, at_ms, auditor.window_ms);
            }
        });
        let known = &self.restores.known;
        let fate_of = |key: &str| known.get(key).or(fates.get(key)).copied().unwrap_or(Fate::Open);
        let by_key = unsettled.iter().map(|key| (key.clone(), fate_of(change_of(key))));
        let (by_key, now) = (by_key.collect(), self.world.clock.now_ms());
        self.auditor(|auditor| {
            let broken = auditor.levels.judge(&by_key, now, auditor.window_ms);
            auditor.violations.extend(broken);
        });
    }

    /// Asserts that no change is being sent while no push runs, because nobody would conclude it.
    pub async fn judge_sending(&mut self) {
        if self.world.is_down() || self.world.has_running(JobKind::Push) {
            return;
        }
        let sending = self.world.number("SELECT count(*) FROM outbox WHERE state = 'sending'").await;
        if sending > 0 {
            self.broken(format!("{sending} changes are being sent, and no push runs"));
        }
    }

    /// Asserts that a kill lost no change.
    pub async fn judge_lost(&mut self) {
        let kept = self.world.number("SELECT count(*) FROM outbox").await;
        let wished = i64::try_from(self.world.changes()).unwrap();
        if kept != wished {
            self.broken(format!("{wished} changes were inserted, {kept} are there"));
        }
    }

    /// Asserts, after another host took over, that no change was lost and that the journal is whole.
    pub async fn judge_takeover(&mut self) {
        let takeovers = self.world.takeovers;
        if std::mem::replace(&mut self.takeovers_judged, takeovers) == takeovers || self.world.is_down() {
            return;
        }
        self.world.rest().await;
        self.judge_lost().await;
        let late = self.world.number(CALLS_OF_REPLACED).await;
        if late > 0 {
            self.broken(format!("{late} calls were recorded by a leader after it was replaced"));
        }
    }

    /// Asserts that the projection of the journal equals the mirror, by `tallyd replay`.
    ///
    /// After each pruning, which is daily, the whole journal is projected. In between, the entries since the
    /// last projection are projected on top of it.
    pub async fn judge_replay(&mut self) {
        let (database, into) = (self.world.location.clone(), self.world.dir.path().join("folded.db"));
        let pruned = self.world.number("SELECT coalesce(max(id), 0) FROM run WHERE job = 'prune'").await;
        let is_whole = self.folded.replace(pruned) != Some(pruned);
        let mut replay = if is_whole {
            remove(&into);
            JournalReplay::start_empty(&database, &into).await.unwrap()
        } else {
            JournalReplay::resume(&database, &into).await.unwrap()
        };
        let end = replay.last_position(None).await.unwrap();
        replay.project_to(end, &mut |_| {}).await.unwrap();
        let replayed = replay.compare_mirrors(&into).await.unwrap();
        let differing = replayed.tables.iter().filter(|table| !table.is_equal());
        let differing: Vec<String> = differing.map(|table| format!("{table:?}")).collect();
        if !differing.is_empty() {
            self.broken(format!("the journal's fold is not the mirror: {differing:?}"));
        }
        self.count("replays");
    }

    /// Asserts, after the last fault, that every change ends and that all records agree.
    pub async fn judge(&mut self) {
        self.judge_status().await;
        let end = self.world.clock.now_ms() + 2 * HOUR_MS;
        if let Err(broken) = self.settle(end).await {
            return self.auditor(|auditor| auditor.violations.extend(broken));
        }
        let fates = self.world.fates().await;
        for (key, (state, reason)) in &fates {
            let is_said = match state.as_str() {
                "applied" => true,
                "rejected" | "cancelled" => !reason.is_empty(),
                _ => false,
            };
            if !is_said {
                self.broken(format!("{key} is still {state} ({reason}) when nothing goes wrong any more"));
            }
        }
        self.judge_levels().await;
        self.judge_lost().await;
        self.judge_mirror().await;
        self.judge_ends().await;
        self.judge_lists().await;
        self.judge_parcels(&fates).await;
        self.judge_replay().await;
        self.note_health().await;
        self.is_calm = false;
    }

    /// Asserts that `tallyd status` names the changes that wait for a person, with their number.
    async fn judge_status(&mut self) {
        let held = self.world.number("SELECT count(*) FROM outbox WHERE state = 'held'").await;
        let doubt = self.world.number("SELECT count(*) FROM outbox WHERE state = 'in_doubt'").await;
        let unshown = self.world.number("SELECT count(*) FROM mismatch").await;
        if held + doubt + unshown == 0 {
            return;
        }
        self.count("looks at status");
        let troubles = troubles(&self.world.config_file());
        let named = |count: i64, word: &str| {
            let is_it = |why: &String| why.contains(&count.to_string()) && why.contains(word);
            count == 0 || troubles.iter().any(is_it)
        };
        if !(named(held, "held") && named(doubt, "in doubt") && named(unshown, "does not show")) {
            self.broken(format!(
                "{held} held, {doubt} in doubt, {unshown} unshown, and status says: {troubles:?}"
            ));
        }
    }

    /// Asserts that the mirror equals the platform after one pass of the polls.
    async fn judge_mirror(&mut self) {
        self.world.idle().await;
        let before = self.auditor(|auditor| auditor.quota.calls);
        self.world.run_now(JobKind::Balances).await;
        self.world.looked_twice().await;
        let calls = self.auditor(|auditor| auditor.quota.calls) - before;
        let (mut service, mirror) = (self.world.stock().await, self.world.mirror().await);
        // No program tracks these SKUs, so they are not in the mirror. Nor does a create that a person cancelled.
        let cancelled = "SELECT body FROM outbox WHERE kind = 'product.create' AND state = 'cancelled'";
        let cancelled: Vec<(String,)> = self.world.outsider.rows(cancelled).await;
        let sku = |(body,): &(String,)| serde_json::from_str::<Value>(body).unwrap()["Sku"].clone();
        let cancelled: Vec<Value> = cancelled.iter().map(sku).collect();
        service.retain(|(sku, _), _| {
            !["GONE-", "ASIDE-"].iter().any(|of| sku.starts_with(of)) && !cancelled.contains(&json!(sku))
        });
        let wrong: Vec<(&Level, &i64, Option<&i64>)> = service
            .iter()
            .filter(|(level, units)| mirror.get(level) != Some(units))
            .map(|(level, units)| (level, units, mirror.get(level)))
            .collect();
        if !wrong.is_empty() {
            self.broken(format!(
                "after {calls} calls the mirror is not the platform (service, mirror): {wrong:?}"
            ));
        }
        if calls > CALLS_TO_AGREE {
            self.broken(format!("the mirror needed {calls} calls to agree"));
        }
        let booked = self.auditor(|auditor| auditor.levels.all());
        let wrong: Vec<_> =
            service.iter().filter(|(level, units)| booked.get(*level).unwrap_or(&0) != *units).collect();
        if !wrong.is_empty() {
            self.broken(format!("the platform holds what no sale and no write explains: {wrong:?}"));
        }
        for level in service.keys() {
            let listed = service[level];
            self.truth.entry(level.clone()).or_insert(listed);
        }
    }

    /// Asserts that every shipment that is reported as made was made once and carries its tracking number.
    async fn judge_parcels(&mut self, fates: &BTreeMap<String, (String, String)>) {
        let mut wrong = Vec::new();
        for order in &self.orders {
            let mut said: BTreeMap<&super::super::auditor::Content, usize> = BTreeMap::new();
            for parcel in &order.parcels {
                let key = &parcel.shipment_key;
                let is_applied = fates[key].0 == "applied" || self.restores.is_done(key);
                *said.entry(&parcel.content).or_default() += usize::from(is_applied);
            }
            for (content, said) in said {
                let made = self.auditor(|auditor| auditor.parcels.count(order.id, content));
                if made != said {
                    wrong.push(format!(
                        "order {}: {said} parcel(s) of {content:?} are applied, {made} were made",
                        order.id
                    ));
                }
            }
        }
        wrong.extend(self.untold(fates));
        wrong.into_iter().for_each(|why| self.broken(why));
    }

    /// Returns the trackings that are reported as submitted and are not.
    fn untold(&self, fates: &BTreeMap<String, (String, String)>) -> Vec<String> {
        let parcels =
            self.orders.iter().flat_map(|order| order.parcels.iter().map(move |parcel| (order, parcel)));
        let is_applied = |key: &String| fates[key].0 == "applied";
        let applied = parcels.filter(|(_, parcel)| parcel.tracking_key.as_ref().is_some_and(is_applied));
        let untold = applied.filter(|(order, parcel)| {
            let carries = |auditor: &mut super::super::auditor::Auditor| {
                auditor.parcels.any_carries(order.id, &parcel.content, &parcel.number)
            };
            !self.auditor(carries)
        });
        untold
            .map(|(order, parcel)| {
                format!("order {}: {} is applied and stands nowhere", order.id, parcel.number)
            })
            .collect()
    }
}

/// Removes a closed database, if it exists.
fn remove(database: &Path) {
    if database.exists() {
        std::fs::remove_file(database).unwrap();
    }
}

/// Returns the change of an auditor's key; a product update is one change of several stock levels.
fn change_of(key: &str) -> &str {
    key.split('\n').next().unwrap_or(key)
}

/// Returns the fate of a change. `landed`: a person cancelled it undecided, and its write had arrived.
pub fn fate(state: &str, reason: &str, landed: bool) -> Fate {
    match (state, reason) {
        ("applied", _) | ("cancelled", "landed") => Fate::Done,
        // The cancellation takes nothing back.
        ("cancelled", "operator") if landed => Fate::Done,
        ("rejected" | "cancelled", _) => Fate::Undone,
        // The stock level stays claimed until a person decides the outcome.
        ("held", "undecided" | "restored") => Fate::Open,
        ("held", _) => Fate::Held,
        _ => Fate::Open,
    }
}

impl Act {
    /// Returns the name of the act for the figures.
    pub fn name(self) -> &'static str {
        match self {
            Act::Sale | Act::SaleAmid | Act::SaleBefore => "sales",
            Act::Order => "orders",
            Act::Parcel | Act::Update | Act::Template | Act::Warehouse | Act::Product => "other changes",
            Act::Moved => "movements",
            Act::Count | Act::CountLater | Act::CountTold => "counts",
            Act::Colleague | Act::Rename | Act::Discontinue | Act::Reactivate => "edits by others",
            Act::ShipByHand | Act::TrackByHand => "shipped or told by others",
            Act::Burst(_) => "bursts of others",
            Act::WrongKey(_) => "keys changed",
            Act::Lag(_) | Act::Weather(..) => "changes of weather",
            Act::Kill => "kills",
            Act::Reconfigure => "other configurations",
            Act::Suspend => "suspends",
            Act::Resume | Act::Calm => "calms",
            Act::Calendar(_) => "clock steps",
            Act::Judge => "judgements",
            Act::Odd(..) => "odd spells",
            Act::Poison | Act::Cure => "poisonings and cures",
            Act::Sick(_) | Act::Lapse(_) => "times of sickness",
            Act::CloseOrder | Act::ReopenOrder | Act::CancelOrder => "fates of orders",
            Act::Gone | Act::Kit | Act::KitTurns => "fates of products",
            Act::Strike(..) => "strikes at the leader",
            Act::Join | Act::Leave => "comings and goings of standbys",
            Act::Apart(..) => "days with calendars apart",
            Act::Form(_) | Act::FormAgain | Act::FormOpened | Act::FormLate | Act::Office(_) => {
                "acts on the page"
            }
            Act::File(_) | Act::FileAgain => "acts with files",
            Act::Copied(_) | Act::Restored(_) | Act::Released => "acts of a restore",
            Act::Refusal(_) => "acts of other programs",
            Act::Pair => "pairs at once",
            Act::Word | Act::Lock(_) => "words and locks",
        }
    }
}

/// Returns the problems that `tallyd status` reports.
fn troubles(config: &std::path::Path) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    let output = command.arg("--config").arg(config).args(["status", "--json"]).output().unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let troubles = said["troubles"].as_array().into_iter().flatten();
    troubles.filter_map(|why| why.as_str().map(str::to_owned)).collect()
}

#[test]
fn a_change_that_was_cancelled_undecided_is_done_if_its_write_had_arrived() {
    assert_eq!(fate("cancelled", "operator", true), Fate::Done);
    assert_eq!(fate("cancelled", "operator", false), Fate::Undone);
}
