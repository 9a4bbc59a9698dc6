//! `check`: validates the configuration, prints it, and compares the schedules with the quota.

use super::schedules::describe_schedules;
use crate::cli::context::CliContext;
use crate::cli::output::{self, table_text};
use crate::cli::{CommandFailure, CommandOutput, CommandResult};
use crate::config::{Config, KeyError};
use crate::daemon::ControlRequest;
use crate::exec::KeyStatus;
use crate::present::call_demand::{CallDemand, allotment_columns};
use crate::reconcile::proof::KeyState;
use crate::store::{ServerReport, Store, StoreError};

pub(in crate::cli) async fn check_command(context: &CliContext, is_online: bool) -> CommandResult {
    let file = context.config_file()?;
    let config = context.config()?;
    let mut text = [
        settings_text(&config),
        describe_schedules(&config, context.now()),
        call_demand_text(&config, context).await?,
    ]
    .join("\n");
    let keys = config.service.keys.read_keys();
    let mut code = 0;
    if let Some(warning) = config.database.password_warning() {
        text.push_str(&format!("warning: {warning}\n"));
    }
    match &keys {
        Ok(keys) => keys.warnings.iter().for_each(|warning| text.push_str(&format!("warning: {warning}\n"))),
        Err(error) => {
            code = if error.is_denied() { 1 } else { 2 };
            text.push_str(&format!("keys: {}\n", output::plain_words(&error.to_string())));
        }
    }
    // A running daemon has the keys that this user may not read.
    if is_online && keys.as_ref().map_or_else(KeyError::is_denied, |_| true) {
        let base_url = &config.service.base_url;
        let KeyStatus { key, why } = context.ask_daemon(&ControlRequest::Keys {}).await??;
        code = u8::from(key != KeyState::Works);
        text.push_str(&match key {
            KeyState::Works => "keys: the platform accepts them\n".to_owned(),
            KeyState::Refused => format!("keys: the platform refuses them: {why}\n"),
            KeyState::NotKnown => format!(
                "keys: not known, because the answer is not that of the platform's work queue: {why}\n      \
                 check the network, service.base_url ({base_url}), and service.proxy and service.ca_file if they are set, \
                 then run the check again\n"
            ),
        });
    }
    let verdict = match code {
        0 => "is valid",
        2 => "is NOT valid: correct the keys",
        _ => "is valid, but its keys are not confirmed",
    };
    text.push_str(&format!("\n{} {verdict}\n", file.display()));
    Ok(CommandOutput { text, exit_code: code })
}

fn settings_text(config: &Config) -> String {
    let limits = &config.limits;
    let notifiers: Vec<&str> = config.notifiers.iter().map(|notifier| notifier.name.as_str()).collect();
    let notifiers = if notifiers.is_empty() { "nobody".to_owned() } else { notifiers.join(", ") };
    format!(
        "platform  {}\ndatabase  {}\nquota     {} of {} calls a minute, {} of them reserved for the operator; \
         at most {} concurrent calls of an operation\npolicy    {}\n\
         notify    {notifiers}\n",
        config.service.base_url,
        config.database.to_text(),
        limits.own_limit(),
        limits.calls_per_minute,
        limits.reserved_calls,
        limits.concurrent_calls_per_operation,
        config.quantities.policy.as_str(),
    )
}

async fn call_demand_text(config: &Config, context: &CliContext) -> Result<String, CommandFailure> {
    let location = config.database.location()?;
    let mut text = String::new();
    if let Some(report) = location.check_server(&context.clock()).await? {
        let ServerReport { version, role, clock_warning, is_notifying } = report;
        let noticed = match is_notifying {
            true => "at once, by its notification",
            false => "within 250 ms, because no notification arrives",
        };
        text.push_str(&format!(
            "server    PostgreSQL {version}, as role {role}; a change of another program is noticed {noticed}\n"
        ));
        text.extend(clock_warning.map(|warning| format!("warning: {warning}\n")));
    }
    if location.is_missing_file() {
        return Ok("calls     no database yet: nothing is tracked\n".into());
    }
    let store = match Store::open_beside(&location).await {
        Err(StoreError::Missing { .. }) => {
            return Ok(text + "calls     no schema yet: nothing is tracked\n");
        }
        store => store?,
    };
    store.refuse_moved().await?;
    if store.is_locked().await? {
        text.push_str(
            "warning: another program holds a write transaction open on the database; the daemon cannot start or write \
             until that transaction ends\n",
        );
    }
    let demand = CallDemand::load(config, &store, context.now()).await?;
    let rows = demand.rows.iter().map(allotment_columns);
    text.push_str(&table_text(rows, "nothing is tracked yet, so no job reads anything"));
    text.push_str(&format!("\ncalls     {}\n", demand.sentence()));
    text.extend(demand.warning().map(|warning| format!("warning: {warning}\n")));
    Ok(text)
}
