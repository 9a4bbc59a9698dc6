//! `listing_template.create`, with a preflight by name among the storefront's templates.
//!
//! The platform's filter is a *contains*. It only shortens the list; names are compared as a whole.

use super::{ReadOrigin, TimedRead, read_templates};
use crate::client::wire::ListingTemplate;
use crate::exec::JobError;
use crate::outbox::ListingTemplateCreate;
use crate::reconcile::creates::FoundRecord;

/// Reads the storefront's templates whose name contains `name`, and compares each with the change.
pub(super) async fn preflight_templates(
    change: &ListingTemplateCreate,
    name: &str,
    origin: ReadOrigin<'_>,
) -> Result<TimedRead<Vec<FoundRecord>>, JobError> {
    let seen = read_templates(origin, change.storefront_id, name).await?;
    Ok(seen.map(|found| found.iter().map(|template| compare_template(change, template)).collect()))
}

fn compare_template(change: &ListingTemplateCreate, there: &ListingTemplate) -> FoundRecord {
    let name = there.name.clone().unwrap_or_default();
    let body = change.fields.get("Body").and_then(|body| body.as_str());
    let equal = name == change.name && there.body.as_deref() == body;
    FoundRecord { id: there.id, name, equal }
}
