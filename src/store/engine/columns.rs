//! Columns of the database as types of the model.

use crate::model::{
    ChangeId, ExchangeId, LineItemId, Moment, OrderId, Position, ProductId, Quantity, RunId, ShipmentId,
    ShipmentItemId, Sku, StorefrontId, SupplierId, Timestamp, WarehouseId,
};
use crate::outbox::ChangeState;
use crate::reconcile::ProductLack;
use crate::store::engine::lossy_text::LossyText;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::sqlite::{SqliteArgumentsBuffer, SqliteTypeInfo, SqliteValueRef};
use sqlx::{Decode, Encode, Sqlite, Type};

/// Implements columns of integers for newtypes of `i64`.
macro_rules! integer_columns {
    ($($name:ident),+ $(,)?) => {$(
        impl Type<Sqlite> for $name {
            fn type_info() -> SqliteTypeInfo {
                <i64 as Type<Sqlite>>::type_info()
            }

            fn compatible(info: &SqliteTypeInfo) -> bool {
                <i64 as Type<Sqlite>>::compatible(info)
            }
        }

        impl<'r> Decode<'r, Sqlite> for $name {
            fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
                <i64 as Decode<Sqlite>>::decode(value).map($name)
            }
        }

        impl Encode<'_, Sqlite> for $name {
            fn encode_by_ref(&self, buffer: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
                <i64 as Encode<Sqlite>>::encode_by_ref(&self.0, buffer)
            }
        }
    )+};
}

/// Implements columns of text for types that are read from their text.
macro_rules! text_columns {
    ($($name:ident: $read:expr),+ $(,)?) => {$(
        impl Type<Sqlite> for $name {
            fn type_info() -> SqliteTypeInfo {
                <str as Type<Sqlite>>::type_info()
            }

            fn compatible(info: &SqliteTypeInfo) -> bool {
                <str as Type<Sqlite>>::compatible(info)
            }
        }

        impl<'r> Decode<'r, Sqlite> for $name {
            fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
                let text = String::from(<LossyText as Decode<Sqlite>>::decode(value)?);
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
    ChangeState: |name: String| name.parse::<ChangeState>(),
    // An unknown code counts as an unreadable record, which proves nothing.
    ProductLack: |code: String| Ok::<_, std::convert::Infallible>(ProductLack::from_code(&code).unwrap_or(ProductLack::Unreadable)),
    Sku: Sku::new,
);
