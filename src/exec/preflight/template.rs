//! `listing_template.create`, with a preflight by name among the storefront's templates.
//!
//! The platform's filter is a *contains*. It only shortens the list; names are compared as a whole.

use super::{ReadOrigin, TimedRead, read_templates};
use crate::client::wire::ListingTemplate;
use crate::exec::JobError;
use crate::model::case_key;
use crate::outbox::ListingTemplateCreate;
use crate::reconcile::creates::FoundRecord;

pub(super) fn template_key(change: &ListingTemplateCreate) -> String {
    format!("template {} {}", change.storefront_id, case_key(&change.name))
}

pub(super) async fn preflight_template(
    change: &ListingTemplateCreate,
    origin: ReadOrigin<'_>,
) -> Result<TimedRead<Vec<FoundRecord>>, JobError> {
    Ok(compare_templates(change, read_templates(origin, change.storefront_id, &change.name).await?))
}

/// Reads all templates of the storefront.
pub(super) async fn preflight_all_templates(
    change: &ListingTemplateCreate,
    origin: ReadOrigin<'_>,
) -> Result<TimedRead<Vec<FoundRecord>>, JobError> {
    Ok(compare_templates(change, read_templates(origin, change.storefront_id, "").await?))
}

fn compare_templates(
    change: &ListingTemplateCreate,
    seen: TimedRead<Vec<ListingTemplate>>,
) -> TimedRead<Vec<FoundRecord>> {
    let found = seen.records.iter().map(|template| compare_template(change, template)).collect();
    seen.with_records(found)
}

fn compare_template(change: &ListingTemplateCreate, there: &ListingTemplate) -> FoundRecord {
    let name = there.name.clone().unwrap_or_default();
    let body = change.fields.get("Body").and_then(|body| body.as_str());
    let equal = name == change.name && there.body.as_deref() == body;
    FoundRecord { id: there.id, name, equal }
}
