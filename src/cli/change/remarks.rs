//! Changes of stock that the platform refuses or may ignore: of kits, and in warehouses that are switched off.

use super::CliChange;
use crate::model::Sku;
use crate::outbox::ChangeBody;
use crate::store::{Store, StoreError};
use std::collections::BTreeMap;

/// The number of kits that a note names.
const NAMED_MAX: usize = 10;

/// Removes changes of kits, whose quantity follows from that of their components; returns a note that names them.
///
/// A file of the full stock holds kits every day, and each would be rejected every day.
pub(super) async fn leave_out_kits(
    store: &Store,
    changes: &mut Vec<CliChange>,
) -> Result<Option<String>, StoreError> {
    let sku = |change: &CliChange| change.parsed_body().ok()?.stock_level().map(|level| level.sku.clone());
    let named: Vec<Option<Sku>> = changes.iter().map(sku).collect();
    let kits = store.kit_keys(&named.iter().flatten().collect::<Vec<_>>()).await?;
    let mut lines = Vec::new();
    let mut skus = named.into_iter();
    changes.retain(|change| match skus.next().flatten() {
        Some(sku) if kits.contains(&sku.case_key()) => {
            lines.push(format!("line {} ({sku})", change.line_number.unwrap_or(0)));
            false
        }
        _ => true,
    });
    Ok((!lines.is_empty()).then(|| {
        let more = lines.len().saturating_sub(NAMED_MAX);
        let named = lines[..lines.len() - more].join(", ");
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!(
            "left out, because the quantity of a kit follows from that of its components: {named}{rest}. Count the \
             components (`tallyd product components`), and take the kits out of the file"
        )
    }))
}

/// Returns the sentence for a typed change of a kit.
pub(super) async fn kit_problem(store: &Store, change: &ChangeBody) -> Result<Option<String>, StoreError> {
    let Some(level) = change.stock_level() else { return Ok(None) };
    let kits = store.kit_keys(&[&level.sku]).await?;
    Ok((!kits.is_empty()).then(|| {
        format!("{} is a kit, and its quantity follows from that of its components: change those", level.sku)
    }))
}

/// Returns a warning for each warehouse that is switched off at the platform and named in a change.
pub(super) async fn inactive_warehouses(
    store: &Store,
    changes: &[ChangeBody],
) -> Result<Vec<String>, StoreError> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    for level in changes.iter().filter_map(ChangeBody::stock_level) {
        *counts.entry(level.warehouse_id.0).or_default() += 1;
    }
    let rows = store.warehouse_list().await?.into_iter().filter(|row| row.is_active == Some(false));
    let warning = |(id, name): (i64, String)| {
        counts.get(&id).map(|count| {
            let changes =
                if *count == 1 { "a change names".to_owned() } else { format!("{count} changes name") };
            format!("warning: {changes} warehouse {id} ({name}), which is switched off at the platform")
        })
    };
    Ok(rows.map(|row| (row.id, row.name)).filter_map(warning).collect())
}
