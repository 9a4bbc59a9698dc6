//! A person's decision amid the daemon's work.
//!
//! It begins with the first event after its time and is carried out some statements of the daemon later. So
//! it falls between a read of the daemon and the commit that follows from that read. It uses the daemon's own
//! connection, whose users wait in a queue: the decision is carried out after a given number of turns. With a
//! connection of its own, the order of the statements would be random.

use super::World;
use tallyd::model::JobKind;
use tallyd::model::{Clock, RunTrigger};
use tallyd::store::{Durability, Store};

/// A decision about a change, carried out if the state still allows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saying {
    Cancel,
    Retry,
    Release,
}

/// A decision about a change, with its moment.
#[derive(Clone, Debug)]
pub struct Amid {
    pub key: String,
    pub saying: Saying,
    /// Statements of others that come first.
    pub turns: i64,
}

impl World {
    /// Schedules a decision for a time; it is made then, or with the next event.
    pub fn say_later(&mut self, at_ms: i64, word: Amid) {
        self.amid.push((at_ms, word));
    }

    /// Begins the decisions that are due and returns true if there is one.
    pub(super) fn say_amid(&mut self, at_ms: i64) -> bool {
        if self.is_down() {
            return false;
        }
        let (due, later) = std::mem::take(&mut self.amid).into_iter().partition(|(when, _)| *when <= at_ms);
        self.amid = later;
        let due: Vec<(i64, Amid)> = due;
        let has_decision = !due.is_empty();
        for (_, word) in due {
            let (store, clock) = (self.store().clone(), self.clock.clone());
            tokio::spawn(async move { say(&store, &clock, &word).await });
        }
        has_decision
    }

    /// Plans the jobs that the daemon starts when it notices a decision.
    ///
    /// This comes after the event with which the decision began: a run that starts with that event may have
    /// read before the decision's commit.
    pub(super) fn notice_decision(&mut self) {
        let at = self.clock.now_ms() + super::GATHER_MS;
        self.plan_job(JobKind::Push, at, RunTrigger::Outbox);
        self.plan_job(JobKind::Settle, at, RunTrigger::Outbox);
    }
}

async fn say(store: &Store, clock: &impl Clock, word: &Amid) {
    for _ in 0..word.turns {
        drop(store.run_list(None, 1).await);
    }
    // The database may be locked; then the command failed and nothing was decided.
    let Ok(mut write) = store.begin_write(Durability::Full).await else { return };
    let now = clock.now();
    let is_said = match word.saying {
        Saying::Cancel => write.outbox_cancel(&word.key, now).await.is_ok_and(|said| said.is_ok()),
        Saying::Retry => write.outbox_retry(&word.key, now).await.is_ok_and(|said| said.is_ok()),
        Saying::Release => write.brake_release(std::slice::from_ref(&word.key), now).await.is_ok(),
    };
    if is_said {
        drop(write.commit().await);
    }
}
