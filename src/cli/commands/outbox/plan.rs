//! `plan`: the requests of the next push, byte for byte, from the current mirror. Makes no call and writes
//! nothing.
//!
//! In JSON a request's `body` is text, because parsed JSON would not show the exact bytes.

use crate::cli::context::Place;
use crate::cli::output::{json, line, plain};
use crate::cli::{Answer, Failure, Reading};
use crate::daemon::preview;
use crate::model::{Effect, WishId};
use crate::push::{Planned, Preview};
use serde_json::{Value, json as value};

pub(in crate::cli) async fn plan(place: &Place, reading: Reading) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let plan = preview(&place.config()?, &store, &place.clock())
        .await
        .map_err(|error| Failure::failed(error.to_string()))?;
    Ok(if reading.json { json(&shown(&plan)) } else { text(&plan) }.into())
}

fn is_look(planned: &Planned) -> bool {
    planned.request.operation.effect() == Effect::Read
}

fn body(planned: &Planned) -> Option<String> {
    let body = planned.request.body.as_deref()?;
    Some(String::from_utf8_lossy(body).into_owned())
}

fn key(plan: &Preview, id: WishId) -> &str {
    plan.keys.get(&id).map_or("", String::as_str)
}

fn shown(plan: &Preview) -> Value {
    let request = |planned: &Planned| {
        let request = &planned.request;
        let (path, query) = request.target().split_once('?').map_or_else(
            || (request.path.clone(), String::new()),
            |(path, query)| (path.to_owned(), query.to_owned()),
        );
        let keys: Vec<&str> = planned.wishes.iter().map(|id| key(plan, *id)).collect();
        value!({
            "operation": request.operation.as_str(), "method": request.operation.method(), "path": path,
            "query": query, "body": body(planned), "wishes": planned.wishes, "keys": keys,
        })
    };
    let (looks, calls): (Vec<&Planned>, Vec<&Planned>) = plan.requests.iter().partition(|p| is_look(p));
    let reads = plan.reads.iter().map(|cell| value!({"sku": cell.sku, "warehouse_id": cell.warehouse_id}));
    let settled =
        plan.without_call.iter().map(|(id, how)| value!({"id": id, "key": key(plan, *id), "how": how}));
    value!({
        "looks": looks.into_iter().map(request).collect::<Vec<_>>(),
        "calls": calls.into_iter().map(request).collect::<Vec<_>>(),
        "reads_first": reads.collect::<Vec<_>>(), "without_call": settled.collect::<Vec<_>>(),
    })
}

fn text(plan: &Preview) -> String {
    let mut text = String::new();
    for cell in &plan.reads {
        text.push_str(&format!("read first: {}\n", plain(&cell.to_string())));
    }
    for (id, how) in &plan.without_call {
        text.push_str(&format!("wish {}: {}\n", plain(key(plan, *id)), plain(how)));
    }
    for planned in &plan.requests {
        let look = if is_look(planned) { "look: " } else { "" };
        let (method, target) = (planned.request.operation.method(), planned.request.target());
        text.push_str(&format!("{look}{method} {}\n", plain(&target)));
        if let Some(body) = body(planned) {
            text.push_str(&format!("{}\n", line(&body)));
        }
    }
    if text.is_empty() {
        text.push_str("nothing waits to be sent\n");
    }
    text
}
