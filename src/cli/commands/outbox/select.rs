//! Selection of changes on the command line: by key, by id, by the first characters of a key, or by a filter.

use crate::cli::CommandFailure;
use crate::cli::code_parser::code_parser;
use crate::cli::context::CliContext;
use crate::config::parse_duration;
use crate::outbox::{ChangeKind, ChangeState, Reason, quote_key};
use crate::present::tracked::parse_sku;
use crate::store::{NamedChange, OutboxFilter, Store};
use clap::Args;
use std::time::Duration;

/// Filters of a list of changes. A change must match each of them.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub(super) struct OutboxFilterArgs {
    /// Only changes of this kind
    #[arg(long, hide_possible_values = true, value_parser = code_parser(ChangeKind::ALL, ChangeKind::as_str))]
    kind: Option<ChangeKind>,
    /// Only changes with this reason, as the list prints it
    #[arg(long, hide_possible_values = true, value_parser = code_parser(Reason::ALL, Reason::as_str))]
    reason: Option<Reason>,
    /// Only quantities of this SKU, in any spelling that the mirror knows
    #[arg(long)]
    sku: Option<String>,
    /// Only changes whose key begins so
    #[arg(long, value_name = "TEXT")]
    key_prefix: Option<String>,
    /// Only changes inserted at least this long ago, such as 2h or 7d
    #[arg(long, value_name = "AGE", value_parser = parse_duration)]
    older_than: Option<Duration>,
    /// Only changes inserted at most this long ago
    #[arg(long, value_name = "AGE", value_parser = parse_duration)]
    newer_than: Option<Duration>,
}

impl OutboxFilterArgs {
    /// Returns the filter, for changes in these states; empty: in any.
    pub(super) async fn filter(
        &self,
        context: &CliContext,
        store: &Store,
        states: &[ChangeState],
    ) -> Result<OutboxFilter, CommandFailure> {
        let now = context.now();
        Ok(OutboxFilter {
            states: states.to_vec(),
            kind: self.kind.map(|kind| kind.to_string()),
            reason: self.reason.map(|reason| reason.to_string()),
            skus: match &self.sku {
                Some(sku) => spellings(store, sku).await?,
                None => Vec::new(),
            },
            key_prefix: self.key_prefix.clone(),
            inserted_from: self.newer_than.map(|age| now.minus(age)),
            inserted_to: self.older_than.map(|age| now.minus(age)),
            ..OutboxFilter::default()
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns this spelling of a SKU and those of the mirror with its case key.
async fn spellings(store: &Store, name: &str) -> Result<Vec<String>, CommandFailure> {
    let known = store.explain_skus(&parse_sku(name)?.case_key()).await?;
    Ok(std::iter::once(name.to_owned()).chain(known.into_iter().map(|row| row.sku)).collect())
}

/// Returns the key of the change that an operator names, or the reason that the name stands for none.
pub(super) async fn find_key(store: &Store, name: &str) -> Result<Result<String, String>, CommandFailure> {
    Ok(match store.outbox_find_named(name).await? {
        NamedChange::Found(key) => Ok(key),
        NamedChange::Unknown => Err("there is no change with this key or id, and no key begins so".into()),
        NamedChange::Ambiguous(keys) => {
            let keys: Vec<String> = keys.iter().map(|key| quote_key(key)).collect();
            Err(format!("several changes may be meant; write more of the key: {}", keys.join(", ")))
        }
    })
}

pub(super) async fn require_key(store: &Store, name: &str) -> Result<String, CommandFailure> {
    find_key(store, name).await?.map_err(|why| CommandFailure::failed(format!("{name}: {why}")))
}
