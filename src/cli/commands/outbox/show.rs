//! `outbox show`: a change with its history and evidence, for decisions that no check of the platform can make.

use super::select::require_key;
use crate::cli::context::CliContext;
use crate::cli::local_time::local_sentence;
use crate::cli::output::{fields_text, json_line, lines_text, plain_line, table_text};
use crate::cli::{CommandFailure, CommandResult, OutputArgs};
use crate::present::change::{ChangeDetail, change_json};
use crate::present::runs::exchange_columns;

pub(super) async fn show_change(context: &CliContext, key: &str, output: OutputArgs) -> CommandResult {
    let store = context.open_store().await?;
    let key = require_key(&store, key).await?;
    let detail = ChangeDetail::load(&store, &key, context.readable_config()?, &context.clock()).await?;
    let detail = detail.ok_or_else(|| CommandFailure::failed(format!("no change has the key `{key}`")))?;
    Ok(output.render(|| detail.to_json(), || detail_text(&detail)).into())
}

fn detail_text(detail: &ChangeDetail) -> String {
    let head = change_json(&detail.change);
    let body = ("body", json_line(&head["body"]));
    let obstacles = detail.obstacles.iter().map(|found| ("not sent", local_sentence(found.full_text())));
    let to_do = detail.what_to_do().map(|what| ("what to do", what));
    let lines = std::iter::once(body).chain(obstacles).chain(to_do);
    let lines = lines.map(|(name, line)| format!("{name:<14} {}\n", plain_line(&line)));
    let mut text = fields_text(&head) + &lines.collect::<String>();
    let steps = table_text(detail.steps(), "");
    let calls = table_text(detail.exchanges.iter().map(exchange_columns), "no call yet");
    text.push_str(&format!("\nhistory\n{steps}\ncalls\n{calls}"));
    let evidence = detail.evidence_sentences();
    text.push_str(if evidence.is_empty() { "" } else { "\nevidence\n" });
    text + &lines_text(&evidence)
}
