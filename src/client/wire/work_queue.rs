//! The work queue: counts of open work at the platform.
//!
//! The call is cheap and has no parameters, so it is also the probe that proves a key (docs/rules.md 18, 34).

use super::codec::envelope::MalformedBody;
use super::codec::lenient;
use crate::client::PlatformRequest;
use crate::model::Operation;
use serde::Deserialize;

macro_rules! counts {
    ($($field:ident = $name:literal),+ $(,)?) => {
        /// Counts of *WorkQueue*; `None` if the answer lacks one.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
        pub struct WorkQueue {
            $(
                #[doc = concat!("`", $name, "`")]
                #[serde(rename = $name, default, deserialize_with = "lenient::opt")]
                pub $field: Option<i64>,
            )+
            /// `QueuedListings`
            #[serde(rename = "QueuedListings", default, deserialize_with = "lenient::opt")]
            pub queued_listings: Option<i64>,
            #[serde(rename = "queuedListings", default, deserialize_with = "lenient::opt")]
            queued_listings_as_in_the_sample: Option<i64>,
        }

        impl WorkQueue {
            /// Returns the counts that are present, by the interface's names.
            pub fn counts(&self) -> impl Iterator<Item = (&'static str, i64)> + '_ {
                let all = [$(($name, self.$field),)+ ("QueuedListings", self.queued_listings)];
                all.into_iter().filter_map(|(name, count)| Some((name, count?)))
            }
        }
    };
}

counts! {
    new_purchase_orders = "NewPurchaseOrders",
    submitted_purchase_orders = "SubmittedPurchaseOrders",
    partially_received_purchase_orders = "PartiallyReceivedPurchaseOrders",
    open_work_orders = "OpenWorkOrders",
    awaiting_payment_sales_orders = "AwaitingPaymentSalesOrders",
    paid_in_process_sales_orders = "PaidInProcessSalesOrders",
    cancelled_sales_orders = "CancelledSalesOrders",
    paid_ready_to_ship_sales_orders = "PaidReadyToShipSalesOrders",
    low_inventory_products = "LowInventoryProducts",
    unshipped_sales_orders = "UnShippedSalesOrders",
    unshipped_drop_ship_orders = "UnshippedDropShipOrders",
}

/// Requests the counts (*Work queue*).
pub fn work_queue() -> PlatformRequest {
    PlatformRequest::new(Operation::WorkQueue)
}

/// Reads the answer of *Work queue*, which has no envelope. An object without any of the counts is refused.
pub fn decode_work_queue(body: &[u8]) -> Result<WorkQueue, MalformedBody> {
    const WHAT: &str = "the work queue";
    let mut counts: WorkQueue =
        serde_json::from_slice(body).map_err(|error| MalformedBody::new(WHAT, error))?;
    counts.queued_listings = counts.queued_listings.or(counts.queued_listings_as_in_the_sample.take());
    if counts.counts().next().is_none() {
        return Err(MalformedBody::new(WHAT, "it has none of the documented counts"));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queued_listings_are_read_in_both_spellings() {
        for body in [
            r#"{"queuedListings":3}"#,
            r#"{"QueuedListings":3.0}"#,
            r#"{"QueuedListings":3,"queuedListings":9}"#,
        ] {
            let counts = decode_work_queue(body.as_bytes()).unwrap();
            assert_eq!(counts.counts().collect::<Vec<_>>(), [("QueuedListings", 3)], "{body}");
        }
    }

    #[test]
    fn an_answer_without_any_count_is_none() {
        for body in ["{}", r#"{"Message":"wait"}"#, "[]", "<html>"] {
            assert!(decode_work_queue(body.as_bytes()).is_err(), "{body}");
        }
        let counts = decode_work_queue(br#"{"OpenWorkOrders":0,"CancelledSalesOrders":null}"#).unwrap();
        assert_eq!(counts.counts().collect::<Vec<_>>(), [("OpenWorkOrders", 0)]);
    }
}
