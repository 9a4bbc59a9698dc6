//! The line itself: the calls that are queued, and which of them begins next.

use super::backlog::Backlog;
use super::brake;
use super::pipeline::{Pipeline, Planned};
use super::search::Search;
use super::work::OwnReads;
use crate::model::{Cell, WishId};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use tokio::task::JoinSet;

impl Pipeline {
    /// Queues a call, an operator's before the others.
    pub(super) fn queue(&mut self, call: Planned) {
        self.taken.extend(call.cells.iter().cloned());
        if call.urgent {
            let place = self.queued.iter().take_while(|before| before.urgent).count();
            self.queued.insert(place, call);
        } else {
            self.queued.push_back(call);
        }
    }

    /// True if an operator waits for what is under way.
    pub(super) fn is_urgent(&self) -> bool {
        self.urgent_reads + self.urgent_sends > 0
    }

    /// The call that may begin, with `at_once` bulk calls under way.
    pub(super) fn next(&mut self, at_once: usize) -> Option<Planned> {
        let is_urgent = self.queued.front().is_some_and(|call| call.urgent);
        if !is_urgent && self.flying.len() - self.reading - self.urgent_sends >= at_once {
            return None;
        }
        if is_urgent {
            return self.queued.pop_front();
        }
        self.halves.pop_front().or_else(|| self.queued.pop_front())
    }

    /// Puts back what was not begun: it is planned again.
    pub(super) fn put_back(&mut self) {
        let calls: Vec<Planned> = self.queued.drain(..).collect();
        let named = |call: Planned| call.cells.into_iter().map(move |cell| (cell, call.urgent));
        let cells: Vec<(Cell, bool)> = calls.into_iter().flat_map(named).collect();
        for (cell, _) in &cells {
            self.taken.remove(cell);
        }
        self.backlog.put_back(cells);
    }
}

impl Default for Pipeline {
    fn default() -> Self {
        Self {
            flying: JoinSet::new(),
            reading: 0,
            urgent_reads: 0,
            urgent_sends: 0,
            queued: VecDeque::new(),
            halves: VecDeque::new(),
            waiting: Vec::new(),
            taken: BTreeSet::new(),
            search: Search::default(),
            own_reads: OwnReads::new(),
            latency: Duration::ZERO,
            newest: WishId(0),
            backlog: Backlog::default(),
            few: BTreeSet::new(),
            flush: brake::Flush::default(),
            paid: false,
        }
    }
}
