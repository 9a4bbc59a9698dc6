//! Products that may be kits: the service is asked for their components before a wish is refused for one.
//!
//! A kit's quantity follows from its components, so a wish for it is refused for good. That a product is a kit was said
//! once, or an allocation suggests it; neither proves that it is one now. So its wishes wait for an answer that is younger
//! than they are: components make it a kit, a refusal with a key that works makes it none, and its wishes go on.

use super::Push;
use crate::job::JobError;
use crate::job::kit_components::read_kit;
use crate::model::{Lane, Operation, ProductId, WishId};
use crate::outbox::{Reason, State};
use crate::store::{Durability, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// Attempts at one product in a run: the wishes of all others are done before.
const ATTEMPTS: usize = 2;

/// The products that wait for an answer, with their wishes, and those that were asked for in this run.
#[derive(Debug, Default)]
pub(super) struct Kits {
    waiting: BTreeMap<ProductId, BTreeSet<WishId>>,
    asked: BTreeSet<ProductId>,
}

impl Kits {
    /// Takes in wishes of a product that may be a kit.
    pub(super) fn add(&mut self, product: ProductId, wishes: &[WishId]) {
        self.waiting.entry(product).or_default().extend(wishes);
    }
}

impl Push<'_> {
    /// Asks for the products that wait, each once in a run; true if one was answered, and its wishes can be decided.
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

    /// Asks for one; why it was not answered, if it was not.
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

    /// Says of the wishes what they wait for. The run is tried again.
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
