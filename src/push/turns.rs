//! The runner of a push: it starts what may start, waits, and takes what ends. All calls are its tasks.
//!
//! A *drain* sends the quantities of the first window in which one can move. Shipments and trackings write no
//! stock level. They go beside a drain that lasts, because a large recount takes half an hour. After the drain
//! the other changes have a turn, one call of each kind; then quantities are drained again. The run ends when a
//! turn sends nothing.

use super::run::{FinishedCall, PushPipeline, PushRun};
use crate::exec::JobError;
use crate::model::Moment;

impl PushRun<'_> {
    /// Delivers until nothing is left to do now. After an error it waits for the calls in flight, because an
    /// aborted call would leave its changes in doubt.
    pub(super) async fn deliver(&mut self) -> Result<(), JobError> {
        let context = self.context;
        let (mut ended, mut news) = (Ok(()), context.subscribe_changes());
        loop {
            if ended.is_ok() {
                ended = self.start_work().await;
            }
            let pause = self.pause_end().filter(|_| ended.is_ok());
            tokio::select! {
                biased;
                Some(finished) = self.in_flight.join_next() => {
                    ended = ended.and(self.take_finished(resume_result(finished)));
                }
                waited = context.pause_until(pause), if pause.is_some() => {
                    ended = ended.and(waited);
                    self.begin_drain();
                }
                came = news.changed(), if pause.is_some() || !self.in_flight.is_empty() => {
                    came.expect("the context owns the sender");
                    self.are_shipments_due = true;
                    self.begin_drain();
                }
                else => return ended,
            }
        }
    }

    async fn start_work(&mut self) -> Result<(), JobError> {
        while !self.is_drained {
            if self.may_drain() {
                let filled = self.fill_pipeline().await;
                self.stop_drain(filled)?;
            }
            let waits = self.may_drain() && self.drain_pause_end().is_some();
            if waits || self.pipeline.is_in_flight() {
                break;
            }
            self.end_drain();
        }
        self.start_others();
        Ok(())
    }

    /// Returns true if quantities may be sent. The first step of a drain ends a hold of the updates.
    fn may_drain(&self) -> bool {
        let is_held = || !self.pipeline.is_new() && self.context.key.holds_updates();
        self.drain_error.is_none() && !self.is_cut_off && !is_held()
    }

    /// Ends the drain, unless none of the window could move and others are behind it. The next run delivers those
    /// behind a window that moved, so that other jobs have their turn.
    fn end_drain(&mut self) {
        self.wait_end = self.delay_end().filter(|_| self.drain_error.is_none() && !self.is_cut_off);
        // SKUs that are not tried again stay so for this run; all else starts anew.
        let given_up = std::mem::take(&mut self.pipeline.given_up);
        self.pipeline = PushPipeline { given_up, ..PushPipeline::default() };
        let may_go_on = self.drain_error.is_none() && !self.is_cut_off;
        if let Some(end) = self.window_end.filter(|_| may_go_on) {
            if self.summary.moved() == self.moved_before {
                self.window_after = end;
                return;
            }
            self.has_more = true;
        }
        self.is_drained = true;
    }

    /// Starts a turn of the other changes if none is in flight: of the shipments beside a drain, else of all.
    fn start_others(&mut self) {
        let beside = !self.is_drained;
        let is_due = match beside {
            true => self.are_shipments_due && self.shipments_from <= self.context.moment(),
            false => !self.are_others_over,
        };
        let Some(mut others) = self.others.take_if(|_| is_due) else { return };
        self.are_shipments_due = false;
        self.in_flight.spawn(async move {
            let was_sent = others.send_turn(beside).await;
            Ok(FinishedCall::Others { others, beside, was_sent })
        });
    }

    fn take_finished(&mut self, finished: Result<FinishedCall, JobError>) -> Result<(), JobError> {
        match finished {
            Ok(FinishedCall::Others { others, beside, was_sent }) => {
                self.others = Some(others);
                match (was_sent?, beside) {
                    (true, true) => self.are_shipments_due = true,
                    (true, false) => self.begin_drain(),
                    (false, true) => {}
                    (false, false) => self.are_others_over = true,
                }
                Ok(())
            }
            Ok(FinishedCall::Read { skus, page, is_urgent, is_part }) => {
                let handled = self.handle_read((skus, page), is_urgent, is_part);
                self.stop_drain(handled)
            }
            Ok(FinishedCall::Update { stock_levels, is_urgent, effect }) => {
                self.handle_update(stock_levels, is_urgent, effect);
                Ok(())
            }
            Err(error) => self.stop_drain(Err(error)),
        }
    }

    /// Keeps an error that stops only the quantities.
    fn stop_drain(&mut self, ended: Result<(), JobError>) -> Result<(), JobError> {
        match ended {
            Err(error) if !error.ends_run() => drop(self.drain_error.get_or_insert(error)),
            ended => return ended,
        }
        Ok(())
    }

    /// Returns the end of the pause after which something may start.
    fn pause_end(&self) -> Option<Moment> {
        if self.is_drained {
            let waits = self.drain_error.is_none() && !(self.are_others_over && self.has_waited);
            return self.wait_end.filter(|_| waits);
        }
        let lead = (self.others.is_some() && self.are_shipments_due).then_some(self.shipments_from);
        let lead = lead.filter(|end| *end > self.context.moment());
        let pause = if self.may_drain() { self.drain_pause_end() } else { None };
        pause.into_iter().chain(lead).min()
    }
}

fn resume_result<T>(result: Result<T, tokio::task::JoinError>) -> T {
    match result {
        Ok(value) => value,
        // The calls are never cancelled, so a join error is a panic; it is passed on.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
