//! Facts of plans, from two sources: fresh reads for a send, stored facts for a preview.
//!
//! Each kind has one function that plans a change. It takes the facts from either source, so the preview shows
//! the plan of the send.

use crate::exec::JobError;
use crate::exec::reads::TimedRead;
use crate::model::{ChangeId, ExchangeId, OrderId, ShipmentId, Sku};
use crate::outbox::CreateBody;
use crate::reconcile::ChangePlan;
use crate::reconcile::creates::FoundRecord;
use crate::reconcile::product_update::ShownFields;
use crate::reconcile::shipments::OrderSnapshot;
use crate::reconcile::tracking::ItemFact;
use crate::store::{ProductStock, Store};

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
    async fn namesakes(&mut self, id: ChangeId, create: &CreateBody) -> PlanRead<Vec<FoundRecord>>;

    async fn product(&mut self, id: ChangeId, sku: &Sku) -> PlanRead<ProductFacts>;

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
