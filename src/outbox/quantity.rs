//! The two quantity changes: a count and an adjustment.
//!
//! A count has the meaning of the platform's `QuantityOnHand`: units on the shelf minus units sold
//! and not yet picked (docs/glossary.md, *Terms*).

use super::ChangeRejection;
use super::body_fields::{BodyFields, QUANTITY_RANGE};
use crate::model::{Quantity, StockLevel, Timestamp};
use std::ops::RangeInclusive;

/// Quantities of the platform: 32 bits, negative if oversold.
const FACT_RANGE: RangeInclusive<i64> = i32::MIN as i64..=i32::MAX as i64;

const DELTA_RANGE: RangeInclusive<i64> = -Quantity::MAX.0..=Quantity::MAX.0;

/// `quantity.set`: a count of one stock level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuantitySet {
    pub stock_level: StockLevel,
    pub quantity: Quantity,
    /// Quantity that the view `stock` showed at the count; `None` takes the stored base.
    pub seen: Option<Quantity>,
    /// Time of the count, if it was before the insertion.
    pub counted_at: Option<Timestamp>,
}

impl QuantitySet {
    pub(super) fn from_fields(fields: &BodyFields<'_>) -> Result<Self, ChangeRejection> {
        fields.reject_unknown(&["sku", "warehouse_id", "quantity", "seen", "counted_at"])?;
        Ok(Self {
            stock_level: parse_stock_level(fields)?,
            quantity: fields
                .require_value("quantity", fields.optional_integer("quantity", QUANTITY_RANGE)?)
                .map(Quantity)?,
            seen: fields.optional_integer("seen", FACT_RANGE)?.map(Quantity),
            counted_at: fields.optional_date("counted_at")?.map(|(_, at)| at),
        })
    }
}

/// `quantity.adjust`: units that arrived or left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuantityAdjust {
    pub stock_level: StockLevel,
    /// Difference in units. Zero is accepted, because programs that write differences also write zero.
    pub delta: i64,
}

impl QuantityAdjust {
    pub(super) fn from_fields(fields: &BodyFields<'_>) -> Result<Self, ChangeRejection> {
        fields.reject_unknown(&["sku", "warehouse_id", "delta"])?;
        Ok(Self {
            stock_level: parse_stock_level(fields)?,
            delta: fields.require_value("delta", fields.optional_integer("delta", DELTA_RANGE)?)?,
        })
    }
}

fn parse_stock_level(fields: &BodyFields<'_>) -> Result<StockLevel, ChangeRejection> {
    Ok(StockLevel {
        sku: fields.required_sku("sku")?,
        warehouse_id: fields.required_warehouse("warehouse_id")?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::body::tests::assert_details;
    use super::super::{ChangeBody, parse_body};
    use super::*;

    fn parse_set(body: &str) -> QuantitySet {
        let ChangeBody::QuantitySet(set) = parse_body("quantity.set", body).unwrap() else { panic!() };
        set
    }

    #[test]
    fn a_count_is_read_with_all_it_may_say() {
        let body = r#"{"sku":" Ä 1","warehouse_id":7.0,"quantity":28.0,"seen":-2,"counted_at":"2031-05-04T08:00:00+02:00"}"#;
        let set = parse_set(body);
        assert_eq!(set.stock_level.sku.as_str(), " Ä 1");
        assert_eq!(set.stock_level.warehouse_id.0, 7);
        assert_eq!((set.quantity, set.seen), (Quantity(28), Some(Quantity(-2))));
        assert_eq!(set.counted_at.unwrap().to_rfc3339(), "2031-05-04T06:00:00.000Z");
    }

    #[test]
    fn null_counts_as_absent() {
        let set = parse_set(r#"{"sku":"A","warehouse_id":1,"quantity":0,"seen":null,"counted_at":null}"#);
        assert_eq!((set.seen, set.counted_at), (None, None));
    }

    #[test]
    fn a_count_that_makes_no_sense_names_its_field() {
        let cases = [
            (r#"{"warehouse_id":1,"quantity":1}"#, "`sku` is missing"),
            (r#"{"Sku":"A","warehouse_id":1,"quantity":1}"#, "did you mean `sku`?"),
            (r#"{"sku":7,"warehouse_id":1,"quantity":1}"#, "`sku` is 7; it must be a text"),
            (r#"{"sku":" ","warehouse_id":1,"quantity":1}"#, "must not be empty"),
            (r#"{"sku":"A","quantity":1}"#, "`warehouse_id` is missing"),
            (r#"{"sku":"A","warehouse_id":0,"quantity":1}"#, "`warehouse_id` is 0"),
            (r#"{"sku":"A","warehouse_id":"1","quantity":1}"#, "`warehouse_id` is \"1\""),
            (r#"{"sku":"A","warehouse_id":123456789012345678901234567890}"#, "`warehouse_id` is 1.23"),
            (r#"{"sku":"A","warehouse_id":1}"#, "`quantity` is missing"),
            (r#"{"sku":"A","warehouse_id":1,"quantity":-1}"#, "`quantity` is -1"),
            (r#"{"sku":"A","warehouse_id":1,"quantity":2.5}"#, "`quantity` is 2.5"),
            (r#"{"sku":"A","warehouse_id":1,"quantity":"5"}"#, "`quantity` is \"5\""),
            (r#"{"sku":"A","warehouse_id":1,"quantity":true}"#, "`quantity` is true"),
            (r#"{"sku":"A","warehouse_id":1,"quantity":2147483648}"#, "from 0 to 2147483647"),
            (r#"{"sku":"A","warehouse_id":1,"quantity":1,"seen":1.5}"#, "`seen` is 1.5"),
            (r#"{"sku":"A","warehouse_id":1,"quantity":1,"counted_at":"noon"}"#, "`counted_at` is \"noon\""),
            (r#"{"sku":"A","warehouse_id":1,"quantity":1,"sean":3}"#, "did you mean `seen`?"),
            (r#"{"sku":"A","warehouse_id":1,"quantity":1,"note":"x"}"#, "no field `note`"),
        ];
        assert_details("quantity.set", cases);
    }

    #[test]
    fn a_movement_is_any_whole_number_of_32_bits() {
        let cases = [
            ("-3", Some(-3)),
            ("5.0", Some(5)),
            ("0", Some(0)),
            ("2147483647", Some(2_147_483_647)),
            ("-2147483648", None),
            ("0.5", None),
            ("null", None),
        ];
        for (delta, expected) in cases {
            let body = format!(r#"{{"sku":"A","warehouse_id":1,"delta":{delta}}}"#);
            let read = parse_body("quantity.adjust", &body).ok().map(|body| match body {
                ChangeBody::QuantityAdjust(adjust) => adjust.delta,
                other => panic!("{other:?}"),
            });
            assert_eq!(read, expected, "{delta}");
        }
    }
}
