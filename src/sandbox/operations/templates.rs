//! Listing templates: *Create listing template* and *List listing templates* in docs/interface.md.

use serde::Deserialize;
use serde_json::json;
use sqlx::SqliteConnection;

use crate::sandbox::http::answer::{HandlerResult, SandboxRefusal};
use crate::sandbox::http::paging::{SandboxPage, page_of};
use crate::sandbox::http::request::{OperationCall, non_blank, text_of_id};
use crate::sandbox::store::values;

const TEMPLATES: &str =
    page_of!("wire_listing_template WHERE storefront_id = ?1 AND instr(folded_name, ?4) > 0" order by "id");

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TemplateBody {
    name: Option<String>,
    body: Option<String>,
}

/// Absent fields give a message inside a 200. Two templates may have one name.
pub(super) async fn create_template(call: &OperationCall, db: &mut SqliteConnection) -> HandlerResult {
    let storefront_id = own_storefront(call, db).await?;
    let template: TemplateBody = call.object_body()?;
    let (Some(name), Some(body)) = (non_blank(&template.name), non_blank(&template.body)) else {
        let fields = [("Name", &template.name), ("Body", &template.body)];
        let missing = fields.into_iter().filter(|(_, value)| non_blank(value).is_none());
        let messages: Vec<String> = missing.map(|(field, _)| format!("{field} is required.")).collect();
        let refused = json!({ "ListingTemplate": null, "WasSuccessful": false, "Messages": messages });
        return Ok(refused.to_string());
    };
    let insert = "INSERT INTO listing_template (storefront_id, name, folded_name, body)
                  VALUES (?1, ?2, ?3, ?4) RETURNING id";
    let template = values!(storefront_id, name, name.to_lowercase(), body);
    let template_id: i64 = sqlx::query_scalar_with(insert, template).fetch_one(&mut *db).await?;
    let created = text_of_id(db, "SELECT body FROM wire_listing_template WHERE id = ?1", template_id).await?;
    Ok(format!(r#"{{"ListingTemplate":{created},"WasSuccessful":true,"Messages":[]}}"#))
}

/// Answers *List listing templates*, filtered by `name` (contains, without case).
pub(super) async fn list_templates(call: &OperationCall, db: &mut SqliteConnection) -> HandlerResult {
    let storefront_id = own_storefront(call, db).await?;
    let query = call.query_parameters()?;
    let page = SandboxPage::from_query(&query)?;
    let part = query.get("name").map(|name| name.to_lowercase()).unwrap_or_default();
    let (total, templates) = page.records_of(TEMPLATES, storefront_id).bind(part).fetch_one(db).await?;
    Ok(page.page_envelope(&[], total, &templates))
}

async fn own_storefront(call: &OperationCall, db: &mut SqliteConnection) -> Result<i64, SandboxRefusal> {
    let storefront_id = call.path_id(0);
    let name = "SELECT name FROM storefront WHERE company_id = ?1 AND id = ?2";
    match call.own_text(db, name, storefront_id).await? {
        Some(_) => Ok(storefront_id),
        None => Err(SandboxRefusal::forbidden("Invalid StorefrontId: it is not valid for the company.")),
    }
}
