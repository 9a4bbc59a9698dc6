//! The only room that knows SQLite. One file per concept; noun first in the names, so that typing `outbox_` lists
//! all that can be done to the outbox.
//!
//! One process holds the lock beside the database ([`Lock`]) and migrates, writes facts and checkpoints; others read
//! and insert wishes. Inside the process one writer works at a time: [`Store::begin`] waits its turn, then takes
//! `BEGIN IMMEDIATE`. A deferred transaction that reads first would fail at once when a program beside us wrote
//! meanwhile, and no busy timeout helps against that.
//!
//! Two durabilities. [`Durability::Full`] syncs the WAL at commit: claims and conclusions of writes, which must
//! outlive a power cut. [`Durability::Normal`] does not: pages of facts can be read again; a killed process loses
//! nothing either way.
//!
//! No transaction may be held over a call to the service: `Write` is not handed to anything that awaits the network.

mod allocations;
mod attention;
mod balances;
mod brake;
mod cells;
mod delivery;
mod doubt;
mod error;
mod exchange;
mod kits;
mod list;
mod lock;
mod open;
mod orders;
mod outbox;
mod product;
mod products;
mod reports;
mod request;
mod run;
mod shipment_facts;
mod shipments;
mod spent;
mod status;
mod storefronts;
mod suppliers;
mod text;
mod tracked;
mod warehouses;
mod watch;
mod work_queue;

pub use allocations::{AllocationFact, AllocationPage, AllocationRow};
pub use attention::MoverRow;
pub use balances::{BalanceFact, BalancePage, BalancesRecorded, CellBalance};
pub use brake::TripRow;
pub use cells::{CellRow, CellWrite};
pub use delivery::{Kept, NamedWish};
pub use doubt::{AdoptionRow, DoubtRow, RESOLVED};
pub use error::StoreError;
pub use exchange::UsedPlace;
pub use kits::{ComponentFact, ComponentRow, KIT, KitPage, ProductFact};
pub use list::ListOf;
pub use lock::{Lock, LockError};
pub use open::{Durability, Store, Write};
pub use orders::OrderPage;
pub use outbox::{Claim, OutboxFilter, Verdict, WishRow};
pub use product::{ProductCell as ProductCellRow, ProductCells};
pub use products::{ProductCell, ProductRow};
pub use reports::{HealthFigures, HealthMonthRow, Report, TopSellerFact, TopSellerRow};
pub use request::RequestRow;
pub use run::{ExchangeRow, JobPlan, RunRow, SessionStart};
pub use shipment_facts::{ShipmentFact, ShipmentItem};
pub use shipments::{ShipmentItemFact, ShipmentItemRow, ShipmentPage};
pub use spent::SpentRow;
pub use status::{HealthRow, StateCount, StockRow};
pub use storefronts::{StorefrontFact, StorefrontRow, TemplateFact, TemplateRow};
pub use suppliers::{SupplierFact, SupplierRow};
pub use tracked::{OrderRow, QUIET_AFTER, QUIET_LOOK};
pub use warehouses::{WarehouseFact, WarehouseRow};
pub use watch::Watch;
pub use work_queue::{WorkQueueCounts, WorkQueueMoved, WorkQueueRow};
