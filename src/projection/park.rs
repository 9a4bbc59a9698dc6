//! Parking of unreadable records with their exchange.

use crate::client::wire::DecodedAnswer;
use crate::model::ExchangeId;
use crate::store::{StoreError, WriteTransaction};
use crate::telemetry::event;

pub(super) async fn park_records<T>(
    write: &mut WriteTransaction,
    exchange: ExchangeId,
    decoded: &DecodedAnswer<T>,
) -> Result<(), StoreError> {
    for record in &decoded.parked {
        write.exchange_park(exchange, record.index, &record.why, &record.raw).await?;
        if let Some(subject) = record.subject() {
            write.parked_name(exchange, record.index, &subject).await?;
        }
    }
    if let Some(first) = decoded.parked.first() {
        tracing::warn!(
            event = event::RECORD_PARKED,
            exchange = exchange.0,
            records = decoded.parked.len(),
            "{} record(s) of an answer could not be read and were parked; the first: {}",
            decoded.parked.len(),
            crate::model::cut_reason(first.why.as_str())
        );
    }
    Ok(())
}
