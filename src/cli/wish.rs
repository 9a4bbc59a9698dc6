//! Wishes of the command line: validated as the daemon would, then put into the outbox.

use super::place::Place;
use super::{Answer, Failure, csv};
use crate::outbox;
use crate::store::Durability;
use clap::Args;
use serde_json::Value;

/// The wish's name.
#[derive(Debug, Args)]
pub(super) struct Key {
    /// Your own name for the wish: the same key again changes nothing [default: a new one]
    #[arg(long)]
    key: Option<String>,
}

/// A wish to be inserted.
pub(super) struct Wish {
    key: String,
    kind: &'static str,
    body: Value,
    priority: i64,
}

impl Wish {
    /// One that an operator typed: it goes before all bulk.
    pub(super) fn single(place: &Place, kind: &'static str, body: Value, key: Key) -> Self {
        Self { key: key.key.unwrap_or_else(|| place.new_key()), kind, body, priority: 1 }
    }

    /// One line of a file. Its own key, or one that follows from the file's name and the line's content, so that the
    /// same file imported again changes nothing.
    pub(super) fn imported(line: &csv::Line, kind: &'static str, body: Value) -> Result<Self, String> {
        outbox::parse(kind, &body.to_string()).map_err(|rejection| rejection.detail)?;
        let key = line.get("key").map_or_else(|| line.key.clone(), str::to_owned);
        Ok(Self { key, kind, body, priority: 0 })
    }
}

/// Puts wishes into the outbox, all or none; `problems` are lines that were left out.
pub(super) async fn insert(place: &Place, wishes: &[Wish], problems: &[String]) -> Result<Answer, Failure> {
    for wish in wishes {
        outbox::parse(wish.kind, &wish.body.to_string()).map_err(|why| Failure::usage(why.detail))?;
    }
    let store = place.store_or_new().await?;
    let mut write = store.begin(Durability::Full).await?;
    let mut new = 0;
    for wish in wishes {
        let body = wish.body.to_string();
        new += u64::from(write.outbox_insert(&wish.key, wish.kind, &body, wish.priority).await?);
    }
    write.commit().await?;
    let known = wishes.len() as u64 - new;
    let mut text = match wishes {
        [only] if new == 1 => format!("wish {} stands in the outbox\n", only.key),
        _ => format!("{new} wish(es) stand in the outbox, {known} were known by their keys\n"),
    };
    for problem in problems {
        text.push_str(&format!("left out: {problem}\n"));
    }
    Ok(text.into())
}
