//! The choice of SKUs to prefetch with calls that no other work needs. Pure.
//!
//! Stock that moved lately moves again soon. Near zero, one unit decides if a product can be sold. The worth
//! of a read is rate × age, the expected number of movements since the last read. A SKU that is only near
//! zero counts as half a movement and rests two minutes between reads. Therefore many slow SKUs near zero
//! cannot use up the calls. Prefetching does not replace the regular pass, which reads every SKU in its
//! interval.
//!
//! The test below simulates a day: 10,000 SKUs, the fastest moving every two minutes, a pass of 50 calls in
//! five minutes, four spare calls a minute. The mean delay until a movement is seen is 0.78 min. It is 1.32
//! min if the spare calls speed up the pass instead, and 2.01 min without them. docs/performance.md has the
//! figures for stock that runs out.

use std::time::Duration;

/// The minimum age of a fact for a prefetch.
const PREFETCH_AGE_MIN: Duration = Duration::from_secs(60);
/// The minimum age of a fact for a SKU near zero that did not move.
const UNMOVED_AGE_MIN: Duration = Duration::from_secs(120);
/// The weight of being near zero, in movements of the window.
const NEAR_ZERO_WEIGHT: f64 = 0.5;

/// A SKU that may be worth a prefetch.
#[derive(Clone, Copy, Debug)]
pub struct PrefetchCandidate {
    /// The number of movements within the window.
    pub movements: u32,
    /// True if one of its stock levels is near zero.
    pub near_zero: bool,
    /// The age of its facts.
    pub age: Duration,
}

/// Returns the indices of at most `limit` candidates, the worthiest first.
pub fn pick_candidates(candidates: &[PrefetchCandidate], limit: usize) -> Vec<usize> {
    let worth = |candidate: &PrefetchCandidate| {
        let rate = f64::from(candidate.movements) + if candidate.near_zero { NEAR_ZERO_WEIGHT } else { 0.0 };
        rate * candidate.age.as_secs_f64()
    };
    let mut worthy: Vec<(usize, f64)> = candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| {
            candidate.age >= if candidate.movements > 0 { PREFETCH_AGE_MIN } else { UNMOVED_AGE_MIN }
        })
        .map(|(index, candidate)| (index, worth(candidate)))
        .filter(|(_, worth)| *worth > 0.0)
        .collect();
    worthy.sort_by(|one, two| two.1.total_cmp(&one.1).then(one.0.cmp(&two.0)));
    worthy.into_iter().take(limit).map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(moves: u32, near_zero: bool, age_s: u64) -> PrefetchCandidate {
        PrefetchCandidate { movements: moves, near_zero, age: Duration::from_secs(age_s) }
    }

    #[test]
    fn fast_movers_and_what_is_near_zero_go_first_and_what_was_just_read_does_not() {
        let candidates = [
            candidate(0, false, 9_000),
            candidate(1, false, 100),
            candidate(9, false, 59),
            candidate(9, false, 61),
            candidate(0, true, 250),
            candidate(0, true, 119),
            candidate(1, true, 60),
        ];
        assert_eq!(pick_candidates(&candidates, 9), [3, 4, 1, 6]);
        assert_eq!(pick_candidates(&candidates, 1), [3]);
    }

    const SKUS: usize = 10_000;
    const PAGE: usize = 200;
    const MINUTES: usize = 24 * 60;
    /// Calls a minute of the regular pass, and spare calls.
    const REGULAR: usize = 10;
    const SPARE: usize = 4;

    /// A pseudorandom generator with the same sequence on every platform.
    struct PrefetchRandom(u64);

    impl PrefetchRandom {
        fn next_below(&mut self, bound: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 % u64::try_from(bound).unwrap()).unwrap()
        }
    }

    #[derive(Clone, Default)]
    struct SimulatedSku {
        read_at: usize,
        /// The minutes of movements not seen yet, each with true if it was of the last three units.
        unread_movements: Vec<(usize, bool)>,
        /// The minutes at which movements were seen, the newest last.
        read_movements: Vec<usize>,
        /// The true and the read quantity in units; `None` if stock never runs out.
        stock: Option<(u32, u32)>,
        sold_out_at: usize,
    }

    impl SimulatedSku {
        /// Sells a unit if there is one. Half a day after the last unit was sold, forty arrive.
        fn pass_minute(&mut self, now: usize, is_sold: bool) {
            match &mut self.stock {
                Some((0, _)) if now - self.sold_out_at < MINUTES / 2 => {}
                Some((units @ 0, _)) => {
                    *units = 40;
                    self.unread_movements.push((now, false));
                }
                Some((units, _)) if is_sold => {
                    self.unread_movements.push((now, *units <= 3));
                    *units -= 1;
                    self.sold_out_at = now;
                }
                None if is_sold => self.unread_movements.push((now, false)),
                Some(_) | None => {}
            }
        }

        fn is_near_zero(&self) -> bool {
            self.stock.is_some_and(|(_, read)| (1..=3).contains(&read))
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum SpareUse {
        Nothing,
        QuickerRounds,
        Movers,
        MoversAndNearZero,
    }

    /// The delays until movements are seen: their sum in minutes, and their number.
    #[derive(Clone, Copy, Default)]
    struct DelaySum {
        minutes: u32,
        moves: u32,
    }

    impl DelaySum {
        fn add_delay(&mut self, age: usize) {
            self.minutes += u32::try_from(age).unwrap();
            self.moves += 1;
        }

        fn mean_delay(self) -> f64 {
            f64::from(self.minutes) / f64::from(self.moves.max(1))
        }
    }

    /// A simulated day, with the delays of all movements and of those of the last three units.
    struct SimulatedDay {
        skus: Vec<SimulatedSku>,
        next_sku: usize,
        all: DelaySum,
        near_zero: DelaySum,
        calls: usize,
    }

    impl SimulatedDay {
        fn simulate_day(spare: SpareUse, runs_out: bool) -> Self {
            let stock = |rank: usize| runs_out.then(|| u32::try_from(rank * 7919 % 40).unwrap());
            let sku = |rank| SimulatedSku {
                stock: stock(rank).map(|units| (units, units)),
                ..SimulatedSku::default()
            };
            let skus = (0..SKUS).map(sku).collect();
            let (all, near_zero) = (DelaySum::default(), DelaySum::default());
            let (mut day, mut random) =
                (Self { skus, next_sku: 0, all, near_zero, calls: 0 }, PrefetchRandom(0x5eed));
            for now in 1..=MINUTES {
                for (rank, sku) in day.skus.iter_mut().enumerate() {
                    // The fastest moves every two minutes, the slowest once in a fortnight.
                    sku.pass_minute(now, random.next_below(2 * (rank + 1)) == 0);
                }
                day.read_round(now, REGULAR * PAGE);
                day.use_spare_calls(now, spare);
            }
            day
        }

        fn read_sku(&mut self, sku: usize, now: usize) {
            let sku = &mut self.skus[sku];
            sku.read_at = now;
            sku.stock = sku.stock.map(|(units, _)| (units, units));
            if !sku.unread_movements.is_empty() {
                sku.read_movements.push(now);
            }
            for (moved, was_near_zero) in sku.unread_movements.drain(..) {
                self.all.add_delay(now - moved);
                if was_near_zero {
                    self.near_zero.add_delay(now - moved);
                }
            }
        }

        fn read_round(&mut self, now: usize, skus: usize) {
            for _ in 0..skus {
                self.read_sku(self.next_sku, now);
                self.next_sku = (self.next_sku + 1) % SKUS;
            }
        }

        fn use_spare_calls(&mut self, now: usize, spare: SpareUse) {
            let picked = match spare {
                SpareUse::Nothing => return,
                SpareUse::QuickerRounds => Vec::new(),
                SpareUse::Movers | SpareUse::MoversAndNearZero => {
                    pick_candidates(&self.candidates(now, spare == SpareUse::MoversAndNearZero), SPARE * PAGE)
                }
            };
            let calls = if spare == SpareUse::QuickerRounds { SPARE } else { picked.len().div_ceil(PAGE) };
            self.calls += calls;
            let room = calls * PAGE - picked.len();
            picked.into_iter().for_each(|sku| self.read_sku(sku, now));
            self.read_round(now, room);
        }

        /// Returns the candidates by data the daemon has: movements seen within four hours, and the age of
        /// the last read.
        fn candidates(&self, now: usize, with_near_zero: bool) -> Vec<PrefetchCandidate> {
            let moves = |sku: &SimulatedSku| {
                sku.read_movements.iter().rev().take_while(|at| now - **at < 240).count()
            };
            let minutes = |count: usize| Duration::from_secs(60 * u64::try_from(count).unwrap());
            let known = |sku: &SimulatedSku| PrefetchCandidate {
                movements: u32::try_from(moves(sku)).unwrap(),
                near_zero: with_near_zero && sku.is_near_zero(),
                age: minutes(now - sku.read_at),
            };
            self.skus.iter().map(known).collect()
        }
    }

    #[test]
    fn attention_sees_moves_sooner_than_quicker_rounds_with_the_same_calls() {
        let mean = |spare| SimulatedDay::simulate_day(spare, false).all.mean_delay();
        let (none, rounds, attention) =
            (mean(SpareUse::Nothing), mean(SpareUse::QuickerRounds), mean(SpareUse::Movers));
        println!("none {none:.2} min, quicker rounds {rounds:.2} min, attention {attention:.2} min");
        assert!(attention < 0.75 * rounds, "{none:.2} {rounds:.2} {attention:.2}");
    }

    #[test]
    fn the_last_pieces_are_seen_to_go_sooner_and_moves_at_large_not_later() {
        let figures = |spare| {
            let day = SimulatedDay::simulate_day(spare, true);
            let (all, near_zero) = (day.all.mean_delay(), day.near_zero.mean_delay());
            println!("{spare:?}: {all:.2} min, near zero {near_zero:.2} min, {} spare calls", day.calls);
            (all, near_zero, day.calls)
        };
        let (rounds, rounds_near, rounds_calls) = figures(SpareUse::QuickerRounds);
        let (movers, movers_near, _) = figures(SpareUse::Movers);
        let (both, both_near, both_calls) = figures(SpareUse::MoversAndNearZero);
        assert!(both_calls <= rounds_calls, "with no more calls");
        assert!(both < 0.9 * rounds && both < movers, "{rounds:.2} {movers:.2} {both:.2}");
        let best_near = rounds_near.min(movers_near);
        assert!(both_near < 0.25 * best_near, "{rounds_near:.2} {movers_near:.2} {both_near:.2}");
    }
}
