//! The answer to a form: the page again with the result, or the result as JSON.
//!
//! A refused decision changes nothing and names the reason. After each form the browser loads a page (303), so a
//! reload repeats nothing.

use super::WebState;
use super::access::PageNotice;
use super::layout::{PageFailure, PageResult, json_response};
use super::request::PageRequest;
use crate::model::Timestamp;
use crate::present::queue::{ChangeToQueue, QueueError, queue_changes};
use crate::store::{DecisionResult, Durability, StoreError, WriteTransaction};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A done action as a sentence, or the reason of its refusal.
pub(super) type ActionResult = Result<String, String>;

/// Returns the answer to a form; `to` is the next page.
pub(super) fn answer_form(request: &PageRequest, to: &str, result: ActionResult) -> PageResult {
    let is_done = result.is_ok();
    let (Ok(text) | Err(text)) = result;
    if request.wants_json {
        let status = if is_done { StatusCode::OK } else { StatusCode::CONFLICT };
        return Ok(json_response(status, &json!({"done": is_done, "message": text})));
    }
    request.session.leave_notice(PageNotice { is_done, text });
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response())
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

    /// Queues a change typed by a person; an empty field `key` gives a new key.
    pub(super) async fn queue(
        &self,
        request: &PageRequest,
        kind: &'static str,
        body: &Value,
    ) -> Result<ActionResult, PageFailure> {
        let given = request.form.given("key").map(str::to_owned);
        let key = given.unwrap_or_else(|| format!("web-{}-{}", self.now(), std::process::id()));
        let change = ChangeToQueue { key, kind, body: body.to_string(), priority: 1 };
        match queue_changes(&self.store, std::slice::from_ref(&change)).await {
            Ok(0) => Ok(Err(format!("the key `{}` is known already; nothing was queued", change.key))),
            Ok(_) => Ok(Ok(format!("change {} is queued; the daemon sends it", change.key))),
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
        let text = format!("{decided} change(s) {}{refused}", decision.done_text());
        Ok(match (keys.is_empty(), refused.is_empty()) {
            (true, _) => Err(NONE_SELECTED.into()),
            (false, true) => Ok(text),
            (false, false) => Err(text),
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
        Ok(Ok(format!(
            "{released} change(s) released; their stock levels are read again and merged before they are sent"
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
            Self::Cancel => Ok(match write.outbox_cancel(key, now).await? {
                true => Ok(()),
                false => Err("only a pending or held change can be cancelled".into()),
            }),
        }
    }
}
