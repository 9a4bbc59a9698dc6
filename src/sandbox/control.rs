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
use super::core::Core;
use super::faults::Fault;
use super::http::answer::{Answer, Refusal, json_response};
use super::http::origin;
use super::http::request::{Object, Whole, parse};
use super::operations::kits::Kit;
use super::platform::company;
use super::platform::sales::Line;

/// Path prefix of the control plane; no operation has it.
const PREFIX: &str = "/_sandbox/";

/// Maximum advance of the clock in a request: ten years keep every date valid.
const ADVANCE_SECONDS_MAX: i64 = 10 * 366 * 24 * 3_600;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct NewCompany {
    name: String,
    subscribed: bool,
    application_id: Option<String>,
    #[serde(default)]
    multi_warehousing: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct NewOrder {
    lines: Vec<Line>,
    integration_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NewSale {
    #[serde(flatten)]
    line: Line,
    warehouse_id: Whole,
    integration_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NewKit {
    #[serde(flatten)]
    kit: Kit,
    integration_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Advance {
    advance_seconds: Whole,
}

impl Core {
    /// Answers a request: a call of an operation or of the control plane.
    pub async fn handle(&self, request: Request<Bytes>) -> Answer {
        if let Err(refused) = origin::check(request.uri(), request.headers(), &self.hosts) {
            return Answer::Full(refused.response());
        }
        if !request.uri().path().starts_with(PREFIX) {
            return self.answer(request).await;
        }
        Answer::Full(answer(self, request).await.unwrap_or_else(|refused| refused.response()))
    }
}

/// Answers a call of the control plane.
async fn answer(core: &Core, request: Request<Bytes>) -> Result<Response<Bytes>, Refusal> {
    let name = request.uri().path().strip_prefix(PREFIX).unwrap_or_default();
    let body = request.body();
    let told = match (request.method().as_str(), name) {
        ("POST", "companies") => company(core, object(body)?).await?,
        ("POST", "orders") => order(core, object(body)?).await?,
        ("POST", "sales") => sale(core, object(body)?).await?,
        ("POST", "kits") => kit(core, object(body)?).await?,
        ("POST", "faults") => faults(core, body)?,
        ("GET", "faults") => json!(core.faults.list()),
        ("DELETE", "faults") => {
            core.faults.clear();
            json!([])
        }
        ("POST", "clock") => clock(core, &object(body)?)?,
        ("GET", "clock") => json!({ "Now": rfc3339(core.clock.now_ms()) }),
        ("GET", "calls") => calls(core),
        (_, "companies" | "orders" | "sales" | "kits" | "faults" | "clock" | "calls") => {
            let message = format!("/_sandbox/{name} does not take {}.", request.method());
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message));
        }
        _ => return Err(Refusal::not_found(format!("The control plane has nothing called '{name}'."))),
    };
    Ok(json_response(StatusCode::OK, told.to_string()))
}

/// Parses the body as `T`; the body must be an object.
fn object<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    parse(body).map(|Object(body)| body)
}

async fn company(core: &Core, new: NewCompany) -> Result<Value, Refusal> {
    if new.name.trim().is_empty() {
        return Err(Refusal::bad_request("Name must not be empty."));
    }
    let company = company::Company {
        name: &new.name,
        is_subscribed: new.subscribed,
        application_id: new.application_id.as_deref().filter(|id| !id.is_empty()),
        multi_warehousing: new.multi_warehousing,
    };
    let mut database = core.database().await;
    let (company_id, integration_key) = company::add_company(&mut database, &company).await?;
    core.accounts.reload(&mut database).await?;
    Ok(json!({ "CompanyId": company_id, "IntegrationKey": integration_key }))
}

async fn order(core: &Core, new: NewOrder) -> Result<Value, Refusal> {
    let company_id = company_of(core, new.integration_key.as_deref())?;
    Ok(json!({ "OrderId": core.order_placed(company_id, &new.lines).await? }))
}

async fn sale(core: &Core, new: NewSale) -> Result<Value, Refusal> {
    let company_id = company_of(core, new.integration_key.as_deref())?;
    let Whole(warehouse_id) = new.warehouse_id;
    let left = core.sold(company_id, &new.line, warehouse_id).await?;
    Ok(json!({ "Sku": new.line.sku, "WarehouseId": warehouse_id, "QuantityOnHand": left }))
}

async fn kit(core: &Core, new: NewKit) -> Result<Value, Refusal> {
    let company_id = company_of(core, new.integration_key.as_deref())?;
    Ok(json!({ "ProductId": core.kit_created(company_id, &new.kit).await? }))
}

/// Adds a fault or an array of faults.
fn faults(core: &Core, body: &Bytes) -> Result<Value, Refusal> {
    let posted: Value = parse(body)?;
    let posted = if posted.is_array() { posted } else { json!([posted]) };
    let faults: Vec<Fault> = serde_json::from_value(posted)
        .map_err(|cause| Refusal::bad_request(format!("The request body is not valid: {cause}.")))?;
    core.faults.add(faults)?;
    Ok(json!(core.faults.list()))
}

fn clock(core: &Core, advance: &Advance) -> Result<Value, Refusal> {
    let Whole(seconds) = advance.advance_seconds;
    let forward = u64::try_from(seconds).ok().filter(|_| seconds <= ADVANCE_SECONDS_MAX);
    let forward = forward.ok_or_else(|| {
        Refusal::bad_request(format!(
            "AdvanceSeconds must be between 0 and {ADVANCE_SECONDS_MAX}, not {seconds}."
        ))
    })?;
    core.clock.advance(Duration::from_secs(forward));
    Ok(json!({ "Now": rfc3339(core.clock.now_ms()) }))
}

fn calls(core: &Core) -> Value {
    let calls = core.calls();
    let calls = calls.iter().map(|call| {
        json!({
            "Operation": call.operation,
            "Status": call.status,
            "StartedAt": rfc3339(call.started_at_ms),
            "DurationMs": call.duration_ms,
            "ArrivedAtMs": call.started_at_ms,
        })
    });
    calls.collect()
}

/// Returns the company of a key; `None` means the default company.
fn company_of(core: &Core, integration_key: Option<&str>) -> Result<i64, Refusal> {
    let key = integration_key.unwrap_or(core.integration_key());
    let account = core.accounts.of_key(key);
    account
        .map(|account| account.id)
        .ok_or_else(|| Refusal::bad_request("No company has this IntegrationKey."))
}
