//! Projection of pages of lists: warehouses, suppliers, storefronts, listing templates.

use super::park_records;
use crate::client::wire::DecodedAnswer;
use crate::model::ExchangeId;
use crate::store::{PlatformList, StoreError, WriteTransaction};
use serde::Serialize;

/// Projects a page of a list whose records are stored as they are. Returns the number of new or changed records. The
/// pager of `exec` decides which records a whole list no longer has.
pub(crate) async fn project_list<T: Serialize>(
    write: &mut WriteTransaction,
    exchange: ExchangeId,
    list: PlatformList,
    page: &DecodedAnswer<T>,
) -> Result<u64, StoreError> {
    park_records(write, exchange, page).await?;
    write.mirror_list(list, exchange, &page.records).await
}
