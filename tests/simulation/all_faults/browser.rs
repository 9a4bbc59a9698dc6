//! A browser: it reads the forms of a page, replaces the parts that are live, and sends requests.

use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Names and values of a form's fields.
pub type Fields = Vec<(String, String)>;

/// Returns the fields of the count's form in a browser that loaded one page and replaced its live parts by those of
/// another.
pub fn form_as_shown(loaded: &str, fresh: &str, warehouse: i64) -> Option<Fields> {
    let form = form_html(loaded, "count", ("warehouse", &warehouse.to_string()))?;
    let mut fields = fields_of(form, "count");
    for span in form.split("<span id=\"").skip(1).filter_map(|rest| rest.split('>').next()) {
        let live = format!("<span id=\"{span}>");
        let fresh = fresh.split_once(&live).filter(|_| span.ends_with(" data-live"));
        let fresh = fresh.and_then(|(_, rest)| rest.split("</span>").next());
        for (name, value) in fresh.map(inputs).unwrap_or_default() {
            set(&mut fields, &name, &value);
        }
    }
    Some(fields)
}

/// Returns the fields of the form with this button and this hidden field.
pub fn form_of(html: &str, action: &str, hidden: (&str, &str)) -> Option<Fields> {
    form_html(html, action, hidden).map(|form| fields_of(form, action))
}

/// Returns the fields of the only form with this button.
pub fn only_form(html: &str, action: &str) -> Option<Fields> {
    forms(html).find(|form| form.contains(&button(action))).map(|form| fields_of(form, action))
}

fn form_html<'a>(html: &'a str, action: &str, (name, value): (&str, &str)) -> Option<&'a str> {
    let hidden = format!("name=\"{name}\" value=\"{value}\"");
    forms(html).find(|form| form.contains(&button(action)) && form.contains(&hidden))
}

fn forms(html: &str) -> impl Iterator<Item = &str> {
    html.split("<form").skip(1).filter_map(|rest| rest.split("</form>").next())
}

fn button(action: &str) -> String {
    format!("name=\"action\" value=\"{action}\"")
}

fn fields_of(form: &str, action: &str) -> Fields {
    let mut fields = inputs(form);
    set(&mut fields, "action", action);
    fields
}

/// Returns the fields with their values, without the boxes, which nobody ticked.
fn inputs(html: &str) -> Fields {
    let field = |tag: &str| {
        let tag = tag.split('>').next().filter(|tag| !tag.contains(" type=\"checkbox\""))?;
        Some((attribute(tag, "name")?, attribute(tag, "value").unwrap_or_default()))
    };
    html.split("<input").skip(1).filter_map(field).collect()
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    let value = rest.split('"').next()?;
    Some(value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"))
}

pub fn set(fields: &mut Fields, name: &str, value: &str) {
    fields.retain(|(of, _)| of != name);
    fields.push((name.to_owned(), value.to_owned()));
}

pub fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Sends a request and returns the answer with its head.
pub async fn ask(address: SocketAddr, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{head}Host: {address}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_form_has_its_hidden_fields_and_those_that_it_was_served_with() {
    let html = r#"<form action="/a"><input type="hidden" name="csrf" value="c&amp;d"><input type="hidden" name="warehouse" value="4"></form><form><input type="hidden" name="csrf" value="c"><input type="hidden" name="warehouse" value="5">
        <input id="seen" name="seen" type="number" value="7"><input name="quantity" required>
        <input type="checkbox" name="key" value="k"><button type="submit" name="action" value="count">Count</button></form>"#;
    let pairs: &[(&str, &str)] =
        &[("csrf", "c"), ("warehouse", "5"), ("seen", "7"), ("quantity", ""), ("action", "count")];
    let expected: Fields =
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    assert_eq!(form_of(html, "count", ("warehouse", "5")), Some(expected.clone()));
    assert_eq!(only_form(html, "count"), Some(expected));
    assert_eq!(form_of(html, "count", ("warehouse", "4")), None);
    assert_eq!(attribute(r#"<input name="csrf" value="c&amp;d""#, "value").as_deref(), Some("c&d"));
}

#[test]
fn a_live_part_of_a_form_has_what_the_page_shows_now() {
    let page = |seen: &str, csrf: &str| {
        format!(
            r#"<form><input type="hidden" name="csrf" value="{csrf}"><input type="hidden" name="warehouse" value="5"><span id="x"></span><span id="shown-5" data-live>this page shows {seen} <input type="hidden" name="seen" value="{seen}"></span><button type="submit" name="action" value="count">Count</button></form>"#
        )
    };
    let fields = form_as_shown(&page("50", "first"), &page("40", "second"), 5).unwrap();
    let of = |name: &str| fields.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str());
    assert_eq!((of("seen"), of("csrf")), (Some("40"), Some("first")));
}
