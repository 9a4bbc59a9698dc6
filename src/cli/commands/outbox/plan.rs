//! `plan`: the requests of the next push, byte for byte, from the current mirror. It makes no call.
//!
//! In JSON a request's `body` is text, because parsed JSON would not show the exact bytes.

use crate::cli::context::CliContext;
use crate::cli::output::{json_line, plain_line};
use crate::cli::{CommandResult, OutputArgs};
use crate::daemon::preview_push;
use crate::model::{CallEffect, ChangeId, counted};
use crate::push::{PlannedRequest, PushPreview};
use serde_json::{Value, json};

pub(in crate::cli) async fn plan_command(context: &CliContext, output: OutputArgs) -> CommandResult {
    let store = context.open_store().await?;
    let plan = preview_push(&context.config()?, &store, &context.clock()).await?;
    Ok(output.render(|| plan_json(&plan), || plan_text(&plan)).into())
}

fn is_preflight(planned: &PlannedRequest) -> bool {
    planned.request.operation.effect() == CallEffect::Read
}

fn body_text(planned: &PlannedRequest) -> Option<String> {
    let body = planned.request.body.as_deref()?;
    Some(String::from_utf8_lossy(body).into_owned())
}

fn change_key(plan: &PushPreview, id: ChangeId) -> &str {
    plan.change_keys.get(&id).map_or("", String::as_str)
}

fn plan_json(plan: &PushPreview) -> Value {
    let request = |planned: &PlannedRequest| {
        let request = &planned.request;
        let target = request.target();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let keys: Vec<&str> = planned.changes.iter().map(|id| change_key(plan, *id)).collect();
        json!({
            "operation": request.operation.as_str(), "method": request.operation.method(), "path": path,
            "query": query, "body": body_text(planned), "changes": planned.changes, "keys": keys,
        })
    };
    let (preflights, calls): (Vec<&PlannedRequest>, Vec<&PlannedRequest>) =
        plan.requests.iter().partition(|planned| is_preflight(planned));
    let reads = plan.reads.iter().map(|level| json!({"sku": level.sku, "warehouse_id": level.warehouse_id}));
    let without_call = plan
        .changes_without_call
        .iter()
        .map(|(id, how)| json!({"id": id, "key": change_key(plan, *id), "how": how}));
    json!({
        "preflights": preflights.into_iter().map(request).collect::<Vec<_>>(),
        "calls": calls.into_iter().map(request).collect::<Vec<_>>(),
        "reads_first": reads.collect::<Vec<_>>(), "without_call": without_call.collect::<Vec<_>>(),
        "later": plan.later_changes,
    })
}

fn plan_text(plan: &PushPreview) -> String {
    let mut text = String::new();
    for level in &plan.reads {
        text.push_str(&format!("read first: {}\n", plain_line(&level.to_string())));
    }
    for (id, how) in &plan.changes_without_call {
        text.push_str(&format!("change {}: {}\n", plain_line(change_key(plan, *id)), plain_line(how)));
    }
    for planned in &plan.requests {
        let prefix = if is_preflight(planned) { "preflight: " } else { "" };
        let (method, target) = (planned.request.operation.method(), planned.request.target());
        text.push_str(&format!("{prefix}{method} {}\n", plain_line(&target)));
        if let Some(body) = body_text(planned) {
            text.push_str(&format!("{}\n", json_line(&body)));
        }
    }
    if plan.later_changes > 0 {
        let later = counted(plan.later_changes, "change");
        text.push_str(&format!("{later} more: planned once those before are sent\n"));
    }
    if text.is_empty() {
        text.push_str("no change is ready to be sent\n");
    }
    text
}
