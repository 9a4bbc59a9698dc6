//! Reads of the components of products that may be kits.
//!
//! A kit's quantity follows from its components, so a quantity change of a kit is rejected for good. A
//! product may be a kit if an earlier answer or an allocation suggests it. Its changes wait for an answer
//! that is younger than they are. An answer with components makes the product a kit. A refusal with a working
//! key makes it none, and its changes are planned.

use super::Push;
use crate::exec::JobError;
use crate::exec::kits::read_kit;
use crate::model::{Lane, Operation, ProductId, WishId};
use crate::outbox::{Reason, State};
use crate::store::{Durability, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// Attempts at a product in a run.
const ATTEMPTS: usize = 2;

/// Products that wait for an answer, and those asked for in this run.
#[derive(Debug, Default)]
pub(super) struct Kits {
    waiting: BTreeMap<ProductId, BTreeSet<WishId>>,
    asked: BTreeSet<ProductId>,
}

impl Kits {
    /// Adds changes of a product that may be a kit.
    pub(super) fn add(&mut self, product: ProductId, wishes: &[WishId]) {
        self.waiting.entry(product).or_default().extend(wishes);
    }
}

impl Push<'_> {
    /// Reads the waiting products, each once in a run. Returns true if an answer came, so that changes can be
    /// decided.
    pub(super) async fn ask_for_kits(&mut self) -> Result<bool, JobError> {
        let mut was_answered = false;
        for (product, wishes) in std::mem::take(&mut self.kits.waiting) {
            let why = if self.kits.asked.insert(product) {
                match self.ask_for_kit(product).await? {
                    None => {
                        was_answered = true;
                        continue;
                    }
                    Some(why) => why,
                }
            } else {
                "its answer does not tell yet".to_owned()
            };
            self.await_kit(product, &wishes, &why).await?;
        }
        Ok(was_answered)
    }

    /// Reads the components of a product. Returns the reason if no answer came.
    async fn ask_for_kit(&self, product: ProductId) -> Result<Option<String>, JobError> {
        let (context, operation, subject) = (self.context, Operation::KitComponents, product.to_string());
        let rows = context.store.quarantine_of(operation).await?;
        let known = rows.iter().find(|row| row.subject == subject);
        if let Some(row) = known.filter(|row| !row.is_due(context.now())) {
            return Ok(Some(row.why.clone()));
        }
        let why = match read_kit(ATTEMPTS, context, self.run, Lane::Push, product).await {
            Ok(_) => None,
            Err(
                JobError::Rejected { why, .. } | JobError::GivenUp { why, .. } | JobError::Implausible(why),
            ) => Some(why),
            Err(error @ (JobError::Stopped | JobError::Refused(_) | JobError::Store(_))) => {
                return Err(error);
            }
        };
        let mut write = context.store.begin(Durability::Normal).await?;
        match &why {
            Some(why) => write.quarantine_add(operation, &subject, why, context.now()).await?,
            None => drop(write.quarantine_lift(operation, &subject).await?),
        }
        write.commit().await?;
        Ok(why)
    }

    /// Notes at the changes what they wait for. The run is tried again.
    async fn await_kit(
        &mut self,
        product: ProductId,
        wishes: &BTreeSet<WishId>,
        why: &str,
    ) -> Result<(), JobError> {
        let what =
            format!("product {product} may be a kit, and the service was asked for its components: {why}");
        let note = |id: &WishId| Verdict::new(*id, State::Pending, Some(Reason::AwaitsKit.as_str()), &what);
        let notes: Vec<Verdict> = wishes.iter().map(note).collect();
        let mut write = self.context.store.begin(Durability::Normal).await?;
        write.outbox_note(State::Pending, &notes, self.context.now()).await?;
        write.commit().await?;
        self.waits.get_or_insert(what);
        Ok(())
    }
}
