//! The answer to a form: the page again with the result, or the result as JSON.
//!
//! A served form is done once. A refused one changes nothing, names the reason, and may be sent again. After each form
//! the browser loads a page (303), so a reload repeats nothing.

use super::WebState;
use super::access::{PageNotice, locked};
use super::layout::{PageResult, json_response};
use super::request::PageRequest;
use crate::outbox::derived_key;
use crate::present::ViewError;
use crate::present::decisions::{KeyDecision, decide};
use crate::present::queue::{ChangeToQueue, insert_changes};
use crate::store::Durability;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};

/// A done action. [`ViewError::Refused`] and [`ViewError::Invalid`] have the reason for which nothing was done.
pub(super) type ActionResult = Result<PageNotice, ViewError>;

/// Does what a form asks for, unless that form is done already. The page `to` shows the result.
///
/// The forms of a visit are done one after the other, so a second sender waits for the end of the first one's action.
pub(super) async fn answer_form(
    request: &PageRequest,
    to: &str,
    action: impl Future<Output = ActionResult>,
) -> PageResult {
    let once = request.form.given("once").unwrap_or_default();
    let mut done = request.session.done_forms.lock().await;
    let notice = match done.get(once) {
        Some(first) => PageNotice {
            is_done: false,
            text: format!("this form is known already, and nothing was done again; the first time: {first}"),
        },
        None => match action.await {
            Err(ViewError::Refused(text) | ViewError::Invalid(text)) => PageNotice { is_done: false, text },
            result => {
                let notice = result?;
                done.insert(once.to_owned(), notice.text.clone());
                notice
            }
        },
    };
    if request.wants_json {
        let status = if notice.is_done { StatusCode::OK } else { StatusCode::CONFLICT };
        let data = json!({"done": notice.is_done, "message": notice.text, "findings": request.findings()});
        return Ok(json_response(status, &data));
    }
    *locked(&request.session.notice) = Some(notice);
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response())
}

pub(super) fn success(sentences: Vec<String>) -> ActionResult {
    Ok(PageNotice { is_done: true, text: sentences.join("; ") })
}

impl WebState {
    /// Queues a change typed by a person; without a field `key`, its key is that of the form.
    pub(super) async fn queue(
        &self,
        request: &PageRequest,
        kind: &'static str,
        body: &Value,
    ) -> ActionResult {
        let given = request.form.given("key").map(str::to_owned);
        let (body, once) = (body.to_string(), request.form.given("once").unwrap_or_default());
        let key = given.unwrap_or_else(|| derived_key("web", &[kind, &body], once));
        let change = ChangeToQueue::typed(key.clone(), kind, body);
        change.parsed_body()?;
        let mut write = self.store.begin_write(Durability::Full).await?;
        if insert_changes(&mut write, &[change], std::slice::from_ref(&key)).await? == 0 {
            let why = format!("the key `{key}` is known already; nothing was queued");
            return Err(ViewError::Refused(why));
        }
        write.commit().await?;
        let next = request
            .findings()
            .first()
            .map_or_else(|| "the daemon sends it".to_owned(), |first| first.full_text());
        success(vec![format!("change {key} is queued; {next}")])
    }

    /// Decides on each of the changes. The result names those that were refused.
    pub(super) async fn decide(&self, decision: KeyDecision, keys: &[String]) -> ActionResult {
        if keys.is_empty() {
            return Err(ViewError::Refused("select at least one change".into()));
        }
        let decided = decide(&self.store, decision, keys, self.now()).await?;
        let sentences = std::iter::once(decided.summary()).chain(decided.refusals());
        let text = sentences.collect::<Vec<_>>().join("; ");
        match decided.done.is_empty() {
            true => Err(ViewError::Refused(text)),
            false => Ok(PageNotice { is_done: decided.refused.is_empty(), text }),
        }
    }
}
