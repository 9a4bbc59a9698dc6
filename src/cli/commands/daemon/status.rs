//! `status`: the health of the daemon by `health::health`; exit 3 if something needs a person.

use super::call_budget::Spent;
use crate::cli::context::Place;
use crate::cli::output::{Table, age, dash, json, plain};
use crate::cli::{Answer, Failure, Reading};
use crate::config::Config;
use crate::daemon;
use crate::health;
use crate::health::{DaemonState, Finding, Health, Look};
use crate::model::{Clock, Timestamp};
use crate::store::{FileId, Holder, Lock, SnapshotRow, StateCount};
use serde_json::json as value;
use std::io::IsTerminal;

/// The arguments of `status`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Show the jobs and the calls of the last hour also when all is well
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    reading: Reading,
}

/// The data of `status`.
struct Status {
    health: Health,
    spent: Spent,
    counts: StateCount,
    snapshot: Option<SnapshotRow>,
}

impl Status {
    /// Reads all data; only the finding if a daemon works on a database that no longer exists at its path.
    async fn read(place: &Place) -> Result<Result<Self, Finding>, Failure> {
        let config = place.config()?;
        let look = look(place, &config)?;
        let store = match place.store().await {
            Err(_) if look.daemon == DaemonState::Elsewhere && !config.database.path.exists() => {
                return Ok(Err(health::replaced()));
            }
            store => store?,
        };
        let health = health::health(&store, &look).await?;
        Ok(Ok(Self {
            spent: Spent::read(&config, &store, (&health, look.now)).await?,
            counts: store.state_count().await?,
            snapshot: store.snapshot_last().await?,
            health,
        }))
    }

    fn text(&self, is_whole: bool) -> String {
        let troubles = troubles(&self.health.findings);
        let mut text = match &troubles[..] {
            [] => "all is well\n".to_owned(),
            all => all.iter().map(|trouble| format!("{}\n", plain(trouble))).collect(),
        };
        let counts = &self.counts;
        text.push_str(&format!(
            "\nmirror  {} SKU(s), {} cell(s), {} order(s) followed; {} SKU(s) missing, {} record(s) parked\n\
             ",
            counts.skus, counts.cells, counts.orders, counts.missing_skus, counts.parked
        ));
        text.push_str(&self.spent.text(std::io::stdout().is_terminal()));
        let states: Vec<String> =
            self.health.rows.wishes.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let states = if states.is_empty() { "empty".into() } else { states.join(", ") };
        text.push_str(&format!("outbox  {states}\n"));
        if self.snapshot.is_some_and(|snapshot| snapshot.by_size) {
            text.push_str("journal bodies went before their time: journal.max_size is reached\n");
        }
        if is_whole {
            text.push_str(&self.tables());
        }
        text
    }

    /// Returns the tables of jobs and of the calls in the last hour.
    fn tables(&self) -> String {
        let mut text = "\n".to_owned();
        let mut table = Table::new(&["job", "last good run", "age", "next due", "last outcome"]);
        for row in &self.health.rows.jobs {
            let cells = [
                row.job.clone(),
                dash(row.last_good_at.as_ref()),
                dash(row.age_seconds.map(age)),
                dash(row.next_due_at.as_ref()),
                dash(row.last_outcome.as_ref()),
            ];
            table.row(cells);
        }
        text.push_str(&table.render("no job is enabled, or the daemon never ran"));
        text.push('\n');
        text.push_str(&self.spent.table());
        text
    }
}

fn journal(snapshot: SnapshotRow) -> serde_json::Value {
    value!({
        "snapshot_at": Timestamp(snapshot.taken_ms).rfc3339(), "snapshot_position": snapshot.position,
        "pruned_to": snapshot.pruned_to, "pruned_by_size": snapshot.by_size,
    })
}

/// Returns the findings that need a person, each with the next step.
fn troubles(findings: &[Finding]) -> Vec<String> {
    findings.iter().filter(|finding| finding.needs_a_person()).map(Finding::sentence).collect()
}

/// Returns the inputs of the health check beside the database: the lock, the account's limits and the time.
fn look(place: &Place, config: &Config) -> Result<Look, Failure> {
    let path = &config.database.path;
    let at_path = FileId::of(path).ok().flatten().map(|id| id.to_string());
    let daemon = match Lock::look(path)? {
        Holder::Nobody => DaemonState::Gone,
        Holder::Somebody { opened: Some(opened) } if Some(&opened) != at_path.as_ref() => {
            DaemonState::Elsewhere
        }
        Holder::Somebody { .. } => DaemonState::Works,
    };
    let clock = place.clock();
    let (now, moment) = (clock.now(), clock.moment());
    Ok(Look { daemon, limits: daemon::limits(config), boot_id: daemon::boot_id(&clock), now, moment })
}

pub(in crate::cli) async fn status(place: &Place, args: Args) -> Result<Answer, Failure> {
    let status = match Status::read(place).await? {
        Ok(status) => status,
        Err(found) if args.reading.json => {
            let all = value!({"well": false, "troubles": [found.sentence()], "findings": [found]});
            return Ok(Answer { text: json(&all), code: 3 });
        }
        Err(found) => return Ok(Answer { text: format!("{}\n", found.sentence()), code: 3 }),
    };
    let code = if status.health.is_well() { 0 } else { 3 };
    if !args.reading.json {
        return Ok(Answer { text: status.text(args.all || code != 0), code });
    }
    let Health { findings, rows, .. } = &status.health;
    let wishes: serde_json::Map<String, serde_json::Value> =
        rows.wishes.iter().map(|(state, count)| (state.clone(), (*count).into())).collect();
    let all = value!({
        "well": code == 0, "troubles": troubles(findings), "findings": findings, "jobs": rows.jobs, "outbox": wishes,
        "mirror": status.counts, "journal": status.snapshot.map(journal),
        "budget": status.spent.json(),
    });
    Ok(Answer { text: json(&all), code })
}
