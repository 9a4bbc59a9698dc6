//! The commands, each in its own file, in folders by subject.
//!
//! | folder | commands |
//! |---|---|
//! | `daemon/` | `init`, `run`, `check`, `status`, `web`, `pause`, `resume`, `notify`, `quota`, `schema` |
//! | `tracked/` | `sku`, `order`, `quarantine` |
//! | `stock/` | `stock`, `quantity`, `verify`, `explain` |
//! | `outbox/` | `outbox`, `plan`, `ship`, `tracking` |
//! | `journal/` | `job`, `journal`, `replay`, `backup`, `restore`, `restored`, `move` |
//! | `catalog/` | `product`, `warehouse`, `supplier`, `storefront`, `template`, `report` |
//! | `demo/` | `demo`, `sandbox` |
//! | `generate.rs` | `completions`, `man` |

pub(super) mod catalog;
pub(super) mod daemon;
pub(super) mod demo;
pub(super) mod generate;
pub(super) mod journal;
pub(super) mod outbox;
pub(super) mod stock;
pub(super) mod tracked;
