//! The quantity that each stock level must show once no change of it is on its way.
//!
//! It is the sum of the movements of others, and of each applied change, once. A sale that a write undid
//! shows as a unit too many.
//!
//! The platform has no compare-and-set: movements of others between the read that a write rests on and the
//! write's arrival are overwritten. A stock level may be off by this much, and no more (`up`, `down`). Where
//! an answer was lost, a movement of others may hide the effect of the write, or imitate it, and no check can
//! distinguish the two. Then the write's own difference is admitted too, but only if others moved the stock
//! level before the decision.

use super::super::books::Level;
use std::collections::{BTreeMap, BTreeSet};

/// Length of the history; it covers all windows and replicas.
const KEPT: usize = 64;
/// Stands for the number of a call that was claimed and not sent.
const NEVER_SENT: usize = 0;

/// Effect of a change on its stock level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Adds units.
    Add(i64),
    /// Units of a count above the platform's quantity at that time. Movements that were held then are among them.
    Count(i64),
    /// None: a count of the platform's own quantity at that time. Any, if others move the stock level before the end.
    Absolute,
    /// Any effect, by an operator's decision or policy: the stock level is accepted as it is afterwards.
    Anything,
}

/// Status of a change in the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// On its way, or of unknown outcome: its stock level is not judged.
    Open,
    /// Waits for a person and has no effect so far.
    Held,
    /// Took effect.
    Done,
    /// Never takes effect.
    Undone,
}

#[derive(Clone, Debug, Default)]
struct Account {
    listed: i64,
    expected: i64,
    /// Movements of others: time and units.
    moves: Vec<(i64, i64)>,
    /// Quantities shown, each with its first time.
    shown: Vec<(i64, i64)>,
    writes: Vec<Write>,
    /// Own writes, as a late replica hides them: time and units.
    echoes: Vec<(i64, i64)>,
}

/// An entry of a call of the daemon.
#[derive(Clone, Debug)]
struct Write {
    call: usize,
    since_ms: i64,
    /// Quantity at the platform at the send.
    before: i64,
    quantity: i64,
    arrived_ms: Option<i64>,
    is_lost: bool,
    /// True if the write may rest on a read that did not show our own writes.
    is_late: bool,
}

/// The stock levels of an account.
#[derive(Debug, Default)]
pub struct Levels {
    accounts: BTreeMap<Level, Account>,
    changes: BTreeMap<String, (Level, Effect)>,
    /// Movements that were held when goods were counted, by the key of the count: their goods were counted.
    covered: BTreeMap<String, Vec<(String, i64)>>,
    /// Stock levels judged, and entries that arrived.
    pub judged: u64,
    pub writes: u64,
    /// Units too many, and too few, that the window explains.
    pub admitted: (i64, i64),
}

impl Account {
    fn show(&mut self, listed: i64, at_ms: i64) {
        self.listed = listed;
        self.shown.push((at_ms, listed));
        if self.shown.len() > KEPT {
            self.shown.remove(0);
        }
    }

    /// Returns the admitted difference: too high, too low.
    fn slack(&self, now_ms: i64) -> (i64, i64) {
        let (mut up, mut down) = (0, 0);
        for write in &self.writes {
            let until = write.arrived_ms.filter(|_| !write.is_lost).unwrap_or(now_ms);
            let within = self.moves.iter().filter(|(at, _)| (write.since_ms..=until).contains(at));
            let echoes =
                self.echoes.iter().filter(|(at, _)| write.is_late && (write.since_ms..=until).contains(at));
            let within: Vec<i64> = within.chain(echoes).map(|(_, by)| *by).collect();
            up += within.iter().filter(|by| **by < 0).map(|by| -by).sum::<i64>();
            down += within.iter().filter(|by| **by > 0).sum::<i64>();
            if write.is_lost && !within.is_empty() {
                let difference = (write.quantity - write.before).abs();
                (up, down) = (up + difference, down + difference);
            }
        }
        (up, down)
    }

    /// Accepts the present quantity as the expected one.
    fn begin_again(&mut self, now_ms: i64, window_ms: i64) {
        self.expected = self.listed;
        self.writes.clear();
        self.moves.retain(|(at, _)| *at >= now_ms - window_ms);
        self.echoes.retain(|(at, _)| *at >= now_ms - window_ms);
    }
}

impl Levels {
    /// Records that a stock level exists and shows this quantity.
    pub fn known(&mut self, level: &Level, listed: i64, at_ms: i64) {
        let account = self.accounts.entry(level.clone()).or_default();
        account.expected = listed;
        account.show(listed, at_ms);
    }

    /// Removes a SKU that is gone or renamed, with its changes.
    pub fn forget(&mut self, sku: &str) {
        self.accounts.retain(|(of, _), _| of != sku);
        self.changes.retain(|_, ((of, _), _)| of != sku);
        self.covered.retain(|count, _| self.changes.contains_key(count));
    }

    /// Returns the quantity that the platform shows.
    pub fn listed(&self, level: &Level) -> i64 {
        self.accounts.get(level).map_or(0, |account| account.listed)
    }

    /// Returns the quantity shown at a time, as far back as the history goes.
    pub fn shown(&self, level: &Level, at_ms: i64) -> Option<i64> {
        let account = self.accounts.get(level)?;
        let then = account.shown.iter().rev().find(|(from, _)| *from <= at_ms);
        then.or(account.shown.first()).map(|(_, listed)| *listed)
    }

    pub fn all(&self) -> BTreeMap<Level, i64> {
        self.accounts.iter().map(|(level, account)| (level.clone(), account.listed)).collect()
    }

    /// Records a movement of others: a sale, or a quantity entered by hand.
    pub fn moved(&mut self, level: &Level, by: i64, at_ms: i64) {
        let account = self.accounts.entry(level.clone()).or_default();
        account.expected += by;
        account.moves.push((at_ms, by));
        account.show(account.listed + by, at_ms);
        for (of, effect) in self.changes.values_mut() {
            if of == level && *effect == Effect::Absolute {
                *effect = Effect::Anything;
            }
        }
    }

    /// Records an inserted change.
    pub fn queued(&mut self, key: &str, level: &Level, effect: Effect) {
        self.changes.insert(key.to_owned(), (level.clone(), effect));
    }

    /// Returns those of these changes that move goods of a stock level, with their units.
    pub fn movements(&self, level: &Level, keys: Vec<String>) -> Vec<(String, i64)> {
        let units = |key: &String| match self.changes.get(key) {
            Some((of, Effect::Add(units))) if of == level => Some(*units),
            _ => None,
        };
        keys.into_iter().filter_map(|key| units(&key).map(|units| (key, units))).collect()
    }

    /// Records the movements that were held when the goods of a count were counted.
    pub fn covers(&mut self, key: &str, covered: Vec<(String, i64)>) {
        self.covered.insert(key.to_owned(), covered);
    }

    /// Accepts any effect of all open counts, by an operator's decision or policy.
    pub fn anything_goes(&mut self) {
        for (_, effect) in self
            .changes
            .values_mut()
            .filter(|(_, effect)| matches!(effect, Effect::Count(_) | Effect::Absolute))
        {
            *effect = Effect::Anything;
        }
    }

    pub fn sent(
        &mut self,
        call: usize,
        level: &Level,
        quantity: i64,
        since_ms: i64,
        is_lost: bool,
        is_late: bool,
    ) {
        let account = self.accounts.entry(level.clone()).or_default();
        let before = account.listed;
        account.writes.push(Write { call, since_ms, before, quantity, arrived_ms: None, is_lost, is_late });
    }

    /// Records the claim of a change that no answer ended. The call may never have left the host; then a movement of
    /// others may still imitate it.
    pub fn claimed(&mut self, key: &str, quantity: i64, at_ms: i64, window_ms: i64) {
        let Some((level, _)) = self.changes.get(key) else { return };
        let (level, since_ms) = (level.clone(), at_ms - window_ms);
        let before = self.shown(&level, at_ms).unwrap_or(quantity);
        let account = self.accounts.entry(level).or_default();
        let mut writes = account.writes.iter();
        if !writes.any(|write| write.quantity == quantity && write.since_ms >= since_ms) {
            let (call, arrived_ms) = (NEVER_SENT, None);
            let write = Write { call, since_ms, before, quantity, arrived_ms, is_lost: true, is_late: false };
            account.writes.push(write);
        }
    }

    /// Records that a call was refused as a whole.
    pub fn not_done(&mut self, call: usize) {
        for account in self.accounts.values_mut() {
            account.writes.retain(|write| write.call != call);
        }
    }

    /// Returns a SKU in the platform's spelling: the exact one, else one that differs only in case or outer
    /// blanks.
    pub fn canonical(&self, sku: &str) -> String {
        let is_exact = self.accounts.keys().any(|(of, _)| of == sku);
        let case_key = |sku: &str| sku.trim().to_lowercase().to_uppercase().to_lowercase();
        let folded =
            || self.accounts.keys().find(|(of, _)| case_key(of) == case_key(sku)).map(|(of, _)| of.clone());
        if is_exact { sku.to_owned() } else { folded().unwrap_or_else(|| sku.to_owned()) }
    }

    /// Records that no outstanding answer reaches the daemon.
    pub fn all_lost(&mut self) {
        for write in self.accounts.values_mut().flat_map(|account| &mut account.writes) {
            write.is_lost = true;
        }
    }

    pub fn arrived(&mut self, call: usize, level: &Level, quantity: i64, at_ms: i64) {
        self.writes += 1;
        let account = self.accounts.entry(level.clone()).or_default();
        account.echoes.push((at_ms, quantity - account.listed));
        account.show(quantity, at_ms);
        if let Some(write) = account.writes.iter_mut().find(|write| write.call == call) {
            write.arrived_ms = Some(at_ms);
        }
    }

    /// Returns true if the last entry with this quantity arrived, as a person would see at the platform. Its answer may
    /// have been lost, or not recorded.
    pub fn has_arrived(&self, level: &Level, quantity: i64) -> bool {
        let writes = self.accounts.get(level).map(|account| account.writes.as_slice()).unwrap_or_default();
        let last = writes.iter().rfind(|write| write.quantity == quantity);
        last.is_some_and(|write| write.arrived_ms.is_some())
    }

    /// Returns true if the last entry with this quantity of the stock level of a change arrived.
    pub fn has_landed(&self, key: &str, quantity: i64) -> bool {
        self.changes.get(key).is_some_and(|(level, _)| self.has_arrived(level, quantity))
    }

    /// Returns the keys of the changes that are not judged yet, and of the movements that a count of them covers.
    pub fn unsettled(&self) -> Vec<&str> {
        let covered = self.covered.values().flatten().map(|(key, _)| key);
        self.changes.keys().chain(covered).map(String::as_str).collect()
    }

    /// Judges every stock level that has changes and none on its way.
    pub fn judge(&mut self, fates: &BTreeMap<String, Fate>, now_ms: i64, window_ms: i64) -> Vec<String> {
        let fate = |key: &String| fates.get(key).copied().unwrap_or(Fate::Open);
        let open: BTreeSet<Level> = self
            .changes
            .iter()
            .filter(|(key, _)| fate(key) == Fate::Open)
            .map(|(_, (level, _))| level.clone())
            .collect();
        let settled: Vec<(String, Level, Effect)> = self
            .changes
            .iter()
            .filter(|(key, (level, _))| !open.contains(level) && fate(key) != Fate::Held)
            .map(|(key, (level, effect))| (key.clone(), level.clone(), *effect))
            .collect();
        let mut touched: BTreeMap<Level, bool> = BTreeMap::new();
        for (key, level, effect) in settled {
            self.changes.remove(&key);
            let is_free = touched.entry(level.clone()).or_default();
            let account = self.accounts.entry(level).or_default();
            let covered = self.covered.remove(&key).unwrap_or_default();
            let covered = covered.iter().filter(|(key, _)| fate(key) == Fate::Done);
            let covered: i64 = covered.map(|(_, units)| units).sum();
            match effect {
                _ if fate(&key) != Fate::Done => {}
                Effect::Add(units) | Effect::Count(units) => account.expected += units - covered,
                Effect::Absolute => {}
                Effect::Anything => *is_free = true,
            }
        }
        let judged =
            touched.into_iter().filter_map(|(level, free)| self.judge_level(&level, free, now_ms, window_ms));
        judged.collect()
    }

    fn judge_level(&mut self, level: &Level, is_free: bool, now_ms: i64, window_ms: i64) -> Option<String> {
        let account = self.accounts.get_mut(level)?;
        let (off, (up, down)) = (account.listed - account.expected, account.slack(now_ms));
        let (expected, listed) = (account.expected, account.listed);
        let writes = format!("{:?}, moves {:?}", account.writes, account.moves);
        account.begin_again(now_ms, window_ms);
        if is_free {
            return None;
        }
        self.judged += 1;
        self.admitted.0 += off.clamp(0, up);
        self.admitted.1 += (-off).clamp(0, down);
        let (sku, warehouse) = level;
        (off > up || -off > down).then(|| {
            format!(
                "{sku} in {warehouse} shows {listed}; what others did and the changes that are done make {expected} \
                 (admitted: {up} too many, {down} too few); writes {writes}"
            )
        })
    }
}

#[cfg(test)]
fn shop() -> (Levels, Level) {
    let (mut levels, level) = (Levels::default(), ("A".to_owned(), 1));
    levels.known(&level, 10, 0);
    (levels, level)
}

#[test]
fn a_sale_that_a_write_undid_is_seen_unless_it_fell_into_the_window() {
    let done = BTreeMap::from([("w".to_owned(), Fate::Done)]);
    for (sold_at, violations) in [(50, 1), (150, 0)] {
        let (mut levels, level) = shop();
        levels.queued("w", &level, Effect::Add(5));
        levels.moved(&level, -2, sold_at);
        levels.sent(1, &level, 15, 100, false, false);
        levels.arrived(1, &level, 15, 200);
        assert_eq!(levels.judge(&done, 300, 0).len(), violations, "sold at {sold_at}");
    }
}

#[test]
fn a_movement_that_is_done_twice_or_never_is_seen() {
    for (written, fate, violations) in [
        (15, Fate::Done, 0),
        (20, Fate::Done, 1),
        (10, Fate::Done, 1),
        (10, Fate::Undone, 0),
        (15, Fate::Undone, 1),
    ] {
        let (mut levels, level) = shop();
        levels.queued("w", &level, Effect::Add(5));
        levels.sent(1, &level, written, 100, true, false);
        levels.arrived(1, &level, written, 200);
        let judged = levels.judge(&BTreeMap::from([("w".to_owned(), fate)]), 300, 0);
        assert_eq!(judged.len(), violations, "{written} {fate:?}");
    }
}

#[test]
fn a_sale_may_imitate_a_claim_that_was_never_sent() {
    let done = BTreeMap::from([("w".to_owned(), Fate::Done)]);
    for (sold_at, violations) in [(150, 0), (50, 1)] {
        let (mut levels, level) = shop();
        levels.queued("w", &level, Effect::Add(-2));
        levels.moved(&level, -2, sold_at);
        levels.claimed("w", 8, 100, 0);
        assert_eq!(levels.judge(&done, 300, 0).len(), violations, "sold at {sold_at}");
    }
}

#[test]
fn a_count_has_the_goods_of_a_movement_that_was_held() {
    let both = |add| BTreeMap::from([("w".to_owned(), add), ("count".to_owned(), Fate::Done)]);
    for (written, add, violations) in
        [(15, Fate::Done, 0), (20, Fate::Done, 1), (15, Fate::Undone, 0), (10, Fate::Done, 1)]
    {
        let (mut levels, level) = shop();
        levels.queued("w", &level, Effect::Add(5));
        levels.queued("count", &level, Effect::Count(5));
        levels.covers("count", levels.movements(&level, vec!["w".to_owned()]));
        levels.sent(1, &level, written, 100, false, false);
        levels.arrived(1, &level, written, 200);
        assert_eq!(levels.judge(&both(add), 300, 0).len(), violations, "{written} {add:?}");
    }
}
