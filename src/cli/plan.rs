//! `plan`: what the next push would send, byte for byte, from the facts at hand. It makes no call and writes nothing.

use super::place::Place;
use super::print::json;
use super::{Answer, Failure, Reading};
use crate::daemon::preview;
use serde_json::{Value, json as value};

pub(super) async fn plan(place: &Place, reading: Reading) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let plan = preview(&place.config()?, &store, &place.clock())
        .await
        .map_err(|error| Failure::failed(error.to_string()))?;
    if reading.json {
        let reads =
            plan.reads.iter().map(|cell| value!({"sku": cell.sku, "warehouse_id": cell.warehouse_id}));
        let settled = plan.settled.iter().map(|(id, how)| value!({"id": id, "how": how}));
        let calls = plan.calls.iter().map(|call| serde_json::from_str(call).unwrap_or(Value::Null));
        let all = value!({
            "calls": calls.collect::<Vec<_>>(), "reads_first": reads.collect::<Vec<_>>(),
            "without_call": settled.collect::<Vec<_>>(),
        });
        return Ok(json(&all).into());
    }
    let mut text = String::new();
    for cell in &plan.reads {
        text.push_str(&format!("read first: {cell}\n"));
    }
    for (id, how) in &plan.settled {
        text.push_str(&format!("wish {id}: {how}\n"));
    }
    for call in &plan.calls {
        text.push_str(&format!("POST /api/inventory/updateQuantityOnHand\n{call}\n"));
    }
    if text.is_empty() {
        text.push_str("nothing waits to be sent\n");
    }
    Ok(text.into())
}
