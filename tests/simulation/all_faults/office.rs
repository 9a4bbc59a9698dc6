//! The office: forms of the page that ship orders, submit tracking numbers, decide about changes, and pause a job.
//! Each of them may be sent again, which does nothing.

use super::super::auditor::Content;
use super::agenda::{Office, Sends};
use super::browser::{form_of, only_form, set};
use super::shipping::Parcel;
use super::trial::Trial;
use serde_json::json;

/// The job that is paused: no change waits for it.
const PAUSED: &str = "suppliers";

impl Trial {
    pub async fn office(&mut self, act: Office) {
        match act {
            Office::Ship(sends) => {
                self.ship_by_form().await;
                if sends == Sends::Twice {
                    self.send_twice().await;
                }
            }
            Office::Tracking => self.tracking_by_form().await,
            Office::Decide => self.decide_by_form().await,
            Office::Pause => self.pause_by_form().await,
        }
    }

    /// Ships a part of an order. Its tracking number comes by another form, when the page shows the shipment.
    async fn ship_by_form(&mut self) {
        let open = |order: &super::shipping::Order| order.left.iter().any(|(_, units)| *units > 0);
        let open: Vec<usize> = (0..self.orders.len()).filter(|at| open(&self.orders[*at])).collect();
        if open.is_empty() {
            return;
        }
        let at = *self.hands.pick(&open);
        let id = self.orders[at].id;
        let page = self.open_page(format!("/orders/{id}")).await;
        let Some(mut fields) = only_form(&page.html, "ship") else { return };
        let mut content: Content = Vec::new();
        for (line, left) in self.orders[at].left.clone() {
            let name = format!("line-{line}");
            if left > 0 && fields.iter().any(|(of, _)| *of == name) {
                let units = self.hands.between(1, left);
                set(&mut fields, &name, &units.to_string());
                content.push((line, units));
            }
        }
        content.sort_unstable();
        if content.is_empty() {
            return;
        }
        let Some(shipment_key) = self.send_change(page.form(fields, "")).await else { return };
        for (line, units) in &content {
            let left = self.orders[at].left.iter_mut().find(|(of, _)| of == line).expect("the line is open");
            left.1 -= units;
        }
        self.auditor(|auditor| auditor.parcels.queued(id, content.clone()));
        self.inserted(&shipment_key, "shipment.create", &json!({"order_id": id}));
        let number = format!("1Z{}", self.world.changes());
        let parcel = Parcel { shipment_key, tracking_key: None, content, number, is_told_by_hand: false };
        self.orders[at].parcels.push(parcel);
        self.count("shipments by forms");
    }

    /// Submits the number of a shipment that was made for a form, if the page shows it.
    async fn tracking_by_form(&mut self) {
        let mut open = Vec::new();
        for (at, order) in self.orders.iter().enumerate() {
            for (number, parcel) in order.parcels.iter().enumerate() {
                let of_content = order.parcels.iter().filter(|of| of.content == parcel.content).count();
                let made = self.auditor(|auditor| auditor.parcels.shipment(order.id, &parcel.content));
                let is_open = parcel.tracking_key.is_none() && of_content == 1;
                open.extend(made.filter(|_| is_open).map(|shipment| (at, number, shipment.to_string())));
            }
        }
        if open.is_empty() {
            return;
        }
        let (at, number, shipment) = self.hands.pick(&open).clone();
        let (id, tracking) = (self.orders[at].id, self.orders[at].parcels[number].number.clone());
        let page = self.open_page(format!("/orders/{id}")).await;
        let is_shown = page.html.contains(&format!("<option value=\"{shipment}\">"));
        let Some(mut fields) = only_form(&page.html, "tracking").filter(|_| is_shown) else { return };
        set(&mut fields, "shipment", &shipment);
        set(&mut fields, "tracking", &tracking);
        let Some(key) = self.send_change(page.form(fields, "")).await else { return };
        self.inserted(&key, "tracking.submit", &json!({"order_id": id}));
        self.orders[at].parcels[number].tracking_key = Some(key);
        self.count("trackings by forms");
    }

    /// Decides about any change that is open.
    async fn decide_by_form(&mut self) {
        let sql = "SELECT key FROM outbox WHERE state IN ('pending', 'held') \
                   AND coalesce(reason, '') <> 'restored' ORDER BY id";
        let keys: Vec<(String,)> = self.world.outsider.rows(sql).await;
        let action = *self.hands.pick(&["cancel", "retry", "release"]);
        if keys.is_empty() {
            return;
        }
        let (key,) = self.hands.pick(&keys).clone();
        let page = self.open_page("/outbox".to_owned()).await;
        let Some(mut fields) = only_form(&page.html, action) else { return };
        set(&mut fields, "key", &key);
        if self.send_decision(page.form(fields, "")).await {
            self.claims.said(&key);
            self.world.person_said();
        }
    }

    /// Pauses a job and ends the pause. The first form, sent again, pauses nothing.
    async fn pause_by_form(&mut self) {
        let page = self.open_page("/jobs".to_owned()).await;
        let Some(mut fields) = only_form(&page.html, "pause") else { return };
        set(&mut fields, "job", PAUSED);
        set(&mut fields, "why", "stock-taking");
        let pause = page.form(fields, "");
        if !self.send_decision(pause.clone()).await {
            return;
        }
        let page = self.open_page("/jobs".to_owned()).await;
        let Some(fields) = form_of(&page.html, "resume", ("job", PAUSED)) else {
            return self.broken(format!("{PAUSED} was paused, and the page shows no pause of it"));
        };
        self.send_decision(page.form(fields, "")).await;
        self.browser.is_last(pause);
    }
}
