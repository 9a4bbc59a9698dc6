//! Input of a run: names given by an operator instead of the due work.
//!
//! Only jobs that read take an input, and only names. The input is stored with the run in the journal; the
//! next run does not use it.

use crate::model::{JobKind, OrderId, Sku};
use serde::{Deserialize, Serialize};

/// Names that a run works on; empty for the due work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RunArgs {
    /// SKUs for `balances`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skus: Vec<Sku>,
    /// Orders for `order_lines`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<OrderId>,
}

impl RunArgs {
    /// Parses the input of a job, a JSON object. The error is a sentence with the fault and a valid example.
    pub(crate) fn parse(kind: JobKind, text: &str) -> Result<Self, String> {
        let example = match kind {
            JobKind::Balances => r#"{"skus":["SKU-1"]}"#,
            JobKind::OrderLines => r#"{"orders":[1234567]}"#,
            _ => return Err(format!("the job {kind} takes no input: it works on what is due")),
        };
        let unreadable =
            |why: &str| format!("cannot read the input of {kind}: {why}; write it like {example}");
        let input: Self = serde_json::from_str(text).map_err(|error| unreadable(&error.to_string()))?;
        let names_others =
            if kind == JobKind::Balances { !input.orders.is_empty() } else { !input.skus.is_empty() };
        match names_others || input.is_empty() {
            true => Err(unreadable("it names no SKU or order that the job reads")),
            false => Ok(input),
        }
    }

    /// Returns true if the run works on the due work.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_names_what_its_job_reads_or_is_refused() {
        let skus = RunArgs::parse(JobKind::Balances, r#"{"skus":["A"]}"#).unwrap();
        assert_eq!(skus.skus, [Sku::new("A").unwrap()]);
        let refused = [
            (JobKind::Balances, r#"{"orders":[1]}"#),
            (JobKind::Balances, r#"{"skus":["A"],"order":1}"#),
            (JobKind::Balances, r#"{"skus":[" "]}"#),
            (JobKind::OrderLines, "{}"),
            (JobKind::Warehouses, "{}"),
            (JobKind::Push, r#"{"skus":["A"]}"#),
        ];
        for (kind, text) in refused {
            assert!(RunArgs::parse(kind, text).is_err(), "{kind} {text}");
        }
    }
}
