//! `ship`: queues a shipment of an order, or of named lines of it.

use crate::cli::CommandResult;
use crate::cli::change::{ChangeKeyArgs, queue_change, without_nulls};
use crate::cli::context::CliContext;
use clap::Args;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(in crate::cli) struct ShipArgs {
    /// Order id at the platform
    order: i64,
    /// Ship only this line (may be repeated), with this quantity or all units left [default: all units left of all
    /// lines]
    #[arg(long, value_name = "ID[=QTY]", value_parser = parse_ship_line)]
    line: Vec<ShipLineArg>,
    #[command(flatten)]
    key: ChangeKeyArgs,
}

#[derive(Clone, Debug)]
struct ShipLineArg {
    id: i64,
    quantity: Option<i64>,
}

fn parse_ship_line(text: &str) -> Result<ShipLineArg, String> {
    let (id, quantity) = text.split_once('=').map_or((text, None), |(id, quantity)| (id, Some(quantity)));
    let whole = |text: &str| text.trim().parse().map_err(|_| format!("`{text}` is not a whole number"));
    Ok(ShipLineArg { id: whole(id)?, quantity: quantity.map(whole).transpose()? })
}

pub(in crate::cli) async fn ship_command(context: &CliContext, args: ShipArgs) -> CommandResult {
    let line =
        |line: &ShipLineArg| without_nulls(json!({"line_item_id": line.id, "quantity": line.quantity}));
    let lines: Option<Vec<Value>> = (!args.line.is_empty()).then(|| args.line.iter().map(line).collect());
    let body = without_nulls(json!({"order_id": args.order, "lines": lines}));
    queue_change(context, "shipment.create", body, args.key).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_id_with_or_without_a_quantity() {
        let cases = [("7=2", Some((7, Some(2)))), ("7", Some((7, None))), ("7=", None), ("x=1", None)];
        for (text, expected) in cases {
            assert_eq!(parse_ship_line(text).ok().map(|line| (line.id, line.quantity)), expected, "{text}");
        }
    }
}
