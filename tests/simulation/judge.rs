//! The auditor's judgement of a world in which no write is left.

use super::books::Level;
use super::world::World;
use std::collections::{BTreeMap, BTreeSet};
use tallyd::model::JobKind;

const CALLS_PER_MINUTE: usize = 120;

impl World {
    /// Asserts the invariants of every world.
    ///
    /// The quota was kept and no change was lost. After one more poll, and second reads where a read did not
    /// show a write, the mirror, the platform and the ground truth agree.
    pub async fn agrees(&mut self) {
        self.poll().await;
        self.looked_twice().await;
        let seed = self.plan.seed;
        self.audit().calls.judge(CALLS_PER_MINUTE);
        let service = self.stock().await;
        let odd = differs(&self.mirror().await, &service);
        assert!(odd.is_empty(), "seed {seed}: the mirror is not what the platform shows: {odd:?}");
        let books: BTreeMap<_, _> =
            self.audit().books.levels.iter().map(|(level, real)| (level.clone(), real.listed)).collect();
        let odd = differs(&books, &service);
        assert!(odd.is_empty(), "seed {seed}: the platform holds what no write it took explains: {odd:?}");
        let fates = self.fates().await;
        assert_eq!(fates.len() as u64, self.changes(), "seed {seed}: a change is lost");
        for (key, (state, reason)) in fates {
            let is_told = match state.as_str() {
                "applied" => true,
                "held" | "rejected" | "cancelled" | "in_doubt" => !reason.is_empty(),
                _ => false,
            };
            assert!(is_told, "seed {seed}: {key} ended {state} ({reason})");
        }
    }

    /// Runs balances once, now.
    pub async fn poll(&mut self) {
        self.run_now(JobKind::Balances).await;
    }
}

/// Returns the stock levels on which the two maps differ, with both quantities.
fn differs(
    left: &BTreeMap<Level, i64>,
    right: &BTreeMap<Level, i64>,
) -> Vec<(Level, Option<i64>, Option<i64>)> {
    let levels: BTreeSet<&Level> = left.keys().chain(right.keys()).collect();
    let said = |level: &Level| (level.clone(), left.get(level).copied(), right.get(level).copied());
    levels.into_iter().map(said).filter(|(_, one, other)| one != other).collect()
}
