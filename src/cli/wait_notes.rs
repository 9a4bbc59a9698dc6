//! Notes for a person who waits: from a few seconds on, what keeps the answer away.

use super::CommandFailure;
use super::context::CliContext;
use super::local_time::local_sentence;
use super::output::{plain_line, print_error};
use crate::daemon::{ControlError, ControlRequest, send_control_request};
use crate::health::Finding;
use crate::present::status::find_obstacles;
use crate::store::Store;
use serde::de::DeserializeOwned;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Time after which somebody who waits wants to know why.
const NOTE_INTERVAL: Duration = Duration::from_secs(3);

impl CliContext {
    /// Sends a request to the daemon, or carries it out here if none runs. Meanwhile a person reads what keeps the
    /// answer away.
    pub(in crate::cli) async fn ask_daemon<T: DeserializeOwned>(
        &self,
        request: &ControlRequest,
    ) -> Result<Result<T, ControlError>, CommandFailure> {
        let asked = send_control_request(self.config()?, Arc::new(self.clock()), request);
        Ok(with_wait_notes(self, asked).await)
    }
}

/// Awaits `work`. Meanwhile it prints to standard error what keeps the answer away, each cause once.
pub(super) async fn with_wait_notes<T>(context: &CliContext, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut told = None;
    loop {
        if let Ok(done) = timeout(NOTE_INTERVAL, &mut work).await {
            return done;
        }
        let obstacle = first_obstacle(context).await;
        let cause = obstacle.as_ref().map(Finding::identity);
        if told.as_ref() != Some(&cause) {
            let text = obstacle.map_or_else(
                || "no answer yet, and nothing is known that keeps it away".to_owned(),
                |obstacle| obstacle.full_text(),
            );
            print_error(&format!("waiting: {}", plain_line(&local_sentence(text))));
            told = Some(cause);
        }
    }
}

/// Returns the first obstacle; `None` also if the database cannot be read, which the awaited work reports itself.
async fn first_obstacle(context: &CliContext) -> Option<Finding> {
    let config = context.readable_config().ok()?;
    let store = Store::open_beside(config.database.location().ok()?).await.ok()?;
    find_obstacles(config, &context.clock(), &store).await.ok()?.into_iter().next()
}
