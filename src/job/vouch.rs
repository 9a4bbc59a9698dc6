//! Reading the balances of a few SKUs so that the answer can vouch for what it lacks.
//!
//! An answer to a call for one SKU that holds nothing may come from a failing service. The same is then asked once more
//! with a few SKUs beside it that are known to be there.

use super::call::Answer;
use super::record::{self, Looked};
use super::{Context, JobError};
use crate::client::wire;
use crate::model::{Lane, RunId, Sku};

/// Reads and records the balances of a few SKUs; `what` is their name for people: "cannot read …".
///
/// # Errors
/// An answer in which nothing of what was known came is a failed read, unless no other SKU is known.
pub(super) async fn balances(
    context: &Context,
    run: RunId,
    lane: Lane,
    what: &str,
    skus: &[Sku],
) -> Result<Answer, JobError> {
    let (answer, looked) = ask(context, run, lane, what, skus).await?;
    if !looked.wants_witnesses() {
        return looked.told().map(|()| answer);
    }
    let mut all = skus.to_vec();
    all.extend(context.store.witnesses(skus).await?);
    if all.len() == skus.len() {
        return looked.told().map(|()| answer);
    }
    let (answer, looked) = ask(context, run, lane, what, &all).await?;
    looked.told().map(|()| answer)
}

async fn ask(
    context: &Context,
    run: RunId,
    lane: Lane,
    what: &str,
    skus: &[Sku],
) -> Result<(Answer, Looked), JobError> {
    let request = wire::get_product_balances(skus).map_err(|why| JobError::Implausible(why.to_string()))?;
    let answer = context.read(run, lane, what, &request).await?;
    let looked = record::balances_look(context, &answer, skus).await?;
    Ok((answer, looked))
}
