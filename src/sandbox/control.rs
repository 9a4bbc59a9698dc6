//! The control plane: requests that change the sandbox from outside (docs/sandbox.md, *The control plane*).
//!
//! They are separated from the platform's requests here. They need no key, are never counted, delayed or
//! failed by faults, and are no part of the interface. Errors are 4xx with a `{Message}`, like the
//! platform's.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::clock::rfc3339;
use super::core::SandboxCore;
use super::faults::InjectedFault;
use super::http::answer::{SandboxAnswer, SandboxRefusal, json_response};
use super::http::origin;
use super::http::request::{StrictObject, WholeNumber, parse_json};
use super::operations::kits::{self, KitBody};
use super::platform::call_log::LoggedCall;
use super::platform::company::{self, CompanyDefinition};
use super::platform::sales::SaleLine;

const PATH_PREFIX: &str = "/_sandbox/";

/// Maximum advance of the clock in a request: ten years keep every date valid.
const ADVANCE_SECONDS_MAX: i64 = 10 * 366 * 24 * 3_600;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct NewOrderRequest {
    lines: Vec<SaleLine>,
    integration_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NewSaleRequest {
    #[serde(flatten)]
    line: SaleLine,
    warehouse_id: WholeNumber,
    integration_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NewKitRequest {
    #[serde(flatten)]
    kit: KitBody,
    integration_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct ClockAdvance {
    advance_seconds: WholeNumber,
}

impl SandboxCore {
    /// Answers a request: a call of an operation or of the control plane.
    pub async fn handle_request(&self, request: Request<Bytes>) -> SandboxAnswer {
        if let Err(refused) = origin::check_origin(request.uri(), request.headers(), &self.hosts) {
            return SandboxAnswer::Full(refused.to_response());
        }
        if !request.uri().path().starts_with(PATH_PREFIX) {
            return self.answer_operation(request).await;
        }
        let answer = answer_control(self, &request).await;
        SandboxAnswer::Full(answer.unwrap_or_else(|refused| refused.to_response()))
    }
}

async fn answer_control(
    core: &SandboxCore,
    request: &Request<Bytes>,
) -> Result<Response<Bytes>, SandboxRefusal> {
    let name = request.uri().path().strip_prefix(PATH_PREFIX).unwrap_or_default();
    let body = request.body();
    let answer = match (request.method().as_str(), name) {
        ("POST", "companies") => create_company(core, parse_object(body)?).await?,
        ("POST", "orders") => {
            let new: NewOrderRequest = parse_object(body)?;
            json!({ "OrderId": core.place_order_of(new.integration_key.as_deref(), &new.lines).await? })
        }
        ("POST", "sales") => {
            let new: NewSaleRequest = parse_object(body)?;
            let WholeNumber(warehouse_id) = new.warehouse_id;
            let key = new.integration_key.as_deref();
            let left = core.sell_units_of(key, &new.line, warehouse_id).await?;
            json!({ "Sku": new.line.sku, "WarehouseId": warehouse_id, "QuantityOnHand": left })
        }
        ("POST", "kits") => {
            let new: NewKitRequest = parse_object(body)?;
            let company_id = company_of_key(core, new.integration_key.as_deref())?;
            let create = async |db: &mut _| kits::create_kit(db, company_id, &new.kit).await;
            json!({ "ProductId": core.in_transaction(create).await? })
        }
        ("POST", "faults") => add_faults(core, body)?,
        ("GET", "faults") => json!(core.faults.active_faults()),
        ("DELETE", "faults") => {
            core.faults.clear_faults();
            json!([])
        }
        ("POST", "clock") => advance_clock(core, &parse_object(body)?)?,
        ("GET", "clock") => json!({ "Now": rfc3339(core.clock.now_ms()) }),
        ("GET", "calls") => calls_json(core),
        (_, "companies" | "orders" | "sales" | "kits" | "faults" | "clock" | "calls") => {
            let message = format!("/_sandbox/{name} does not take {}.", request.method());
            return Err(SandboxRefusal::new(StatusCode::METHOD_NOT_ALLOWED, message));
        }
        _ => {
            return Err(SandboxRefusal::not_found(format!("The control plane has nothing called '{name}'.")));
        }
    };
    Ok(json_response(StatusCode::OK, answer.to_string()))
}

fn parse_object<T: DeserializeOwned>(body: &Bytes) -> Result<T, SandboxRefusal> {
    parse_json(body).map(|StrictObject(body)| body)
}

async fn create_company(core: &SandboxCore, new: CompanyDefinition) -> Result<Value, SandboxRefusal> {
    if new.name.trim().is_empty() {
        return Err(SandboxRefusal::bad_request("Name must not be empty."));
    }
    let (company_id, integration_key) =
        core.in_transaction(async |db| Ok(company::add_company(db, &new).await?)).await?;
    core.accounts.reload_accounts(&mut *core.store.write_connection().await).await?;
    Ok(json!({ "CompanyId": company_id, "IntegrationKey": integration_key }))
}

pub(super) fn add_faults(core: &SandboxCore, body: &Bytes) -> Result<Value, SandboxRefusal> {
    let posted: Value = parse_json(body)?;
    let posted = if posted.is_array() { posted } else { json!([posted]) };
    let faults: Vec<InjectedFault> =
        serde_json::from_value(posted).map_err(|cause| format!("The request body is not valid: {cause}."))?;
    core.faults.add_faults(faults)?;
    Ok(json!(core.faults.active_faults()))
}

fn advance_clock(core: &SandboxCore, advance: &ClockAdvance) -> Result<Value, SandboxRefusal> {
    let WholeNumber(seconds) = advance.advance_seconds;
    let forward =
        u64::try_from(seconds).ok().filter(|_| seconds <= ADVANCE_SECONDS_MAX).ok_or_else(|| {
            format!("AdvanceSeconds must be between 0 and {ADVANCE_SECONDS_MAX}, not {seconds}.")
        })?;
    core.clock.advance_by(Duration::from_secs(forward));
    Ok(json!({ "Now": rfc3339(core.clock.now_ms()) }))
}

fn calls_json(core: &SandboxCore) -> Value {
    let shown = |call: LoggedCall| {
        json!({
            "Operation": call.operation,
            "Status": call.status,
            "StartedAt": rfc3339(call.started_at_ms),
            "DurationMs": call.duration_ms,
            "ArrivedAtMs": call.started_at_ms,
        })
    };
    core.logged_calls().into_iter().map(shown).collect()
}

/// Returns the company of a key; `None` means the default company.
pub(super) fn company_of_key(
    core: &SandboxCore,
    integration_key: Option<&str>,
) -> Result<i64, SandboxRefusal> {
    let account = core.accounts.of_key(integration_key.unwrap_or(core.integration_key()));
    let id = account.map(|account| account.id);
    id.ok_or_else(|| SandboxRefusal::bad_request("No company has this IntegrationKey."))
}
