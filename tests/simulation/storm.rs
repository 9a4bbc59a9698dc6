//! Faults of a call on its way, from the seed.
//!
//! The kinds are those that a client cannot tell apart at once: with or without effect, with a wrong answer,
//! a late one or none.

use super::random::Random;
use tallyd::model::{CallEffect, Operation};

/// Fault of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mishap {
    /// Lost before it arrives.
    LostBefore,
    /// Takes effect; the answer is lost.
    LostAfter,
    /// Takes effect; answered 500.
    FailsAfter,
    /// Takes effect; half the answer arrives.
    Cut,
    /// Takes effect; answered with an HTML page.
    Html,
    /// No effect: another program holds the slots.
    NoSlot,
    /// No effect: another program used up the minute.
    NoPlace,
    /// Takes effect after the caller's time-out.
    Late,
    /// No effect, and no answer.
    Swallowed,
    /// The connection failed.
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

/// Rates of faults, in percent of the calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Storm {
    /// Of the calls that change something.
    pub writes: i64,
    /// Of the other calls.
    pub reads: i64,
}

impl Storm {
    /// Draws the fault of the next call.
    pub fn draw(self, operation: Operation, random: &mut Random) -> Option<Mishap> {
        let share = match operation.effect() {
            CallEffect::Write => self.writes,
            CallEffect::Read => self.reads,
        };
        let happens = random.percent(share);
        let mishap = *random.pick(&Mishap::ALL);
        happens.then_some(mishap)
    }
}
