//! The two wishes of the dock: ship an order, and tell its tracking number.
//!
//! `tracking.submit` names its shipment either by the service's id or by the key of the `shipment.create` wish
//! that makes it; its lines are then shipment items or order lines (rules.md 25), and are kept apart as types.

use super::Rejection;
use super::fields::{Fields, QUANTITIES, bad};
use crate::model::{LineItemId, OrderId, ShipmentId, ShipmentItemId};

/// `shipment.create`: ship an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShipmentCreate {
    /// The order.
    pub order_id: OrderId,
    /// What of it; `None` is everything left. What is sent always names lines and quantities (rules.md 23).
    pub lines: Option<Vec<ShipmentLine>>,
}

/// A line of the order and how many of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShipmentLine {
    /// The order's line.
    pub line_item_id: LineItemId,
    /// At least 1; `None` is what is left of the line.
    pub quantity: Option<i64>,
}

/// `tracking.submit`: the tracking of a shipment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackingSubmit {
    /// Whose tracking.
    pub shipment: ShipmentRef,
    /// What holds for every line that says nothing else.
    pub info: TrackingInfo,
    /// When it left, as written: a date or date-time.
    pub shipped_date: Option<String>,
    /// The lines; `None` is all that have not shipped.
    pub lines: Option<Vec<TrackingLine>>,
}

/// How a tracking wish names its shipment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShipmentRef {
    /// `shipment_id`: the service's id.
    Id(ShipmentId),
    /// `shipment_key`: the key of the wish whose shipment it is.
    Key(String),
}

/// What can be said of a whole shipment or of one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackingInfo {
    /// The account's carrier; without it marketplaces are not told who carries.
    pub carrier_id: Option<i64>,
    /// The number on the parcel, as written.
    pub tracking_number: Option<String>,
    /// A link.
    pub tracking_url: Option<String>,
    /// When it should arrive, as written: a date or date-time.
    pub estimated_delivery_date: Option<String>,
}

/// One line of a tracking wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackingLine {
    /// Which one.
    pub line: LineRef,
    /// What holds for it alone.
    pub info: TrackingInfo,
}

/// A `line_item_id` in the id space its wish speaks in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineRef {
    /// With `shipment_id`: an item of the shipment.
    Item(ShipmentItemId),
    /// With `shipment_key`: a line of the order, translated before the send.
    OrderLine(LineItemId),
}

impl ShipmentCreate {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, Rejection> {
        fields.only(&["order_id", "lines"])?;
        let order_id = fields.required("order_id", fields.id("order_id")?).map(OrderId)?;
        let lines =
            some_lines(fields)?.map(|lines| lines.iter().map(shipment_line).collect::<Result<Vec<_>, _>>());
        let lines = lines.transpose()?;
        let ids: Vec<LineItemId> = lines.iter().flatten().map(|line| line.line_item_id).collect();
        fields.unique("lines", &ids)?;
        Ok(Self { order_id, lines })
    }
}

fn shipment_line(fields: &Fields<'_>) -> Result<ShipmentLine, Rejection> {
    fields.only(&["line_item_id", "quantity"])?;
    Ok(ShipmentLine {
        line_item_id: line_id(fields).map(LineItemId)?,
        quantity: fields.whole("quantity", 1..=*QUANTITIES.end())?,
    })
}

impl TrackingSubmit {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, Rejection> {
        fields.only(&[
            "shipment_id",
            "shipment_key",
            "carrier_id",
            "tracking_number",
            "tracking_url",
            "shipped_date",
            "estimated_delivery_date",
            "lines",
        ])?;
        let shipment = shipment_ref(fields)?;
        let line = |line: &Fields<'_>| tracking_line(line, &shipment);
        let lines = some_lines(fields)?.map(|lines| lines.iter().map(line).collect::<Result<Vec<_>, _>>());
        let submit = Self {
            info: tracking_info(fields)?,
            shipped_date: fields.date("shipped_date")?.map(|(text, _)| text.to_owned()),
            lines: lines.transpose()?,
            shipment,
        };
        let ids: Vec<i64> = submit.lines.iter().flatten().map(|line| line.line.id()).collect();
        fields.unique("lines", &ids)?;
        submit.numbered()
    }

    /// Refuses a wish in which some line would have no tracking number.
    fn numbered(self) -> Result<Self, Rejection> {
        let bare = |line: &TrackingLine| line.info.tracking_number.is_none();
        let lacking = self.lines.as_ref().is_none_or(|lines| lines.iter().any(bare));
        if self.info.tracking_number.is_none() && lacking {
            return Err(bad("`tracking_number` is missing; add it, or give every line its own".into()));
        }
        Ok(self)
    }
}

impl LineRef {
    /// The number the wish wrote.
    pub fn id(self) -> i64 {
        match self {
            LineRef::Item(id) => id.0,
            LineRef::OrderLine(id) => id.0,
        }
    }
}

fn shipment_ref(fields: &Fields<'_>) -> Result<ShipmentRef, Rejection> {
    match (fields.id("shipment_id")?, fields.text("shipment_key")?) {
        (Some(id), None) => Ok(ShipmentRef::Id(ShipmentId(id))),
        (None, Some(key)) => Ok(ShipmentRef::Key(key.to_owned())),
        (Some(_), Some(_)) => {
            Err(bad("`shipment_id` and `shipment_key` are both there; say one of them".into()))
        }
        (None, None) => Err(bad(
            "`shipment_id` is missing; add it, or `shipment_key` with the key of the shipment's wish".into(),
        )),
    }
}

fn tracking_line(fields: &Fields<'_>, shipment: &ShipmentRef) -> Result<TrackingLine, Rejection> {
    fields.only(&[
        "line_item_id",
        "carrier_id",
        "tracking_number",
        "tracking_url",
        "estimated_delivery_date",
    ])?;
    let id = line_id(fields)?;
    let line = match shipment {
        ShipmentRef::Id(_) => LineRef::Item(ShipmentItemId(id)),
        ShipmentRef::Key(_) => LineRef::OrderLine(LineItemId(id)),
    };
    Ok(TrackingLine { line, info: tracking_info(fields)? })
}

fn tracking_info(fields: &Fields<'_>) -> Result<TrackingInfo, Rejection> {
    let number = fields.text("tracking_number")?;
    if number.is_some_and(|number| number.chars().any(char::is_control)) {
        return Err(fields.wrong("tracking_number", "one line of text"));
    }
    Ok(TrackingInfo {
        carrier_id: fields.id("carrier_id")?,
        tracking_number: number.map(str::to_owned),
        tracking_url: fields.text("tracking_url")?.map(str::to_owned),
        estimated_delivery_date: fields.date("estimated_delivery_date")?.map(|(text, _)| text.to_owned()),
    })
}

fn line_id(fields: &Fields<'_>) -> Result<i64, Rejection> {
    fields.required("line_item_id", fields.id("line_item_id")?)
}

/// The lines, if any are named. An empty list is refused: the service takes it for *everything left*.
fn some_lines<'a>(fields: &Fields<'a>) -> Result<Option<Vec<Fields<'a>>>, Rejection> {
    match fields.list("lines")? {
        Some(lines) if lines.is_empty() => {
            Err(bad("`lines` is empty; name lines, or leave it out for all of them".into()))
        }
        lines => Ok(lines),
    }
}

#[cfg(test)]
mod tests;
