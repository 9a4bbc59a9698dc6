//! Which facts are worth reading before their turn, within calls nobody else needs. Pure.
//!
//! What moved lately moves again soon, and near zero a unit more or less decides whether something can be sold. The
//! expected number of moves since the last read is rate × age: those with most of it go first, so that a fast mover is
//! read often and a slow one now and then. Nothing is taken away from anybody: the regular pass reads every SKU in its
//! interval all the same.
//!
//! In a simulated day (10,000 SKUs, the fastest moving every two minutes, the others the less the further down the list, a
//! pass of 50 calls in five minutes and four calls a minute to spare) a move is seen after 0.82 min on average, after
//! 1.32 min where the spare calls make the rounds quicker, and after 2.01 min without them.

use std::time::Duration;

/// A fact younger than this is not read again before its turn.
const YOUNGEST: Duration = Duration::from_secs(60);
/// What being near zero is worth, in moves of the window that is looked at.
const NEAR_ZERO: f64 = 1.0;

/// What is known of one SKU that may be worth a look.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Moves within the window that is looked at.
    pub moves: u32,
    /// One of its cells is near zero.
    pub near_zero: bool,
    /// The age of its facts.
    pub age: Duration,
}

/// The indices of at most `limit` candidates, those most worth a look first.
pub fn pick(candidates: &[Candidate], limit: usize) -> Vec<usize> {
    let worth = |candidate: &Candidate| {
        let rate = f64::from(candidate.moves) + if candidate.near_zero { NEAR_ZERO } else { 0.0 };
        rate * candidate.age.as_secs_f64()
    };
    let mut worthy: Vec<(usize, f64)> = candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| candidate.age >= YOUNGEST)
        .map(|(index, candidate)| (index, worth(candidate)))
        .filter(|(_, worth)| *worth > 0.0)
        .collect();
    worthy.sort_by(|one, two| two.1.total_cmp(&one.1).then(one.0.cmp(&two.0)));
    worthy.into_iter().take(limit).map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(moves: u32, near_zero: bool, age_s: u64) -> Candidate {
        Candidate { moves, near_zero, age: Duration::from_secs(age_s) }
    }

    #[test]
    fn fast_movers_and_what_is_near_zero_go_first_and_what_was_just_read_does_not() {
        let candidates = [
            candidate(0, false, 9_000),
            candidate(1, false, 100),
            candidate(9, false, 59),
            candidate(9, false, 61),
            candidate(0, true, 250),
        ];
        assert_eq!(pick(&candidates, 9), [3, 4, 1]);
        assert_eq!(pick(&candidates, 1), [3]);
    }

    const SKUS: usize = 10_000;
    const PAGE: usize = 200;
    const MINUTES: usize = 24 * 60;
    /// Calls a minute of the regular pass, and those nobody needs.
    const REGULAR: usize = 10;
    const SPARE: usize = 4;

    /// Whole numbers that look random and are the same everywhere.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 % u64::try_from(bound).unwrap()).unwrap()
        }
    }

    /// One SKU of the simulation.
    #[derive(Clone, Default)]
    struct Sku {
        read_at: usize,
        /// Minutes of the moves that were not seen yet.
        unseen: Vec<usize>,
        /// Minutes at which moves were seen, newest last.
        seen: Vec<usize>,
    }

    /// What the spare calls are used for.
    enum Spare {
        Nothing,
        QuickerRounds,
        Attention,
    }

    /// The mean age in minutes of facts that moved, when that is seen.
    fn mean_age(spare: &Spare) -> f64 {
        let (mut random, mut skus) = (Random(0x5eed), vec![Sku::default(); SKUS]);
        let (mut ages, mut moves, mut turn) = (0, 0u32, 0);
        let mut read = |sku: &mut Sku, now: usize| {
            sku.read_at = now;
            if !sku.unseen.is_empty() {
                sku.seen.push(now);
            }
            for moved in sku.unseen.drain(..) {
                ages += now - moved;
                moves += 1;
            }
        };
        for now in 1..=MINUTES {
            for (rank, sku) in skus.iter_mut().enumerate() {
                // The fastest moves every two minutes, the slowest once in a fortnight.
                if random.below(2 * (rank + 1)) == 0 {
                    sku.unseen.push(now);
                }
            }
            let round = REGULAR + if matches!(spare, Spare::QuickerRounds) { SPARE } else { 0 };
            for _ in 0..round * PAGE {
                read(&mut skus[turn], now);
                turn = (turn + 1) % SKUS;
            }
            if matches!(spare, Spare::Attention) {
                let hot: Vec<usize> = pick(&candidates(&skus, now), SPARE * PAGE);
                hot.into_iter().for_each(|sku| read(&mut skus[sku], now));
            }
        }
        f64::from(u32::try_from(ages).unwrap()) / f64::from(moves)
    }

    /// What is known from outside: when moves were seen within four hours, and when each was read.
    fn candidates(skus: &[Sku], now: usize) -> Vec<Candidate> {
        let moves = |sku: &Sku| sku.seen.iter().rev().take_while(|at| now - **at < 240).count();
        let minutes = |count: usize| Duration::from_secs(60 * u64::try_from(count).unwrap());
        let known = |sku: &Sku| Candidate {
            moves: u32::try_from(moves(sku)).unwrap(),
            near_zero: false,
            age: minutes(now - sku.read_at),
        };
        skus.iter().map(known).collect()
    }

    #[test]
    fn attention_sees_moves_sooner_than_quicker_rounds_with_the_same_calls() {
        let none = mean_age(&Spare::Nothing);
        let rounds = mean_age(&Spare::QuickerRounds);
        let attention = mean_age(&Spare::Attention);
        println!("none {none:.2} min, quicker rounds {rounds:.2} min, attention {attention:.2} min");
        assert!(attention < 0.75 * rounds, "{none:.2} {rounds:.2} {attention:.2}");
    }
}
