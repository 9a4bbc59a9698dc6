//! No order is shipped twice, no tracking number is overwritten, and none is submitted for more than was
//! named.

use super::super::audit::whole;
use super::list;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Lines of an order with their units, in order; they identify a shipment of the order.
pub type Content = Vec<(i64, i64)>;

/// Shipments and their tracking numbers.
#[derive(Debug, Default)]
pub struct SentShipments {
    /// By order and content: the number of changes, and the shipments that the platform made for the daemon.
    parcels: BTreeMap<(i64, Content), (u32, Vec<i64>)>,
    /// Tracking number of each shipment item.
    numbers: BTreeMap<i64, String>,
    /// Time at which a colleague submitted a shipment's number, and time of the daemon's last read of the
    /// shipment.
    ///
    /// The platform has no compare-and-set, so a number submitted after the read is overwritten.
    by_hand: BTreeMap<i64, i64>,
    looks: BTreeMap<i64, i64>,
    items: BTreeMap<i64, Vec<i64>>,
    /// Shipments that a person named.
    named: BTreeSet<i64>,
    /// Time at which the last shipment of each order was made, or an answer last showed nothing of the order.
    news: BTreeMap<i64, i64>,
}

impl SentShipments {
    /// Records a change that ships this content.
    pub fn queued(&mut self, order: i64, content: Content) {
        self.parcels.entry((order, content)).or_default().0 += 1;
    }

    /// Records a shipment made for the daemon; returns a violation if it is one too many.
    pub fn made(&mut self, entry: &Value, at_ms: i64) -> Option<String> {
        let (order, shipment) = (whole(&entry["Request"]["OrderId"]), whole(&entry["Shipment"]["Id"]));
        self.listed(&entry["Shipment"]);
        self.has_news(order, at_ms);
        let asked = list(&entry["Request"]["LineItems"]);
        let mut content: Content = asked
            .map(|line| {
                (
                    whole(&line["LineItemId"]),
                    line["Quantity"].as_f64().map_or(-1, |_| whole(&line["Quantity"])),
                )
            })
            .collect();
        content.sort_unstable();
        let (wished, made) = self.parcels.entry((order, content.clone())).or_default();
        made.push(shipment);
        (made.len() > *wished as usize).then(|| {
            format!("order {order}: {wished} parcel(s) of {content:?} were wished for, made: {made:?}")
        })
    }

    /// Records a shipment of an order, or an answer that showed nothing of the order.
    pub fn has_news(&mut self, order: i64, at_ms: i64) {
        self.news.insert(order, at_ms);
    }

    /// Returns the time of the last such event of an order.
    pub fn last_news(&self, order: i64) -> Option<i64> {
        self.news.get(&order).copied()
    }

    /// Records the items of a shipment, made by anyone.
    pub fn listed(&mut self, shipment: &Value) {
        let items = list(&shipment["Items"]).map(|item| whole(&item["Id"])).collect();
        self.items.insert(whole(&shipment["Id"]), items);
    }

    /// Returns the shipment that the platform made for the only change of that content.
    pub fn shipment(&self, order: i64, content: &Content) -> Option<i64> {
        self.parcels.get(&(order, content.clone())).and_then(|(_, made)| made.last().copied())
    }

    /// Returns the number of shipments made for a content.
    pub fn count(&self, order: i64, content: &Content) -> usize {
        self.parcels.get(&(order, content.clone())).map_or(0, |(_, made)| made.len())
    }

    /// Returns the number of shipments made in all.
    pub fn len(&self) -> usize {
        self.parcels.values().map(|(_, made)| made.len()).sum()
    }

    /// Records a tracking of the daemon that the platform accepted; returns violations.
    pub fn tracked(&mut self, request: &Value) -> Vec<String> {
        let shipment = whole(&request["ShipmentId"]);
        let base = request["TrackingNumber"].as_str();
        let mut wrong = Vec::new();
        if list(&request["LineItems"]).next().is_none() {
            wrong.push(format!("the tracking of shipment {shipment} names no lines"));
        }
        let by_hand = self.by_hand.get(&shipment);
        let was_unseen =
            by_hand.is_some_and(|answer| self.looks.get(&shipment).is_none_or(|look| look <= answer));
        for line in list(&request["LineItems"]) {
            let (item, number) = (whole(&line["LineItemId"]), line["TrackingNumber"].as_str().or(base));
            let over = self.numbered(item, number.unwrap_or_default());
            wrong.extend(over.filter(|_| !was_unseen));
        }
        wrong
    }

    /// Records that the platform showed the daemon the items of a shipment.
    pub fn looked(&mut self, shipment: i64, at_ms: i64) {
        self.looks.insert(shipment, at_ms);
    }

    /// Records a tracking that a colleague submitted.
    pub fn tracked_by_hand(&mut self, shipment: i64, number: &str, at_ms: i64) {
        self.by_hand.insert(shipment, at_ms);
        for item in self.items.get(&shipment).cloned().unwrap_or_default() {
            self.numbers.entry(item).or_insert_with(|| number.to_owned());
        }
    }

    fn numbered(&mut self, item: i64, number: &str) -> Option<String> {
        let case_key = |number: &str| number.trim().to_lowercase();
        let before = self.numbers.insert(item, number.to_owned());
        let before = before.filter(|before| case_key(before) != case_key(number))?;
        Some(format!("item {item} carried {before}, and {number} was written over it"))
    }

    /// Returns a shipment of that content that no person named yet, for a change in doubt.
    ///
    /// A shipment that belongs to another change of equal content is refused, and the next one is named.
    /// Returns `None` if all were named and fewer were made than there are changes.
    pub fn named_by_hand(&mut self, order: i64, content: &Content) -> Option<i64> {
        let (wished, made) = self.parcels.get(&(order, content.clone()))?;
        let shipment = made.iter().copied().find(|shipment| !self.named.contains(shipment));
        if shipment.is_none() {
            self.named.retain(|shipment| !made.contains(shipment));
            if made.len() < *wished as usize {
                return None;
            }
        }
        self.named.extend(shipment);
        shipment.or(made.first().copied())
    }

    /// Returns true if all items of a shipment of that content carry the number.
    pub fn any_carries(&self, order: i64, content: &Content, number: &str) -> bool {
        let Some((_, made)) = self.parcels.get(&(order, content.clone())) else { return false };
        let carries = |shipment: &i64| {
            let items = self.items.get(shipment).map(Vec::as_slice).unwrap_or_default();
            !items.is_empty() && items.iter().all(|item| self.numbers.get(item).is_some_and(|n| n == number))
        };
        made.iter().any(carries)
    }
}

#[test]
fn a_second_parcel_and_a_second_number_are_seen() {
    let mut parcels = SentShipments::default();
    parcels.queued(7, vec![(1, 2)]);
    let entry = serde_json::json!({
        "Request": {"OrderId": 7, "LineItems": [{"LineItemId": 1, "Quantity": 2}]},
        "Shipment": {"Id": 70, "Items": [{"Id": 700}]}
    });
    assert_eq!(parcels.made(&entry, 0), None);
    assert!(parcels.made(&entry, 0).is_some_and(|why| why.contains("1 parcel(s)")));
    let tracking = |number: &str| serde_json::json!({"ShipmentId": 70, "LineItems": [{"LineItemId": 700, "TrackingNumber": number}]});
    assert!(parcels.tracked(&tracking("A1")).is_empty());
    assert!(parcels.tracked(&tracking(" a1")).is_empty(), "the same number again");
    assert_eq!(parcels.tracked(&tracking("B")).len(), 1);
    // A colleague's number may be overwritten before the daemon has read it, and not afterwards.
    parcels.looked(70, 10);
    parcels.tracked_by_hand(70, "HAND", 20);
    assert!(parcels.tracked(&tracking("C")).is_empty());
    parcels.looked(70, 30);
    assert_eq!(parcels.tracked(&tracking("D")).len(), 1);
}
