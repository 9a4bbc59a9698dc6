//! Loose answers: the other form in which the platform may write a record.
//!
//! docs/interface.md has whole numbers as `28` and `28.0`, and records without fields that are not set. Times have no
//! zone in either form. An answer with an unset field that a caller needs would be another answer, so only null and
//! the empty text are left out.

use serde_json::Value;

/// Returns the JSON text with whole numbers as `28.0` and without the fields that are not set.
pub(crate) fn loosen_answer(body: String) -> String {
    serde_json::from_str(&body).map_or(body, |value| loosen_value(value).to_string())
}

fn loosen_value(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or(Value::Number(number), Value::from),
        Value::Array(values) => values.into_iter().map(loosen_value).collect(),
        Value::Object(fields) => {
            let set = fields.into_iter().filter(|(_, value)| !value.is_null() && value != "");
            set.map(|(name, value)| (name, loosen_value(value))).collect()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loose_answer_has_the_same_values_in_the_other_form() {
        let body =
            r#"{"Id":28,"Price":4.5,"Bin":"","Note":null,"Tags":[],"Lines":[{"Id":-3,"Url":""},null]}"#;
        let loose = r#"{"Id":28.0,"Lines":[{"Id":-3.0},null],"Price":4.5,"Tags":[]}"#;
        let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(parsed(&loosen_answer(body.into())), parsed(loose));
        assert!(loosen_answer(body.into()).contains("28.0"));
        assert_eq!(loosen_answer("no JSON".into()), "no JSON");
    }
}
