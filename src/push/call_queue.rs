//! Queue of a pipeline: the packed calls, and the choice of the next one.

use super::backlog::Backlog;
use super::brake;
use super::fault_search::Search;
use super::pipeline::{Pipeline, Planned};
use super::snapshot::OwnReads;
use crate::model::{Cell, WishId};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use tokio::task::JoinSet;

impl Pipeline {
    /// Queues a call. An operator's call goes before the others.
    pub(super) fn queue(&mut self, call: Planned) {
        self.taken.extend(call.cells.iter().cloned());
        if call.urgent {
            let place = self.queued.iter().take_while(|before| before.urgent).count();
            self.queued.insert(place, call);
        } else {
            self.queued.push_back(call);
        }
    }

    /// Returns true if a read or update in flight has an operator's change.
    pub(super) fn is_urgent(&self) -> bool {
        self.urgent_reads + self.urgent_sends > 0
    }

    /// Returns the call that may start, with at most `at_once` bulk calls in flight.
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

    /// Puts the stock levels of queued calls back to the backlog, to be planned again.
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
