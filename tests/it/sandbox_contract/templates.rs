//! "Create listing template", "List listing templates".

use serde_json::{Value, json};

use super::support::{Shop, assert_fields};

async fn path(shop: &Shop) -> String {
    let storefronts = shop.get("/api/storefronts").await.data();
    format!("/api/storefronts/{}/listingTemplates", storefronts[0]["Id"])
}

#[tokio::test]
async fn a_template_is_created_and_listed() {
    let shop = Shop::open().await;
    let path = path(&shop).await;
    let answer = shop.post(&path, &json!({ "Name": "Äpfel & Birnen", "Body": "<b>%_'</b>" })).await.ok();
    assert_fields(&answer, &["ListingTemplate", "WasSuccessful", "Messages"]);
    assert_eq!(answer["WasSuccessful"], true);
    let template = &answer["ListingTemplate"];
    assert_fields(template, &["Id", "StorefrontId", "Name", "Body"]);
    assert_eq!((&template["Name"], &template["Body"]), (&json!("Äpfel & Birnen"), &json!("<b>%_'</b>")));
    assert!(shop.get(&path).await.data().as_array().expect("templates").contains(template));
}

#[tokio::test]
async fn names_are_filtered_by_what_they_contain_without_regard_to_case() {
    let shop = Shop::open().await;
    let path = path(&shop).await;
    for name in ["Äpfel", "100% Wool", "Summer"] {
        shop.post(&path, &json!({ "Name": name, "Body": "b" })).await.ok();
    }
    for (filter, found) in [
        ("%C3%84PF", vec!["Äpfel"]),
        ("%25", vec!["100% Wool"]),
        ("_", vec![]),
        ("summ", vec!["Summer"]),
        ("pl", vec!["Plain"]),
    ] {
        let templates = shop.get(&format!("{path}?name={filter}")).await.data();
        let names: Vec<&str> = templates
            .as_array()
            .expect("templates")
            .iter()
            .map(|template| template["Name"].as_str().expect("a name"))
            .collect();
        assert_eq!(names, found, "{filter}");
    }
    let page = shop.get(&format!("{path}?name=m&resultsPerPage=1")).await;
    assert_eq!(page.json()["pagination"]["CurrentPage"], 1);
    assert_eq!(page.data().as_array().expect("templates").len(), 1);
}

#[tokio::test]
async fn what_is_missing_is_told_inside_a_200() {
    let shop = Shop::open().await;
    let path = path(&shop).await;
    let before = shop.get(&path).await.data();
    for (body, messages) in [
        (json!({ "Name": "n" }), 1),
        (json!({ "Body": "b" }), 1),
        (json!({}), 2),
        (json!({ "Name": "", "Body": null }), 2),
    ] {
        let answer = shop.post(&path, &body).await.ok();
        assert_eq!((&answer["WasSuccessful"], &answer["ListingTemplate"]), (&json!(false), &Value::Null));
        assert_eq!(answer["Messages"].as_array().expect("messages").len(), messages, "{body}");
    }
    assert_eq!(shop.get(&path).await.data(), before);
    shop.post(&path, &json!([])).await.message(400);
    shop.post(&path, &json!({ "Name": 1, "Body": "b" })).await.message(400);
}

#[tokio::test]
async fn a_storefront_of_somebody_else_is_a_403_that_says_so() {
    let shop = Shop::open().await;
    let other = shop.company(json!({ "Name": "Other", "Subscribed": true })).await;
    let ours = path(&shop).await;
    for path in ["/api/storefronts/1/listingTemplates", "/api/storefronts/abc/listingTemplates"] {
        assert!(shop.get(path).await.message(403).contains("Invalid StorefrontId"));
        let message = shop.post(path, &json!({ "Name": "n", "Body": "b" })).await.message(403);
        assert!(message.contains("Invalid StorefrontId"), "{message}");
    }
    assert!(shop.get_as(&other, &ours).await.message(403).contains("Invalid StorefrontId"));
}
