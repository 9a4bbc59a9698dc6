//! What befalls a call on its way, from the seed: every second create and update meets something.
//!
//! The kinds are those a client cannot tell apart at once: done or not done, answered wrongly, late or not at all.

use super::random::Random;
use tallyd::model::{Effect, Operation};

/// What befalls one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mishap {
    /// It is lost before it arrives.
    LostBefore,
    /// It is done, and its answer is lost.
    LostAfter,
    /// It is done, and answered 500.
    FailsAfter,
    /// It is done, and half the answer comes.
    Cut,
    /// It is done, and a page for people comes back.
    Html,
    /// It is not done: another program has the slots.
    NoSlot,
    /// It is not done: another program spent the minute.
    NoPlace,
    /// It is done when the caller has long given up.
    Late,
    /// It is never done, and never answered.
    Swallowed,
    /// No connection came about.
    NoConnection,
}

impl Mishap {
    pub const ALL: [Mishap; 10] = [
        Mishap::LostBefore,
        Mishap::LostAfter,
        Mishap::FailsAfter,
        Mishap::Cut,
        Mishap::Html,
        Mishap::NoSlot,
        Mishap::NoPlace,
        Mishap::Late,
        Mishap::Swallowed,
        Mishap::NoConnection,
    ];
}

/// How much goes wrong, in percent of the calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Storm {
    /// Of the calls that change something.
    pub writes: i64,
    /// Of the others.
    pub reads: i64,
}

impl Storm {
    /// What befalls the next call.
    pub fn draw(self, operation: Operation, random: &mut Random) -> Option<Mishap> {
        let share = match operation.effect() {
            Effect::Write => self.writes,
            Effect::Read => self.reads,
        };
        let happens = random.percent(share);
        let mishap = *random.pick(&Mishap::ALL);
        happens.then_some(mishap)
    }
}
