//! Facts of plans, from two sources: fresh reads for a send, stored facts for a preview.
//!
//! Each kind has one function that plans a change. It takes the facts from either source, so the preview shows
//! the plan of the send.

use super::{DeliveryRun, absence_subject, product_update, store_wait_reasons};
use crate::exec::change_events::log_outcomes;
use crate::exec::preflight::{self, CreateBody, OrderSnapshot, ReadOrigin, TimedRead};
use crate::exec::{JobError, absence};
use crate::model::{ChangeId, ExchangeId, OrderId, ShipmentId, Sku};
use crate::outbox::{ChangeState, ProductUpdate, Reason};
use crate::reconcile::ChangePlan;
use crate::reconcile::creates::FoundRecord;
use crate::reconcile::product_update::ShownFields;
use crate::reconcile::tracking::ItemFact;
use crate::store::{ChangeOutcome, ClaimedChange, Durability, ProductStock, Store};

/// Result of a read for a plan; `None` if the change cannot be planned now.
pub(super) type PlanRead<T> = Result<Option<TimedRead<T>>, JobError>;

pub(super) struct ProductFacts {
    pub(super) levels: ProductStock,
    /// Exchange that must have shown the facts; `None` for stored facts.
    pub(super) read: Option<ExchangeId>,
    /// Other fields that the read showed.
    pub(super) shown: ShownFields,
}

/// Source of the facts of plans, which also takes the plans that send nothing.
pub(super) trait PlanSource {
    fn store(&self) -> &Store;

    /// Returns the lines of an order; no snapshot if it was never read.
    async fn order(&mut self, id: ChangeId, order: OrderId) -> PlanRead<Option<OrderSnapshot>>;

    /// Returns the items of a shipment; `None` inside if they were never read whole.
    async fn items(&mut self, id: ChangeId, shipment: ShipmentId) -> PlanRead<Option<Vec<ItemFact>>>;

    /// Returns the records that may have the name of a create.
    async fn namesakes(&mut self, id: ChangeId, create: CreateBody<'_>) -> PlanRead<Vec<FoundRecord>>;

    async fn product(&mut self, id: ChangeId, change: &ProductUpdate, sku: &Sku) -> PlanRead<ProductFacts>;

    /// Returns the content of a plan that sends. Otherwise handles the change; `subject` names what it lacks.
    async fn plan_content<T>(
        &mut self,
        id: ChangeId,
        plan: ChangePlan<T>,
        subject: &str,
    ) -> Result<Option<T>, JobError>;

    /// Handles a tracking whose items all have their number already, as `read` shows.
    async fn apply_agreed(&mut self, id: ChangeId, read: ExchangeId) -> Result<(), JobError>;
}

impl PlanSource for DeliveryRun {
    fn store(&self) -> &Store {
        &self.context.store
    }

    async fn order(&mut self, id: ChangeId, order: OrderId) -> PlanRead<Option<OrderSnapshot>> {
        let read = preflight::read_order(self.origin(), order).await;
        self.preflight_result(id, read.map(|read| read.map(Some))).await
    }

    async fn items(&mut self, id: ChangeId, shipment: ShipmentId) -> PlanRead<Option<Vec<ItemFact>>> {
        let read = preflight::read_shipment(self.origin(), shipment).await;
        let read = read.map(|read| read.map(|items| Some(preflight::tracking_items(&items))));
        self.preflight_result(id, read).await
    }

    async fn namesakes(&mut self, id: ChangeId, create: CreateBody<'_>) -> PlanRead<Vec<FoundRecord>> {
        let read = create.preflight_named(self.origin()).await;
        self.preflight_result(id, read).await
    }

    async fn product(&mut self, id: ChangeId, change: &ProductUpdate, sku: &Sku) -> PlanRead<ProductFacts> {
        let read = product_update::preflight_update(self.origin(), change, sku).await;
        let Some(seen) = self.preflight_result(id, read).await? else { return Ok(None) };
        let (levels, read) = (self.context.store.product_stock(sku).await?, Some(seen.exchange));
        Ok(Some(seen.map(|shown| ProductFacts { levels, read, shown })))
    }

    async fn plan_content<T>(
        &mut self,
        id: ChangeId,
        plan: ChangePlan<T>,
        _: &str,
    ) -> Result<Option<T>, JobError> {
        if !matches!(plan, ChangePlan::PartMissing { .. } | ChangePlan::ReadFirst)
            && self.suspected_absent.remove(&id)
        {
            absence::end_absence(&self.context, &absence_subject(id)).await?;
        }
        match plan {
            ChangePlan::Send(what) => return Ok(Some(what)),
            ChangePlan::Held { reason, detail } => {
                self.finish_change(id, ChangeState::Held, reason, detail).await?
            }
            ChangePlan::PartMissing { reason, detail } => self.note_absence(id, reason, detail).await?,
            ChangePlan::Rejected { reason, detail } => {
                self.finish_change(id, ChangeState::Rejected, reason, detail).await?;
            }
            ChangePlan::ReadFirst => {
                self.skipped.insert(id);
                self.summary.note_failure(format!(
                    "change {id}: its data changed while it was being planned; it is planned again"
                ));
            }
        }
        Ok(None)
    }

    /// Applies the change. Does nothing if it is no longer pending.
    async fn apply_agreed(&mut self, id: ChangeId, read: ExchangeId) -> Result<(), JobError> {
        let mut write = self.context.store.begin_write(Durability::Full).await?;
        let claims = [ClaimedChange { id, written: None }];
        if write.outbox_claim(read, &claims, self.context.now()).await? != 1 {
            return Ok(());
        }
        let detail = "the shipment had this number already";
        let moves = [ChangeOutcome::new(id, ChangeState::Applied, None, detail)];
        write.outbox_transition(ChangeState::Sending, &moves, self.context.now()).await?;
        write.commit().await?;
        log_outcomes(&self.context, &moves).await;
        self.summary.count_outcomes(&moves);
        Ok(())
    }
}

impl DeliveryRun {
    fn origin(&self) -> ReadOrigin<'_> {
        ReadOrigin { context: &self.context, run: self.run, lane: self.lane }
    }

    /// Returns the result of a read. `None` after a failure: a refusal counts as an absence, and any other
    /// failure skips the change.
    async fn preflight_result<T>(
        &mut self,
        id: ChangeId,
        read: Result<T, JobError>,
    ) -> Result<Option<T>, JobError> {
        match read {
            Ok(seen) => Ok(Some(seen)),
            Err(JobError::Rejected { what, why, .. }) => {
                let detail = format!("the platform refuses to show {what}: {why}");
                self.note_absence(id, Reason::ServiceRefused, detail).await?;
                Ok(None)
            }
            Err(error @ (JobError::GivenUp { .. } | JobError::Implausible(_))) => {
                self.skipped.insert(id);
                store_wait_reasons(&self.context, vec![(id, Reason::NotSent, error.to_string())]).await?;
                self.summary.note_failure(error.to_string());
                Ok(None)
            }
            Err(
                error @ (JobError::Stopped
                | JobError::Paused(_)
                | JobError::KeyRefused(_)
                | JobError::Store(_)),
            ) => Err(error),
        }
    }
}
