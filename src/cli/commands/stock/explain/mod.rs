//! `explain`: the history of a quantity, step by step in the journal's order, from stored data.
//!
//! It only reads, with or without a running daemon. It cannot show a claim that was undone (throttled, not
//! sent), because only its exchange is stored; `job show` prints that exchange.

mod history;

use self::history::{Step, Story};
use crate::cli::context::Place;
use crate::cli::output::{json, plain};
use crate::cli::{Answer, Failure, Reading};
use crate::daemon::preview;
use crate::model::{Sku, Timestamp, WishId};
use crate::outbox::Reason;
use crate::push::Preview;
use crate::store::{CellNow, KnownSku, Store, StoryWish};
use clap::Args;
use serde_json::{Value, json as value};

/// Why a quantity is what it is: which exchange, wish, merge or brake.
#[derive(Debug, Args)]
pub(in crate::cli) struct Explain {
    /// The SKU
    sku: String,
    /// The warehouse's id at the service [default: all of the SKU's]
    warehouse: Option<i64>,
    /// So many steps of each cell, the newest
    #[arg(long, value_name = "N", default_value_t = 40)]
    last: usize,
    #[command(flatten)]
    reading: Reading,
}

/// A SKU in the mirror and the outbox.
struct Subject {
    sku: String,
    product: Option<i64>,
    /// All spellings of the SKU in changes.
    spellings: Vec<String>,
    /// The reason that the product's quantities are not pushed.
    remark: Option<String>,
}

pub(in crate::cli) async fn explain(place: &Place, args: Explain) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let subject = subject(&store, &args.sku).await?;
    let mut cells = store.explain_cells(subject.product, &subject.spellings).await?;
    cells.retain(|cell| args.warehouse.is_none_or(|warehouse| cell.warehouse_id == warehouse));
    if cells.is_empty() {
        return Err(Failure::failed(nothing_known(&subject, args.warehouse)));
    }
    let plan = preview(&place.config()?, &store, &place.clock())
        .await
        .map_err(|error| Failure::failed(error.to_string()))?;
    let mut told = Vec::new();
    for cell in cells {
        let story = Story::read(&store, subject.product, &subject.spellings, &cell).await?;
        told.push(Told::of(cell, &story, &plan, args.last));
    }
    if args.reading.json {
        let cells: Vec<Value> = told.iter().map(Told::json).collect();
        let all = value!({"sku": subject.sku, "remark": subject.remark, "cells": cells});
        return Ok(json(&all).into());
    }
    let mut text: String =
        subject.remark.iter().map(|remark| format!("{}: {remark}\n\n", plain(&subject.sku))).collect();
    let cells: Vec<String> = told.iter().map(|told| told.text(&subject.sku)).collect();
    text.push_str(&cells.join("\n"));
    Ok(text.into())
}

/// Finds the SKU: the exact spelling, else the only SKU of the platform with this case key, as for a change
/// (docs/rules.md 12).
async fn subject(store: &Store, asked: &str) -> Result<Subject, Failure> {
    let sku = Sku::new(asked).map_err(|error| Failure::usage(format!("`{asked}`: {error}")))?;
    let known = store.explain_skus(&sku.fold()).await?;
    let exact = known.iter().find(|row| row.sku == asked);
    let at_service: Vec<&KnownSku> = known.iter().filter(|row| row.product_id.is_some()).collect();
    let meant = match (exact, at_service.as_slice()) {
        (Some(row), _) => known.iter().find(|other| other.id == row.meant).or(exact),
        (None, [only]) => Some(*only),
        (None, []) => known.first(),
        (None, several) => {
            let names: Vec<String> = several.iter().map(|row| format!("`{}`", row.sku)).collect();
            let names = names.join(", ");
            return Err(Failure::failed(format!(
                "`{asked}` may be {names}, which differ in case or blanks only; name one of them exactly"
            )));
        }
    };
    let mut spellings = vec![asked.to_owned()];
    let same = |row: &&KnownSku| meant.is_some_and(|meant| row.meant == meant.id);
    spellings.extend(known.iter().filter(same).map(|row| row.sku.clone()));
    Ok(Subject {
        sku: meant.map_or_else(|| asked.to_owned(), |row| row.sku.clone()),
        product: meant.map(|row| row.id),
        spellings,
        remark: meant.and_then(remark),
    })
}

fn remark(row: &KnownSku) -> Option<String> {
    match (row.missing_ms, row.kind.as_deref()) {
        (Some(since), _) => Some(format!("the service does not return it since {}", Timestamp(since))),
        (None, Some("Kit")) => Some("a kit: its quantity follows from its components".into()),
        (None, _) => None,
    }
}

fn nothing_known(subject: &Subject, warehouse: Option<i64>) -> String {
    let sku = &subject.sku;
    match (warehouse, subject.product, &subject.remark) {
        (Some(warehouse), Some(_), None) => {
            format!("nothing is known of {sku} in warehouse {warehouse}: see `tallyd stock {sku}`")
        }
        (_, _, Some(remark)) => format!("no quantity of {sku} is known: {remark}"),
        (_, _, None) => format!(
            "no quantity of {sku} is known and no wish names it: see `tallyd sku list`, or begin with \
             `tallyd sku add {sku}`"
        ),
    }
}

/// The history of one stock level, cut to its newest steps, with its current state.
struct Told {
    cell: CellNow,
    earlier: usize,
    steps: Vec<Step>,
    next: Vec<String>,
}

impl Told {
    fn of(cell: CellNow, story: &Story, plan: &Preview, last: usize) -> Self {
        let mut steps = story.steps();
        let earlier = steps.len().saturating_sub(last);
        let steps = steps.split_off(earlier);
        let next = story.open().map(|wish| format!("`{}` {}", wish.key, next(wish, plan)));
        Self { earlier, steps, next: next.collect(), cell }
    }

    fn json(&self) -> Value {
        let cell = &self.cell;
        let steps = self.steps.iter().map(|step| {
            value!({"position": step.position, "at": Timestamp(step.at_ms).rfc3339(), "what": step.what,
                    "text": step.text})
        });
        value!({
            "warehouse_id": cell.warehouse_id, "warehouse_name": cell.warehouse_name, "quantity": cell.quantity,
            "ours": cell.ours, "observed_at": cell.fact_ms.map(|ms| Timestamp(ms).rfc3339()),
            "exchange_id": cell.fact_exchange_id, "pending_quantity": cell.pending_quantity,
            "earlier_steps": self.earlier, "steps": steps.collect::<Vec<_>>(), "next": self.next,
        })
    }

    fn text(&self, sku: &str) -> String {
        let cell = &self.cell;
        let name = cell.warehouse_name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let mut text = format!("{} in warehouse {}{}\n", plain(sku), cell.warehouse_id, plain(&name));
        if self.earlier > 0 {
            text.push_str(&format!("  {} earlier steps\n", self.earlier));
        }
        for step in &self.steps {
            let position = step.position.map(|position| format!("#{position}")).unwrap_or_default();
            text.push_str(&format!("  {}  {position:<8}  {}\n", Timestamp(step.at_ms), plain(&step.text)));
        }
        text.push_str(&format!("  now: {}\n", now(cell)));
        if self.next.is_empty() {
            text.push_str("  next: nothing waits\n");
        }
        for next in &self.next {
            text.push_str(&format!("  next: {}\n", plain(next)));
        }
        text
    }
}

fn now(cell: &CellNow) -> String {
    let mut now = match (cell.quantity, cell.fact_ms, cell.fact_exchange_id) {
        (Some(quantity), Some(at), Some(exchange)) => {
            format!("{quantity}, by exchange {exchange} of {}", Timestamp(at))
        }
        (Some(quantity), _, _) => quantity.to_string(),
        (None, _, _) => "not known".into(),
    };
    if cell.vanished_ms.is_some() {
        now.push_str("; the service links the product to this warehouse no longer");
    }
    if let Some(writing) = cell.writing {
        now.push_str(&format!("; {writing} was sent and it is not known yet whether it was done"));
    }
    if let Some(pending) = cell.pending_quantity {
        now.push_str(&format!("; becomes {pending} once what is pending applies"));
    }
    now
}

/// Returns the next step of an open change.
fn next(wish: &StoryWish, plan: &Preview) -> String {
    let id = wish.id;
    match wish.state.as_str() {
        "held" if wish.reason.as_deref() == Some(Reason::NoFact.as_str()) => {
            "is looked at again by `settle`, and goes on once an answer shows the cell".into()
        }
        "held" => "waits for a person".into(),
        "in_doubt" => "is looked for at the service by `settle`".into(),
        "sending" => "is in a call".into(),
        _ => {
            let told = plan.without_call.iter().find(|(wish, _)| *wish == WishId(id));
            let is_read = plan.requests.first().is_some_and(|first| first.wishes.contains(&WishId(id)));
            match told {
                Some((_, how)) => format!("is decided without a call: {how}"),
                None if is_read && !plan.reads.is_empty() => {
                    "goes with the next push, after a fresh read".into()
                }
                None => "goes with the next push: see `tallyd plan`".into(),
            }
        }
    }
}
