//! `ship`: queues a shipment of an order, or of named lines of it.

use crate::cli::CommandResult;
use crate::cli::change::{ChangeArgs, UnknownArgs, queue_change, without_nulls};
use crate::cli::context::CliContext;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use std::str::FromStr;

#[derive(Debug, Args)]
pub(in crate::cli) struct ShipArgs {
    /// Order id at the platform
    order: i64,
    /// Ship only this line (may be repeated), with this quantity or all units left [default: all units left of all
    /// lines]
    #[arg(long, value_name = "ID[=QTY]", value_parser = parse_line::<i64>)]
    line: Vec<(i64, Option<i64>)>,
    #[command(flatten)]
    unknown: UnknownArgs,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Parses the id of a line, and its value if there is one.
pub(super) fn parse_line<T: FromStr>(text: &str) -> Result<(i64, Option<T>), String> {
    let (id, value) = text.split_once('=').map_or((text, None), |(id, value)| (id, Some(value)));
    let wrong = |text: &str| format!("`{text}` is not a whole number");
    let id = id.trim().parse().map_err(|_| wrong(id))?;
    let value = value.map(|value| value.trim().parse().map_err(|_| wrong(value)));
    Ok((id, value.transpose()?))
}

pub(in crate::cli) async fn ship_command(context: &CliContext, args: ShipArgs) -> CommandResult {
    let lines = lines_json(&args.line, "quantity");
    let body = without_nulls(json!({"order_id": args.order, "lines": lines}));
    queue_change(context, "shipment.create", body, args.change, args.unknown).await
}

/// Returns the named lines of a body, each with its value called `name`; null if no line is named.
pub(super) fn lines_json<T: Serialize>(lines: &[(i64, Option<T>)], name: &str) -> Value {
    let line = |(id, value): &(i64, Option<T>)| without_nulls(json!({"line_item_id": id, name: value}));
    if lines.is_empty() { Value::Null } else { lines.iter().map(line).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_id_with_or_without_a_value() {
        let cases = [("7=2", Some((7, Some(2)))), ("7", Some((7, None))), ("7=", None), ("x=1", None)];
        for (text, expected) in cases {
            assert_eq!(parse_line::<i64>(text).ok(), expected, "{text}");
        }
        let cases = [("7=A=1", Some((7, Some("A=1".to_owned())))), ("7", Some((7, None))), ("x=1", None)];
        for (text, expected) in cases {
            assert_eq!(parse_line::<String>(text).ok(), expected, "{text}");
        }
    }
}
