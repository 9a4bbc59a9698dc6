//! Commands on stock levels: `stock`, `quantity`, `verify` and `explain`.

pub(in crate::cli) mod explain;
pub(in crate::cli) mod levels;
pub(in crate::cli) mod quantity;
pub(in crate::cli) mod verify;
