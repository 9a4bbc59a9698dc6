//! The answer to a form: the page again with the result, or the result as JSON.
//!
//! A served form is done once. A refused one changes nothing, names the reason, and may be sent again. After each form
//! the browser loads a page (303), so a reload repeats nothing.

use super::WebState;
use super::access::{PageNotice, WebSession};
use super::layout::{PageFailure, PageResult, json_response};
use super::request::{PageRequest, wants_json};
use crate::health::Finding;
use crate::model::{Timestamp, counted};
use crate::outbox::derived_key;
use crate::present::queue::{ChangeToQueue, QueueError, queue_changes};
use crate::store::{DecisionResult, Durability, StoreError, WriteTransaction};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A done action, or the reason for which nothing was done.
pub(super) type ActionResult = Result<PageNotice, String>;

/// A form whose action is done: the page that shows the result, and the result.
#[derive(Clone, Debug)]
pub(super) struct DoneForm(String, String);

/// A form that was sent, locked while its action runs; empty until the action is done.
pub(super) type SentForm = Arc<Mutex<Option<DoneForm>>>;

/// Does what a form asks for, unless it is done already. A second sender waits for the end of the first one's action.
pub(super) async fn act_once(
    form: SentForm,
    session: Arc<WebSession>,
    request: Request,
    next: Next,
) -> Response {
    let mut done = form.lock().await;
    if let Some(DoneForm(to, first)) = &*done {
        let text = format!("this form is known already, and nothing was done again; the first time: {first}");
        let visit = (&*session, wants_json(request.headers()));
        return answer(visit, to, PageNotice { is_done: false, text }, &[]);
    }
    let response = next.run(request).await;
    *done = response.extensions().get().cloned();
    response
}

/// Returns the answer to a form; `to` is the next page.
pub(super) fn answer_form(request: &PageRequest, to: &str, result: ActionResult) -> PageResult {
    let done = result.as_ref().ok().map(|notice| DoneForm(to.to_owned(), notice.text.clone()));
    let notice = result.unwrap_or_else(|text| PageNotice { is_done: false, text });
    let visit = (&*request.session, request.wants_json);
    let mut response = answer(visit, to, notice, &request.findings);
    done.map(|done| response.extensions_mut().insert(done));
    Ok(response)
}

fn answer(
    (session, wants_json): (&WebSession, bool),
    to: &str,
    notice: PageNotice,
    findings: &[Finding],
) -> Response {
    if wants_json {
        let status = if notice.is_done { StatusCode::OK } else { StatusCode::CONFLICT };
        let data = json!({"done": notice.is_done, "message": notice.text, "findings": findings});
        return json_response(status, &data);
    }
    session.leave_notice(notice);
    (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
}

/// Returns the result of an action that is done whole.
pub(super) fn success(text: impl Into<String>) -> ActionResult {
    Ok(PageNotice { is_done: true, text: text.into() })
}

pub(super) fn unknown_action(request: &PageRequest) -> ActionResult {
    Err(format!("there is no action `{}`", request.form.get("action").unwrap_or_default()))
}

impl WebState {
    /// Runs `work` in a durable write transaction and commits it.
    pub(super) async fn write<T>(
        &self,
        work: impl AsyncFnOnce(&mut WriteTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut write = self.store.begin_write(Durability::Full).await?;
        let done = work(&mut write).await?;
        write.commit().await?;
        Ok(done)
    }

    /// Queues a change typed by a person; without a field `key`, its key is that of the form.
    pub(super) async fn queue(
        &self,
        request: &PageRequest,
        kind: &'static str,
        body: &Value,
    ) -> Result<ActionResult, PageFailure> {
        let given = request.form.given("key").map(str::to_owned);
        let (body, once) = (body.to_string(), request.form.given("once").unwrap_or_default());
        let key = given.unwrap_or_else(|| derived_key("web", &[kind, &body], once));
        let change = ChangeToQueue { key, kind, body, priority: 1 };
        match queue_changes(&self.store, std::slice::from_ref(&change)).await {
            Ok(0) => Ok(Err(format!("the key `{}` is known already; nothing was queued", change.key))),
            Ok(_) => {
                let next = request.findings.first();
                let next = next.map_or_else(|| "the daemon sends it".to_owned(), Finding::full_text);
                Ok(success(format!("change {} is queued; {next}", change.key)))
            }
            Err(QueueError::Store(error)) => Err(error.into()),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    /// Decides on each of the changes in its own transaction. The result names those that were refused.
    pub(super) async fn decide_each(
        &self,
        keys: &[String],
        decision: KeyDecision,
    ) -> Result<ActionResult, PageFailure> {
        let (mut decided, mut refused) = (0, String::new());
        for key in keys {
            let mut write = self.store.begin_write(Durability::Full).await?;
            match decision.apply(&mut write, key, self.now()).await? {
                Ok(()) => {
                    write.commit().await?;
                    decided += 1;
                }
                // A String takes every text.
                Err(why) => drop(write!(refused, "; {key}: {why}")),
            }
        }
        let text = format!("{} {}{refused}", counted(decided, "change"), decision.done_text());
        Ok(match decided {
            _ if keys.is_empty() => Err(NONE_SELECTED.into()),
            0 => Err(text),
            _ => Ok(PageNotice { is_done: refused.is_empty(), text }),
        })
    }

    /// Releases these held changes. Without a key the store would release all.
    pub(super) async fn release(&self, keys: &[String]) -> Result<ActionResult, PageFailure> {
        match keys {
            [] => Ok(Err(NONE_SELECTED.into())),
            keys => self.release_in_store(keys).await,
        }
    }

    /// Releases the changes of all open trips.
    pub(super) async fn release_all(&self) -> Result<ActionResult, PageFailure> {
        self.release_in_store(&[]).await
    }

    async fn release_in_store(&self, keys: &[String]) -> Result<ActionResult, PageFailure> {
        let mut write = self.store.begin_write(Durability::Full).await?;
        let released = write.brake_release(keys, self.now()).await?;
        if released == 0 && !keys.is_empty() {
            return Ok(Err("no such change is held by a brake or after a restore".into()));
        }
        write.commit().await?;
        Ok(success(format!(
            "{} released; the stock levels are read again and merged before anything is sent",
            counted(released, "change")
        )))
    }
}

const NONE_SELECTED: &str = "select at least one change";

/// A decision on a change that needs no more than its key.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeyDecision {
    Retry,
    Cancel,
    Acknowledge,
}

impl KeyDecision {
    fn done_text(self) -> &'static str {
        match self {
            Self::Retry => "planned again by the next push",
            Self::Cancel => "cancelled",
            Self::Acknowledge => "acknowledged",
        }
    }

    async fn apply(
        self,
        write: &mut WriteTransaction,
        key: &str,
        now: Timestamp,
    ) -> Result<DecisionResult<()>, StoreError> {
        match self {
            Self::Retry => write.outbox_retry(key, now).await,
            Self::Acknowledge => write.outbox_acknowledge(key, now).await,
            Self::Cancel => write.outbox_cancel(key, now).await,
        }
    }
}
