//! Reads of the components of products that may be kits.
//!
//! A kit's quantity follows from its components, so a quantity change of a kit is rejected for good. A
//! product may be a kit if an earlier answer or an allocation suggests it. Its changes wait for an answer
//! that is younger than they are. An answer with components makes the product a kit. A refusal with a working
//! key makes it none, and its changes are planned.

use super::run::PushRun;
use crate::exec::JobError;
use crate::exec::kits::read_kit;
use crate::model::{ChangeId, Lane, Operation, ProductId};
use crate::outbox::Reason;
use crate::store::Durability;
use std::collections::{BTreeMap, BTreeSet};

const KIT_ATTEMPTS: usize = 2;

#[derive(Debug, Default)]
pub(super) struct PossibleKits {
    waiting: BTreeMap<ProductId, BTreeSet<ChangeId>>,
    products_read: BTreeSet<ProductId>,
}

impl PossibleKits {
    pub(super) fn add_product(&mut self, product: ProductId, changes: &[ChangeId]) {
        self.waiting.entry(product).or_default().extend(changes);
    }
}

impl PushRun<'_> {
    /// Reads the waiting products, each once in a run. Returns true if an answer came, so that changes can be
    /// decided.
    pub(super) async fn read_possible_kits(&mut self) -> Result<bool, JobError> {
        let mut was_answered = false;
        for (product, changes) in std::mem::take(&mut self.possible_kits.waiting) {
            let why = if self.possible_kits.products_read.insert(product) {
                match self.read_possible_kit(product).await? {
                    None => {
                        was_answered = true;
                        continue;
                    }
                    Some(why) => why,
                }
            } else {
                "its answer decided nothing yet".to_owned()
            };
            let what =
                format!("product {product} may be a kit; its components were read without a result: {why}");
            self.note_waiting(&changes, Reason::AwaitsKit, what).await?;
        }
        Ok(was_answered)
    }

    /// Reads the components of a product. Returns the reason if no answer came.
    async fn read_possible_kit(&self, product: ProductId) -> Result<Option<String>, JobError> {
        let (context, operation, subject) = (self.context, Operation::KitComponents, product.to_string());
        let rows = context.store.quarantine_by_operation(operation).await?;
        let known = rows.iter().find(|row| row.subject == subject);
        if let Some(row) = known.filter(|row| !row.is_due(context.now())) {
            return Ok(Some(row.why.clone()));
        }
        let why = match read_kit(KIT_ATTEMPTS, context, self.run, Lane::Push, product).await {
            Ok(_) => None,
            Err(error) => match error.entry_failure() {
                Some(why) => Some(why),
                None => return Err(error),
            },
        };
        let mut write = context.store.begin_write(Durability::Normal).await?;
        match &why {
            Some(why) => write.quarantine_add(operation, &subject, why, context.now()).await?,
            None => drop(write.quarantine_lift(operation, &subject).await?),
        }
        write.commit().await?;
        Ok(why)
    }
}
