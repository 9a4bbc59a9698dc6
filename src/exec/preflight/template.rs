//! `listing_template.create`, with a preflight by name among the storefront's templates.
//!
//! The platform's filter is a *contains*. It only shortens the list; names are compared as a whole.

use super::{Looker, Seen, templates};
use crate::client::wire::ListingTemplate;
use crate::exec::JobError;
use crate::outbox::ListingTemplateCreate;
use crate::reconcile::create::{Found, fold};

pub(super) fn subject(wish: &ListingTemplateCreate) -> String {
    format!("template {} {}", wish.storefront_id, fold(&wish.name))
}

pub(super) async fn look(
    wish: &ListingTemplateCreate,
    looker: Looker<'_>,
) -> Result<Seen<Vec<Found>>, JobError> {
    Ok(compare(wish, templates(looker, wish.storefront_id, &wish.name).await?))
}

/// Reads all templates of the storefront.
pub(super) async fn look_at_all(
    wish: &ListingTemplateCreate,
    looker: Looker<'_>,
) -> Result<Seen<Vec<Found>>, JobError> {
    Ok(compare(wish, templates(looker, wish.storefront_id, "").await?))
}

fn compare(wish: &ListingTemplateCreate, seen: Seen<Vec<ListingTemplate>>) -> Seen<Vec<Found>> {
    let found = seen.what.iter().map(|template| compared(wish, template)).collect();
    seen.with(found)
}

fn compared(wish: &ListingTemplateCreate, there: &ListingTemplate) -> Found {
    let name = there.name.clone().unwrap_or_default();
    let body = wish.fields.get("Body").and_then(|body| body.as_str());
    let equal = name == wish.name && there.body.as_deref() == body;
    Found { id: there.id, name, equal }
}
