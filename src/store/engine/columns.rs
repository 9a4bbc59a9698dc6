//! Columns of the database as types of the model.

use crate::model::{
    ChangeId, ExchangeId, LineItemId, Moment, Operation, OrderId, Position, ProductId, Quantity, RunId,
    ShipmentId, ShipmentItemId, Sku, StorefrontId, SupplierId, Timestamp, WarehouseId,
};
use crate::outbox::ChangeState;
use crate::reconcile::ProductLack;
use crate::store::engine::lossy_text::LossyText;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::{Database, Decode, Encode, Type};

/// Gives a type the columns of another.
macro_rules! column_type {
    ($name:ident, $stored:ident) => {
        impl<D: Database> Type<D> for $name
        where
            $stored: Type<D>,
        {
            fn type_info() -> D::TypeInfo {
                <$stored as Type<D>>::type_info()
            }

            fn compatible(info: &D::TypeInfo) -> bool {
                <$stored as Type<D>>::compatible(info)
            }
        }
    };
}

/// Implements columns of integers for newtypes of `i64`.
macro_rules! integer_columns {
    ($($name:ident),+ $(,)?) => {$(
        column_type!($name, i64);

        impl<'r, D: Database> Decode<'r, D> for $name
        where
            i64: Decode<'r, D>,
        {
            fn decode(value: D::ValueRef<'r>) -> Result<Self, BoxDynError> {
                <i64 as Decode<'r, D>>::decode(value).map($name)
            }
        }

        impl<'q, D: Database> Encode<'q, D> for $name
        where
            i64: Encode<'q, D>,
        {
            fn encode_by_ref(&self, buffer: &mut D::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
                <i64 as Encode<'q, D>>::encode_by_ref(&self.0, buffer)
            }
        }
    )+};
}

/// Implements columns of text for types that are read from their text.
macro_rules! text_columns {
    ($($name:ident: $read:expr),+ $(,)?) => {$(
        column_type!($name, LossyText);

        impl<'r, D: Database> Decode<'r, D> for $name
        where
            LossyText: Decode<'r, D>,
        {
            fn decode(value: D::ValueRef<'r>) -> Result<Self, BoxDynError> {
                let text = String::from(<LossyText as Decode<'r, D>>::decode(value)?);
                $read(text).map_err(BoxDynError::from)
            }
        }
    )+};
}

integer_columns!(
    ChangeId,
    ExchangeId,
    LineItemId,
    Moment,
    OrderId,
    Position,
    ProductId,
    Quantity,
    RunId,
    ShipmentId,
    ShipmentItemId,
    StorefrontId,
    SupplierId,
    Timestamp,
    WarehouseId,
);
text_columns!(
    // The platform has no other operations (docs/interface.md, *Endpoints*).
    Operation: |code: String| Operation::from_code(&code).ok_or_else(|| format!("there is no operation {code}")),
    ChangeState: |name: String| name.parse::<ChangeState>(),
    // An unknown code counts as an unreadable record, which proves nothing.
    ProductLack: |code: String| Ok::<_, std::convert::Infallible>(ProductLack::from_code(&code).unwrap_or(ProductLack::Unreadable)),
    Sku: Sku::new,
);
