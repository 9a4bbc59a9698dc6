//! `status`: the first line says well or what is wrong; exit 3 when something is stale or stuck.

use super::budget::Spent;
use super::place::Place;
use super::print::{Table, age, dash, json};
use super::{Answer, Failure, Reading};
use crate::model::Timestamp;
use crate::store::{HealthRow, MismatchRow, SnapshotRow, StateCount};
use serde_json::json as value;
use std::io::IsTerminal;

/// Everything `status` knows.
struct Status {
    health: Vec<HealthRow>,
    wishes: Vec<(String, i64)>,
    spent: Spent,
    counts: StateCount,
    is_refused: bool,
    mismatches: Vec<MismatchRow>,
    snapshot: Option<SnapshotRow>,
}

impl Status {
    async fn read(place: &Place) -> Result<Self, Failure> {
        let config = place.config()?;
        let store = place.store().await?;
        Ok(Self {
            health: store.job_health().await?,
            wishes: store.outbox_counts().await?,
            spent: Spent::read(place, &config, &store).await?,
            counts: store.state_count().await?,
            is_refused: store.key_is_refused().await?,
            mismatches: store.mismatch_list().await?,
            snapshot: store.snapshot_last().await?,
        })
    }

    fn wishes_in(&self, state: &str) -> i64 {
        self.wishes.iter().find(|(name, _)| name == state).map_or(0, |(_, count)| *count)
    }

    /// What is wrong, each with what to do; nothing if all is well.
    fn troubles(&self) -> Vec<String> {
        let stale = self.health.iter().filter(|row| row.stale).map(|row| {
            let how_old = row.age_seconds.map_or_else(|| "never read".into(), |s| format!("{} old", age(s)));
            format!("{} is stale ({how_old}); see: tallyd job list --kind {}", row.job, row.job)
        });
        let held = Some(self.wishes_in("held")).filter(|count| *count > 0);
        let held =
            held.map(|count| format!("{count} wish(es) are held; see: tallyd outbox list --state held"));
        let doubt = Some(self.wishes_in("in_doubt")).filter(|count| *count > 0);
        let doubt = doubt
            .map(|count| format!("{count} wish(es) are in doubt; see: tallyd outbox list --state in_doubt"));
        let refused = self.is_refused.then(|| {
            "the service refuses the key; put the right one into its file, it is read again by itself"
                .to_owned()
        });
        let unshown = self.mismatches.first().map(|first| {
            let MismatchRow { sku, warehouse_id, written, shown } = first;
            let (all, shown) = (self.mismatches.len(), dash(*shown));
            format!(
                "{all} written quantities do not show at the service, {sku} in warehouse {warehouse_id} for one: \
                 {written} was accepted, {shown} is shown; look there, then: tallyd quantity set"
            )
        });
        refused
            .into_iter()
            .chain(self.spent.troubles())
            .chain(stale)
            .chain(held)
            .chain(doubt)
            .chain(unshown)
            .collect()
    }

    fn text(&self, troubles: &[String]) -> String {
        let mut text = match troubles {
            [] => "all is well\n".to_owned(),
            [first, ..] => format!("{first}\n"),
        };
        for trouble in troubles.iter().skip(1) {
            text.push_str(&format!("{trouble}\n"));
        }
        let counts = &self.counts;
        text.push_str(&format!(
            "\nmirror  {} SKU(s), {} cell(s), {} order(s) followed; {} SKU(s) missing, {} record(s) parked\n\
             ",
            counts.skus, counts.cells, counts.orders, counts.missing_skus, counts.parked
        ));
        text.push_str(&self.spent.text(std::io::stdout().is_terminal()));
        let states: Vec<String> =
            self.wishes.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let states = if states.is_empty() { "empty".into() } else { states.join(", ") };
        text.push_str(&format!("outbox  {states}\n"));
        if self.snapshot.is_some_and(|snapshot| snapshot.by_size) {
            text.push_str("journal bodies went before their time: journal.max_size is reached\n");
        }
        text.push('\n');
        let mut table = Table::new(&["job", "last good run", "age", "next due", "last outcome"]);
        for row in &self.health {
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

pub(super) async fn status(place: &Place, reading: Reading) -> Result<Answer, Failure> {
    let status = Status::read(place).await?;
    let troubles = status.troubles();
    let code = if troubles.is_empty() { 0 } else { 3 };
    if !reading.json {
        return Ok(Answer { text: status.text(&troubles), code });
    }
    let wishes: serde_json::Map<String, serde_json::Value> =
        status.wishes.iter().map(|(state, count)| (state.clone(), (*count).into())).collect();
    let all = value!({
        "well": troubles.is_empty(), "troubles": troubles, "jobs": status.health, "outbox": wishes,
        "mirror": status.counts, "journal": status.snapshot.map(journal),
        "budget": status.spent.json(),
    });
    Ok(Answer { text: json(&all), code })
}
