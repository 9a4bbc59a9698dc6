//! The sandbox without sockets: a request gives an answer.
//!
//! The server (http/server.rs) is a thin shell around [`SandboxCore::handle_request`], which routes requests to the control
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

use super::clock::SandboxClock;
use super::faults::{FaultQueue, FaultTiming};
use super::http::answer::{HandlerResult, SandboxAnswer, SandboxRefusal, json_response};
use super::http::loose::loosen_answer;
use super::http::request::OperationCall;
use super::operations::{self, SandboxOperation};
use super::platform::account::CompanyAccounts;
use super::platform::call_log::{CallLog, LoggedCall};
use super::platform::company;
use super::platform::throttle::{PlatformLimits, PlatformThrottle};
use super::store::SandboxStore;
use super::{SandboxError, SandboxHeaders, SandboxOptions};

/// A sandbox: its data, limits, faults and clock.
#[derive(Debug)]
pub struct SandboxCore {
    pub(super) store: SandboxStore,
    integration_key: String,
    latency: Duration,
    loose_answers: bool,
    pub(super) hosts: Vec<String>,
    pub(super) clock: SandboxClock,
    pub(super) accounts: CompanyAccounts,
    pub(super) faults: FaultQueue,
    pub(super) calls: CallLog,
    throttle: PlatformThrottle,
}

impl SandboxCore {
    /// Opens the database, and generates the company of the seed if the database is empty.
    pub async fn open(options: &SandboxOptions, clock: SandboxClock) -> Result<Self, SandboxError> {
        let store = SandboxStore::open(options.data.as_deref()).await?;
        let mut database = store.write_connection().await;
        let (integration_key, gateway_key) =
            company::open_default_company(&mut database, options, clock.now_ms()).await?;
        let accounts = CompanyAccounts::new(gateway_key, options.headers.clone());
        accounts.reload_accounts(&mut database).await?;
        let limits = PlatformLimits {
            calls_per_minute: options.calls_per_minute as usize,
            concurrency: options.concurrency as usize,
            bad_requests_per_day: options.bad_requests_per_day as usize,
        };
        drop(database);
        Ok(Self {
            store,
            integration_key,
            latency: Duration::from_millis(options.latency_ms),
            loose_answers: options.loose_answers,
            hosts: options.hosts.clone(),
            clock,
            accounts,
            faults: FaultQueue::new(options.seed),
            calls: CallLog::default(),
            throttle: PlatformThrottle::new(limits),
        })
    }

    /// Returns the integration key of the default company.
    pub fn integration_key(&self) -> &str {
        &self.integration_key
    }

    /// Returns the gateway key of all companies.
    pub fn gateway_key(&self) -> &str {
        &self.accounts.gateway_key
    }

    /// Returns the names of the headers with the keys.
    pub(crate) fn headers(&self) -> &SandboxHeaders {
        &self.accounts.headers
    }

    pub fn clock(&self) -> &SandboxClock {
        &self.clock
    }

    /// Returns the logged calls of operations, in the order of arrival.
    pub fn logged_calls(&self) -> Vec<LoggedCall> {
        self.calls.logged_calls()
    }

    pub(super) async fn answer_operation(&self, request: Request<Bytes>) -> SandboxAnswer {
        let (operation, ids) = match operations::find_operation(request.method(), request.uri().path()) {
            Ok(found) => found,
            Err(refused) => return SandboxAnswer::Full(refused.to_response()),
        };
        let arrived_ms = self.clock.now_ms();
        let entry = self.calls.log_arrival(operation.name, arrived_ms);
        let answer = self
            .answer_caller(operation, ids, request, arrived_ms)
            .await
            .unwrap_or_else(|refused| SandboxAnswer::Full(operation_response(operation, Err(refused))));
        let status = answer.status().map(|status| status.as_u16());
        self.calls.log_answer(entry, status, self.clock.now_ms());
        answer
    }

    /// Answers the call of a company. Errors are refusals that do not count as bad requests.
    async fn answer_caller(
        &self,
        operation: &'static SandboxOperation,
        ids: Vec<Option<i64>>,
        request: Request<Bytes>,
        now_ms: i64,
    ) -> Result<SandboxAnswer, SandboxRefusal> {
        let account = self.accounts.identify_caller(operation, request.headers())?;
        let slot = self.throttle.admit_call(account.id, operation.name, now_ms)?;
        let answer = match account.check_permission(operation, request.headers(), &self.accounts.headers) {
            Err(refused) => SandboxAnswer::Full(operation_response(operation, Err(refused))),
            Ok(()) => {
                let multi_warehousing = account.multi_warehousing;
                let call = OperationCall { company_id: account.id, multi_warehousing, now_ms, ids, request };
                self.run_with_faults(operation, &call).await
            }
        };
        if answer.status() == Some(StatusCode::BAD_REQUEST) {
            self.throttle.count_bad_request(account.id, self.clock.now_ms());
        }
        drop(slot);
        Ok(answer)
    }

    async fn run_with_faults(&self, operation: &SandboxOperation, call: &OperationCall) -> SandboxAnswer {
        let fault = self.faults.draw_fault(operation.name);
        let injected = fault.as_ref().and_then(|fault| fault.latency_ms).unwrap_or(0);
        let latency = self.latency + Duration::from_millis(injected);
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        let Some(fault) = fault else {
            return SandboxAnswer::Full(self.handler_response(operation, call).await);
        };
        if fault.drop == Some(FaultTiming::After) {
            self.handler_response(operation, call).await;
        }
        let instead = fault.injected_refusal().map(|refusal| operation_response(operation, Err(refusal)));
        let answer = match instead {
            Some(instead) => instead,
            None if fault.drop.is_some() => return SandboxAnswer::Dropped,
            None => self.handler_response(operation, call).await,
        };
        match fault.truncate.and_then(|truncate| truncate.kept_bytes(answer.body().len())) {
            Some(keep) => SandboxAnswer::Cut { response: answer, keep },
            None => SandboxAnswer::Full(answer),
        }
    }

    async fn handler_response(&self, operation: &SandboxOperation, call: &OperationCall) -> Response<Bytes> {
        let run = async |db: &mut SqliteConnection| (operation.handler)(call, db).await;
        let outcome =
            if operation.writes { self.in_transaction(run).await } else { self.store.read(run).await };
        let outcome = if self.loose_answers { outcome.map(loosen_answer) } else { outcome };
        operation_response(operation, outcome)
    }

    pub(super) async fn in_transaction<T>(
        &self,
        work: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, SandboxRefusal>,
    ) -> Result<T, SandboxRefusal> {
        let mut database = self.store.write_connection().await;
        let mut transaction = database.begin().await?;
        let done = work(&mut transaction).await?;
        transaction.commit().await?;
        Ok(done)
    }
}

/// Returns the response of an operation. The quantity update's 400 has a body of its own.
fn operation_response(operation: &SandboxOperation, outcome: HandlerResult) -> Response<Bytes> {
    match outcome {
        Ok(body) => json_response(StatusCode::OK, body),
        Err(refused) if operation.answers_inactive_key_400 && refused.status == StatusCode::BAD_REQUEST => {
            refused.to_exception_response()
        }
        Err(refused) => refused.to_response(),
    }
}
