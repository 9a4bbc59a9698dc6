//! Entries that programs and commands left in the database: changes, decisions, requests, named orders.

use super::{COLLECT_TIME, Supervisor, Task, Timer};
use crate::daemon::control::serve_request;
use crate::daemon::pauses::{end_due_pauses, log_pauses, unless_paused};
use crate::model::{ChangeId, JobKind, Position, RunTrigger};
use crate::store::StoreError;
use crate::{exec, sync};
use std::time::Duration;

impl Supervisor {
    pub(super) async fn check_outbox(&mut self) -> Result<(), StoreError> {
        self.plan_outbox_check(self.outbox_delay * 6);
        if self.timers.contains_key(&Timer::CatchUp) {
            return Ok(());
        }
        let new = self.context.store.new_entries(self.last_resolution).await?;
        if ChangeId(new.change) > self.last_change {
            self.last_change = ChangeId(new.change);
            self.plan_push(COLLECT_TIME);
        }
        // A pass over the orders that is running reads these too.
        if new.order_read_request > self.last_order_request && !self.running.contains(&Task::Orders) {
            self.last_order_request = new.order_read_request;
            self.read_orders();
        }
        if Position(new.decision) > self.last_resolution {
            let before = std::mem::replace(&mut self.last_resolution, Position(new.decision));
            self.plan_push(Duration::ZERO);
            self.plan_settle(Duration::ZERO).await?;
            exec::log_released(&self.context, before).await?;
            for kind in log_pauses(&self.context, before).await? {
                if self.schedules.contains_key(&kind) {
                    self.begin_run(kind, RunTrigger::Missed);
                }
            }
            self.end_pauses().await?;
            exec::apply_lifted_wait(&self.context, before).await?;
        }
        if new.request > self.last_request {
            self.start_requests().await?;
        }
        Ok(())
    }

    pub(super) fn read_orders(&mut self) {
        let kind = JobKind::OrderLines;
        let is_read = self.job_slots.is_busy(kind) || self.running.contains(&Task::Orders);
        if self.schedules.contains_key(&kind) && !is_read {
            let context = self.context.clone();
            let work = async move {
                let run = unless_paused(&context, kind, sync::read_named_orders(&context)).await?;
                Ok(run.ok().flatten())
            };
            self.spawn_task(Task::Orders, work);
        }
    }

    pub(super) async fn start_requests(&mut self) -> Result<(), StoreError> {
        for row in self.context.store.request_unanswered(self.last_request).await? {
            self.last_request = row.id;
            self.spawn_task(Task::Request, serve_request(self.context.clone(), row));
        }
        Ok(())
    }

    /// Ends the pauses whose time has come, and plans the next end.
    pub(super) async fn end_pauses(&mut self) -> Result<(), StoreError> {
        let (end, now) = (end_due_pauses(&self.context).await?, self.context.now());
        self.plan(Timer::PauseEnd, end.map(|end| end.duration_since(now)));
        Ok(())
    }
}
