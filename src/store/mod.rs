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

mod balances;
mod cells;
mod delivery;
mod doubt;
mod error;
mod exchange;
mod lock;
mod open;
mod orders;
mod outbox;
mod product;
mod run;
mod shipment_facts;
mod status;
mod text;
mod tracked;
mod warehouses;
mod watch;
mod work_queue;

pub use balances::{BalanceFact, BalancePage, BalancesRecorded, CellBalance};
pub use cells::{CellRow, CellWrite};
pub use delivery::{Kept, NamedWish};
pub use doubt::{AdoptionRow, DoubtRow, RESOLVED};
pub use error::StoreError;
pub use exchange::UsedPlace;
pub use lock::{Lock, LockError};
pub use open::{Durability, Store, Write};
pub use orders::OrderPage;
pub use outbox::{Claim, OutboxFilter, Verdict, WishRow};
pub use product::{ProductCell, ProductCells};
pub use run::{ExchangeRow, JobPlan, RunRow, SessionStart};
pub use shipment_facts::{ShipmentFact, ShipmentItem};
pub use status::{HealthRow, StateCount, StockRow};
pub use tracked::OrderRow;
pub use warehouses::WarehouseFact;
pub use watch::Watch;
pub use work_queue::WorkQueueCounts;
