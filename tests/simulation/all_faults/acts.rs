//! The effect of each act: on the goods, at the platform, on the host. `shipping` has the acts on shipments.

use super::super::auditor::Effect;
use super::super::books::Level;
use super::super::outsider::quoted;
use super::agenda::Act;
use super::trial::{Settings, Trial};
use serde_json::{Value, json};

impl Trial {
    pub async fn happen(&mut self, act: Act) {
        let is_host_asleep = self.world.is_down();
        match act {
            Act::Sale => {
                let level = self.any_level();
                self.sale(level).await;
            }
            Act::SaleBefore => {
                let level = self.any_level();
                self.before = Some(level.clone());
                self.sale(level).await;
            }
            Act::SaleAmid => {
                if let Some(level) = self.amid.take().filter(|level| self.truth.contains_key(level)) {
                    self.sale(level).await;
                }
            }
            Act::Colleague => self.colleague().await,
            Act::Rename => self.rename().await,
            Act::Discontinue => self.discontinue().await,
            Act::Reactivate => self.reactivate().await,
            Act::ShipByHand => self.ship_by_hand().await,
            Act::TrackByHand => self.track_by_hand().await,
            Act::Burst(calls) => self.burst(calls).await,
            Act::WrongKey(is_wrong) => self.key(is_wrong),
            Act::Lag(lag_ms) => self.lag(lag_ms),
            Act::Weather(writes, reads) => self.weather(|weather| weather.storm = Act::storm(writes, reads)),
            Act::Suspend if !is_host_asleep => self.world.suspend(),
            Act::Resume => self.world.resume(),
            Act::Strike(step, ending) => self.world.strike(step, ending).await,
            Act::Join => self.world.join().await,
            Act::Leave => self.world.leave().await,
            Act::Apart(one, other) => {
                self.world.set_calendar_of(0, one);
                self.world.set_calendar_of(1, other);
            }
            Act::Calm => {
                self.calm();
                // Its end may have come while the host slept.
                self.refuse(false).await;
            }
            Act::Odd(..)
            | Act::Poison
            | Act::Cure
            | Act::Sick(_)
            | Act::Lapse(_)
            | Act::CloseOrder
            | Act::ReopenOrder
            | Act::CancelOrder
            | Act::Gone
            | Act::Kit
            | Act::KitTurns => self.happen_strangely(act).await,
            // All other acts happen on the host, or beside it. A server takes changes without a leader.
            _ if is_host_asleep && (self.world.hosts() == 1 || act.needs_leader()) => {}
            Act::Order => self.order().await,
            Act::Parcel => self.later_parcel().await,
            Act::Moved => self.moved().await,
            Act::Count => self.count_level().await,
            Act::CountLater => self.count_later().await,
            Act::CountTold => self.count_told().await,
            Act::Product => self.product().await,
            Act::Update => self.update().await,
            Act::Warehouse => self.warehouse().await,
            Act::Template => self.template().await,
            Act::Kill => self.restart(self.settings).await,
            Act::Reconfigure => self.reconfigure().await,
            Act::Calendar(ahead_ms) => self.world.set_calendar(ahead_ms),
            Act::Judge => self.judge().await,
            Act::Suspend => {}
            Act::Pair
            | Act::Word
            | Act::Lock(_)
            | Act::Form(_)
            | Act::FormAgain
            | Act::FormOpened
            | Act::FormLate
            | Act::Office(_)
            | Act::File(_)
            | Act::FileAgain
            | Act::Copied(_)
            | Act::Restored(_)
            | Act::Released
            | Act::Refusal(_) => self.happen_beside(act).await,
        }
    }

    pub fn any_level(&mut self) -> Level {
        let levels: Vec<Level> = self.truth.keys().cloned().collect();
        self.random.pick(&levels).clone()
    }

    /// Records goods that came or left. A SKU that was turned into a kit meanwhile has none of its own.
    pub fn goods_moved(&mut self, level: &Level, units: i64) {
        if let Some(there) = self.truth.get_mut(level) {
            *there += units;
        }
    }

    /// Removes units from a stock level, at the platform and on the shelf, for others.
    pub fn taken(&mut self, level: &Level, units: i64) {
        self.goods_moved(level, -units);
        let now = self.world.clock.now_ms();
        self.auditor(|auditor| auditor.levels.moved(level, -units, now));
    }

    pub async fn sale(&mut self, level: Level) {
        let units = self.random.between(1, 2);
        let shows = self.auditor(|auditor| auditor.levels.listed(&level));
        let sold = self.world.core.sell_units(&level.0, level.1, units).await.is_ok();
        if sold != (shows >= units) {
            self.broken(format!(
                "a sale of {units} of {level:?}: sold {sold}, the auditor thinks it shows {shows}"
            ));
        }
        if sold {
            self.taken(&level, units);
        }
    }

    async fn moved(&mut self) {
        let (any, comes) = (self.any_level(), self.random.percent(60));
        let level = self.before.take().filter(|level| self.truth.contains_key(level)).unwrap_or(any);
        let there = self.truth[&level].max(0);
        let units = if comes { self.random.between(1, 12) } else { -self.random.between(1, 3).min(there) };
        if units == 0 {
            return;
        }
        self.goods_moved(&level, units);
        let body = json!({"sku": level.0, "warehouse_id": level.1, "delta": units});
        let key = self.change_level("quantity.adjust", &level, body, Effect::Add(units)).await;
        self.second_thoughts(&key);
    }

    /// Moves goods; a colleague enters the new quantity at the platform.
    async fn colleague(&mut self) {
        let level = self.any_level();
        let listed = self.auditor(|auditor| auditor.levels.listed(&level));
        let by = self.random.between(-3, 9).max(-listed).max(-self.truth[&level].max(0));
        if self.discontinued.contains(&level.0) || by == 0 {
            return;
        }
        let body = json!([{"Sku": level.0, "WarehouseId": level.1, "Quantity": listed + by}]);
        if self.by_hand("POST", "/api/inventory/updateQuantityOnHand", &body).await.is_some() {
            self.taken(&level, -by);
        }
    }

    /// Returns the SKUs of the generated account that are in the assortment.
    pub fn old_skus(&self) -> Vec<String> {
        let skus: std::collections::BTreeSet<&String> = self.truth.keys().map(|(sku, _)| sku).collect();
        let old = |sku: &&&String| {
            !["NEW-", "SET-"].iter().any(|of| sku.starts_with(of)) && !self.discontinued.contains(sku)
        };
        skus.iter().filter(old).map(|sku| (*sku).clone()).collect()
    }

    /// Sends a colleague's PUT: fields that it omits fall back to their defaults, links and quantities stay.
    pub async fn put(&mut self, sku: &str, to: Value) -> bool {
        let asked = json!({"idType": "sku", "idList": [sku]});
        let Some(found) = self.by_hand("POST", "/api/inventory/getProducts", &asked).await else {
            return false;
        };
        let mut body = json!({"Id": found["data"][0]["Id"], "Sku": sku, "Name": format!("By hand {sku}")});
        for (field, value) in to.as_object().into_iter().flatten() {
            body[field] = value.clone();
        }
        let said = self.by_hand("PUT", "/api/Inventory", &body).await;
        said.is_some_and(|said| said["data"]["WasSuccessful"] == true)
    }

    async fn rename(&mut self) {
        let skus = self.old_skus();
        if skus.is_empty() {
            return;
        }
        let (old, new) = (self.random.pick(&skus).clone(), format!("REN-{}", self.names));
        self.names += 1;
        self.renamed(&old, &new).await;
    }

    pub async fn track_sku(&mut self, sku: &str) {
        let insert = format!("INSERT INTO tracked_sku (sku) VALUES ({}) ON CONFLICT DO NOTHING", quoted(sku));
        self.world.outsider.run(&insert).await.unwrap();
    }

    async fn discontinue(&mut self) {
        let skus = self.old_skus();
        let sku = self.random.pick(&skus).clone();
        if skus.len() > 5 && self.put(&sku, json!({"IsDiscontinued": true, "IsActive": false})).await {
            self.claims.discontinued(&sku);
            self.discontinued.push(sku);
        }
    }

    async fn reactivate(&mut self) {
        let Some(sku) = self.discontinued.pop() else { return };
        if !self.put(&sku, json!({"IsDiscontinued": false, "IsActive": true})).await {
            self.discontinued.push(sku);
        }
    }

    async fn product(&mut self) {
        let sku = format!("NEW-{}", self.names);
        self.names += 1;
        let warehouse = self.any_level().1;
        let links = json!([{"WarehouseId": warehouse, "QuantityOnHand": self.random.between(0, 9)}]);
        let body = json!({"Sku": sku, "Name": format!("New {sku}"), "Warehouses": links});
        self.change("product.create", &body).await;
    }

    /// Inserts a full update of a created product, as the platform described the product last.
    async fn update(&mut self) {
        let known: Vec<Value> = self.auditor(|auditor| auditor.products.values().cloned().collect());
        if known.is_empty() {
            return;
        }
        let mut body = self.random.pick(&known).clone();
        body["Name"] = format!("Updated {}", self.names).into();
        self.names += 1;
        let fields = body.as_object_mut().unwrap();
        fields.remove("QuantityOnHand");
        fields.retain(|_, value| !value.is_null());
        let mut levels = Vec::new();
        for link in body["Warehouses"].as_array_mut().unwrap() {
            link.as_object_mut().unwrap().remove("QuantityOnHand");
            levels.push(super::super::audit::whole(&link["WarehouseId"]));
        }
        let sku = super::super::audit::text(&body["Sku"]);
        let key = self.change("product.update", &body).await;
        self.auditor(|auditor| {
            for warehouse in levels {
                auditor.levels.queued(
                    &format!("{key}\n{warehouse}"),
                    &(sku.clone(), warehouse),
                    Effect::Add(0),
                );
            }
        });
    }

    async fn warehouse(&mut self) {
        let name = format!("Dock {}", self.names);
        self.names += 1;
        self.change("warehouse.create", &json!({"Name": name})).await;
    }

    async fn template(&mut self) {
        let Some(said) = self.by_hand("GET", "/api/storefronts", &Value::Null).await else { return };
        let body = json!({"StorefrontId": said["data"][0]["Id"], "Name": format!("Template {}", self.names), "Body": "<b>x</b>"});
        self.names += 1;
        self.change("listing_template.create", &body).await;
    }

    /// Sends calls of another program on the same account.
    async fn burst(&mut self, calls: i64) {
        for _ in 0..calls {
            self.by_hand("GET", "/api/Company/WorkQueue", &Value::Null).await;
        }
    }

    fn key(&mut self, is_wrong: bool) {
        self.auditor(|auditor| auditor.is_wrong_key = is_wrong);
        self.weather(|weather| weather.is_wrong_key = is_wrong);
    }

    /// Kills the daemon and starts it with these settings.
    async fn restart(&mut self, settings: Settings) {
        match (self.settings.policy, settings.policy) {
            (_, "remote") => self.claims.remote_wins(i64::MAX),
            ("remote", _) => self.claims.remote_wins(self.world.clock.now_ms()),
            _ => {}
        }
        self.put_in_force(settings);
        self.world.plan.config = settings.toml();
        self.auditor(super::super::auditor::Auditor::daemon_died);
        self.world.kill().await;
        self.judge_replay().await;
        self.judge_lost().await;
    }

    async fn reconfigure(&mut self) {
        let policy = *self.random.pick(&["merge", "merge", "local", "remote", "ask"]);
        let settings = Settings {
            policy,
            calls_per_minute: *self.random.pick(&[120, 60, 30]),
            max_fact_age_ms: *self.random.pick(&[10_000, 5_000, 60_000]),
            skus_per_call: *self.random.pick(&[200, 25, 40]),
        };
        self.restart(settings).await;
    }

    /// Sends a call of another program; returns `None` if the account's minute is used up.
    pub async fn by_hand(&self, method: &str, path: &str, body: &Value) -> Option<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.world.call(method, path, body).await
    }
}
