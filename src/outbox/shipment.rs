//! The two shipment changes: create a shipment of an order, and submit its tracking.
//!
//! `tracking.submit` names its shipment by the platform's id or by the key of its `shipment.create` change.
//! The form decides the id space of its lines: shipment items or order lines (docs/rules.md 16). The
//! two id spaces are distinct types.

use super::ChangeRejection;
use super::body_fields::{BodyFields, QUANTITY_RANGE, bad_body};
use crate::model::{LineItemId, OrderId, ShipmentId, ShipmentItemId};

/// `shipment.create`: the shipment of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShipmentCreate {
    pub order_id: OrderId,
    /// Lines to ship; `None` means everything left.
    ///
    /// The request always names lines and quantities (docs/rules.md 14).
    pub lines: Option<Vec<ShipmentLine>>,
}

/// An order line with its quantity to ship.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShipmentLine {
    pub line_item_id: LineItemId,
    /// Units, at least 1; `None` means the units left of the line.
    pub quantity: Option<i64>,
}

/// `tracking.submit`: the tracking of a shipment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrackingSubmit {
    pub shipment: ShipmentRef,
    /// Default for lines without values of their own.
    pub info: TrackingInfo,
    /// Date or date-time of the shipping, as written.
    pub shipped_date: Option<String>,
    /// Lines; `None` means all unshipped lines.
    pub lines: Option<Vec<TrackingLine>>,
}

/// The shipment reference of a tracking change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShipmentRef {
    Id(ShipmentId),
    /// `shipment_key`: the key of the change that creates the shipment.
    Key(String),
}

/// Fields of a [`TrackingInfo`] in a body.
const TRACKING_FIELDS: [&str; 4] =
    ["carrier_id", "tracking_number", "tracking_url", "estimated_delivery_date"];

/// Tracking values of a shipment or of one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrackingInfo {
    /// Carrier of the account; without it marketplaces receive no carrier.
    pub carrier_id: Option<i64>,
    pub tracking_number: Option<String>,
    pub tracking_url: Option<String>,
    /// Estimated date or date-time of delivery, as written.
    pub estimated_delivery_date: Option<String>,
}

/// A line of a tracking change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrackingLine {
    pub line: LineRef,
    pub info: TrackingInfo,
}

/// A `line_item_id` in the id space of its change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LineRef {
    Item(ShipmentItemId),
    /// Order line, with `shipment_key`; it is translated before the send.
    OrderLine(LineItemId),
}

impl ShipmentCreate {
    pub(super) fn from_fields(fields: &BodyFields<'_>) -> Result<Self, ChangeRejection> {
        fields.reject_unknown(&["order_id", "lines"])?;
        let order_id = fields.required_id("order_id").map(OrderId)?;
        let lines = named_lines(fields, shipment_line, |line| line.line_item_id.0)?;
        Ok(Self { order_id, lines })
    }
}

fn shipment_line(fields: &BodyFields<'_>) -> Result<ShipmentLine, ChangeRejection> {
    fields.reject_unknown(&["line_item_id", "quantity"])?;
    Ok(ShipmentLine {
        line_item_id: fields.required_id("line_item_id").map(LineItemId)?,
        quantity: fields.optional_integer("quantity", 1..=*QUANTITY_RANGE.end())?,
    })
}

impl TrackingSubmit {
    pub(super) fn from_fields(fields: &BodyFields<'_>) -> Result<Self, ChangeRejection> {
        let own = ["shipment_id", "shipment_key", "shipped_date", "lines"];
        fields.reject_unknown(&[own, TRACKING_FIELDS].concat())?;
        let shipment = shipment_ref(fields)?;
        let lines = named_lines(fields, |line| tracking_line(line, &shipment), |line| line.line.raw_id());
        let submit = Self {
            info: tracking_info(fields)?,
            shipped_date: fields.optional_date("shipped_date")?.map(|(text, _)| text.to_owned()),
            lines: lines?,
            shipment,
        };
        submit.require_numbers()
    }

    /// Rejects a change with a line that would have no tracking number.
    fn require_numbers(self) -> Result<Self, ChangeRejection> {
        let bare = |line: &TrackingLine| line.info.tracking_number.is_none();
        let lacking = self.lines.as_ref().is_none_or(|lines| lines.iter().any(bare));
        if self.info.tracking_number.is_none() && lacking {
            return Err(bad_body("`tracking_number` is missing; add it, or give every line its own".into()));
        }
        Ok(self)
    }
}

impl LineRef {
    pub(crate) fn raw_id(self) -> i64 {
        match self {
            LineRef::Item(id) => id.0,
            LineRef::OrderLine(id) => id.0,
        }
    }
}

fn shipment_ref(fields: &BodyFields<'_>) -> Result<ShipmentRef, ChangeRejection> {
    match (fields.optional_id("shipment_id")?, fields.optional_text("shipment_key")?) {
        (Some(id), None) => Ok(ShipmentRef::Id(ShipmentId(id))),
        (None, Some(key)) => Ok(ShipmentRef::Key(key.to_owned())),
        (Some(_), Some(_)) => {
            Err(bad_body("`shipment_id` and `shipment_key` are both present; give one of them".into()))
        }
        (None, None) => Err(bad_body(
            "`shipment_id` is missing; add it, or `shipment_key` with the key of the shipment's change"
                .into(),
        )),
    }
}

fn tracking_line(fields: &BodyFields<'_>, shipment: &ShipmentRef) -> Result<TrackingLine, ChangeRejection> {
    fields.reject_unknown(&[&TRACKING_FIELDS[..], &["line_item_id"]].concat())?;
    let id = fields.required_id("line_item_id")?;
    let line = match shipment {
        ShipmentRef::Id(_) => LineRef::Item(ShipmentItemId(id)),
        ShipmentRef::Key(_) => LineRef::OrderLine(LineItemId(id)),
    };
    Ok(TrackingLine { line, info: tracking_info(fields)? })
}

fn tracking_info(fields: &BodyFields<'_>) -> Result<TrackingInfo, ChangeRejection> {
    let number = fields.optional_text("tracking_number")?;
    if number.is_some_and(|number| number.chars().any(char::is_control)) {
        return Err(fields.invalid_value("tracking_number", "one line of text"));
    }
    Ok(TrackingInfo {
        carrier_id: fields.optional_id("carrier_id")?,
        tracking_number: number.map(str::to_owned),
        tracking_url: fields.optional_text("tracking_url")?.map(str::to_owned),
        estimated_delivery_date: fields
            .optional_date("estimated_delivery_date")?
            .map(|(text, _)| text.to_owned()),
    })
}

/// Returns the named lines, if any, each id once.
///
/// An empty list is rejected, because the platform takes it for *everything left*.
fn named_lines<T>(
    fields: &BodyFields<'_>,
    parse_line: impl Fn(&BodyFields<'_>) -> Result<T, ChangeRejection>,
    id: impl Fn(&T) -> i64,
) -> Result<Option<Vec<T>>, ChangeRejection> {
    let Some(lines) = fields.nested_objects("lines")? else { return Ok(None) };
    if lines.is_empty() {
        return Err(bad_body("`lines` is empty; name lines, or leave it out for all of them".into()));
    }
    let lines = lines.iter().map(parse_line).collect::<Result<Vec<T>, _>>()?;
    fields.reject_duplicates("lines", &lines.iter().map(id).collect::<Vec<_>>())?;
    Ok(Some(lines))
}

#[cfg(test)]
mod tests;
