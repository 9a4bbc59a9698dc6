//! The sandbox without sockets: a request gives an answer.
//!
//! The server (http/server.rs) is a thin shell around [`Core::handle`], which routes requests to the control
//! plane (control.rs) or to an operation. A simulation calls it directly with its own clock. All time comes
//! from the clock, all randomness from the seed, and writes are serialised without concurrent reads.
//! Therefore a seed and an order of requests give a fixed sequence of answers.
//!
//! A call passes its gates in a fixed order:
//!
//! 1. known path: 404 or 405, uncounted
//! 2. known key: 403, uncounted
//! 3. limits: 429 or 403
//! 4. permission to call: 403, or 400 for the quantity update
//! 5. injected latency and faults
//! 6. the handler

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, Response, StatusCode};
use sqlx::{Connection, SqliteConnection};
use tokio::sync::RwLockWriteGuard;

use super::clock::Clock;
use super::faults::{Fault, Faults, Moment};
use super::http::answer::{Answer, Refusal, json_response};
use super::http::request::Call;
use super::operations::{self, Operation};
use super::platform::account::{Account, Accounts};
use super::platform::call_log::{Call as CallEntry, Calls};
use super::platform::company;
use super::platform::throttle::{Limits, Throttle};
use super::store::Store;
use super::{Error, Options};

/// A sandbox: its data, limits, faults and clock.
#[derive(Debug)]
pub struct Core {
    store: Store,
    integration_key: String,
    gateway_key: String,
    latency: Duration,
    /// Accepted host names beside addresses and local names.
    pub(super) hosts: Vec<String>,
    pub(super) clock: Clock,
    pub(super) accounts: Accounts,
    pub(super) faults: Faults,
    pub(super) calls: Calls,
    throttle: Throttle,
}

impl Core {
    /// Opens the database, and generates the company of the seed if the database is empty.
    ///
    /// # Errors
    /// If the database cannot be opened, migrated or filled.
    pub async fn open(options: &Options, clock: Clock) -> Result<Self, Error> {
        let store = Store::open(options.data.as_deref()).await?;
        let mut database = store.write().await;
        let keys = company::open(&mut database, options, clock.now_ms()).await?;
        let accounts = Accounts::load(&mut database, keys.gateway.clone()).await?;
        let limits = Limits {
            calls_per_minute: options.calls_per_minute as usize,
            concurrency: options.concurrency as usize,
            bad_requests_per_day: options.bad_requests_per_day as usize,
        };
        drop(database);
        Ok(Self {
            store,
            integration_key: keys.integration,
            gateway_key: keys.gateway,
            latency: Duration::from_millis(options.latency_ms),
            hosts: options.hosts.clone(),
            clock,
            accounts,
            faults: Faults::new(options.seed),
            calls: Calls::default(),
            throttle: Throttle::new(limits),
        })
    }

    /// Returns the integration key of the default company.
    pub fn integration_key(&self) -> &str {
        &self.integration_key
    }

    /// Returns the gateway key of all companies.
    pub fn gateway_key(&self) -> &str {
        &self.gateway_key
    }

    /// Returns the sandbox's clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the logged calls of operations, in the order of arrival.
    pub fn calls(&self) -> Vec<CallEntry> {
        self.calls.list()
    }

    /// Answers a call of an operation.
    pub(super) async fn answer(&self, request: Request<Bytes>) -> Answer {
        match operations::find(request.method(), request.uri().path()) {
            Ok((operation, ids)) => self.call(operation, ids, request).await,
            Err(refused) => Answer::Full(refused.response()),
        }
    }

    /// Handles a call of an operation and logs it with any outcome.
    async fn call(
        &self,
        operation: &'static Operation,
        ids: Vec<Option<i64>>,
        request: Request<Bytes>,
    ) -> Answer {
        let arrived_ms = self.clock.now_ms();
        let entry = self.calls.arrived(operation.name, arrived_ms);
        let answer = match self.accounts.identify(operation, request.headers()) {
            Ok(account) => self.call_of(&account, operation, ids, request, arrived_ms).await,
            Err(refused) => Answer::Full(answered(operation, Err(refused))),
        };
        let status = match &answer {
            Answer::Full(response) | Answer::Cut { response, .. } => Some(response.status().as_u16()),
            Answer::Dropped => None,
        };
        self.calls.answered(entry, status, self.clock.now_ms());
        answer
    }

    /// Handles a call that counts against an account.
    async fn call_of(
        &self,
        account: &Account,
        operation: &'static Operation,
        ids: Vec<Option<i64>>,
        request: Request<Bytes>,
        now_ms: i64,
    ) -> Answer {
        let slot = match self.throttle.admit(account.id, operation.name, now_ms) {
            Ok(slot) => slot,
            Err(refused) => return Answer::Full(answered(operation, Err(refused))),
        };
        let answer = match account.admit(operation, request.headers()) {
            Err(refused) => Answer::Full(answered(operation, Err(refused))),
            Ok(()) => {
                let (parts, body) = request.into_parts();
                let call = Call {
                    company_id: account.id,
                    multi_warehousing: account.multi_warehousing,
                    now_ms,
                    ids,
                    uri: parts.uri,
                    headers: parts.headers,
                    body,
                };
                self.under_faults(operation, &call).await
            }
        };
        let ended_400 = |response: &Response<Bytes>| response.status() == StatusCode::BAD_REQUEST;
        if matches!(&answer, Answer::Full(response) | Answer::Cut { response, .. } if ended_400(response)) {
            self.throttle.bad_request(account.id, self.clock.now_ms());
        }
        drop(slot);
        answer
    }

    /// Runs the handler with the injected faults.
    async fn under_faults(&self, operation: &Operation, call: &Call) -> Answer {
        let fault = self.faults.draw(operation.name);
        let injected = fault.as_ref().and_then(|fault| fault.latency_ms).unwrap_or(0);
        let latency = self.latency + Duration::from_millis(injected);
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        let Some(fault) = fault else { return Answer::Full(self.done(operation, call).await) };
        let instead = fault.refusal().map(|refusal| answered(operation, Err(refusal)));
        let answer = match (fault.drop, instead) {
            (Some(Moment::Before), None) => return Answer::Dropped,
            (Some(Moment::After), None) => {
                self.done(operation, call).await;
                return Answer::Dropped;
            }
            (Some(Moment::After), Some(instead)) => {
                self.done(operation, call).await;
                instead
            }
            (_, Some(instead)) => instead,
            (None, None) => self.done(operation, call).await,
        };
        cut(answer, &fault)
    }

    async fn done(&self, operation: &Operation, call: &Call) -> Response<Bytes> {
        answered(operation, self.do_it(operation, call).await)
    }

    async fn do_it(&self, operation: &Operation, call: &Call) -> Result<String, Refusal> {
        if !operation.writes {
            let mut reader = self.store.read().await;
            return (operation.handler)(call, &mut reader).await;
        }
        let mut database = self.database().await;
        let mut transaction = database.begin().await?;
        let body = (operation.handler)(call, &mut transaction).await?;
        transaction.commit().await?;
        Ok(body)
    }

    /// Returns the writing connection, after earlier writers and readers.
    pub(super) async fn database(&self) -> RwLockWriteGuard<'_, SqliteConnection> {
        self.store.write().await
    }
}

/// Returns the response of an operation. The quantity update's 400 has a body of its own.
fn answered(operation: &Operation, outcome: Result<String, Refusal>) -> Response<Bytes> {
    match outcome {
        Ok(body) => json_response(StatusCode::OK, body),
        Err(refused) if operation.judges_keys_itself && refused.status == StatusCode::BAD_REQUEST => {
            refused.response_with_exception()
        }
        Err(refused) => refused.response(),
    }
}

fn cut(response: Response<Bytes>, fault: &Fault) -> Answer {
    match fault.truncate.and_then(|truncate| truncate.keep(response.body().len())) {
        Some(keep) => Answer::Cut { response, keep },
        None => Answer::Full(response),
    }
}
