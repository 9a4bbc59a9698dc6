//! Text that other programs wrote.
//!
//! SQLite takes any bytes for text, and old warehouse software writes Latin-1. One such row must not make a whole
//! query unreadable, so what is no UTF-8 is read with U+FFFD in its place; a wish that holds one is rejected.

use crate::outbox::Stored;
use sqlx::error::BoxDynError;
use sqlx::sqlite::{SqliteTypeInfo, SqliteValueRef};
use sqlx::{Decode, Sqlite, Type, TypeInfo as _, ValueRef as _};

/// Text, whatever its bytes.
pub(super) struct Text(String);

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0
    }
}

impl Type<Sqlite> for Text {
    fn type_info() -> SqliteTypeInfo {
        <str as Type<Sqlite>>::type_info()
    }

    fn compatible(info: &SqliteTypeInfo) -> bool {
        <str as Type<Sqlite>>::compatible(info)
    }
}

impl<'r> Decode<'r, Sqlite> for Text {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        let bytes = <&[u8] as Decode<Sqlite>>::decode(value)?;
        Ok(Self(String::from_utf8_lossy(bytes).into_owned()))
    }
}

/// The column `body` of a wish, in every query that reads it: the size stands in the place of a body over the limit.
/// SQLite tells the size without loading the text. The number is [`crate::outbox::BODY_MAX_BYTES`].
macro_rules! body_column {
    () => {
        "iif(octet_length(body) > 262144, octet_length(body), body) AS body"
    };
}
pub(super) use body_column;

/// Text that [`body_column`] selects.
pub(super) struct BodyText(Stored);

impl From<BodyText> for Stored {
    fn from(body: BodyText) -> Self {
        body.0
    }
}

impl Type<Sqlite> for BodyText {
    fn type_info() -> SqliteTypeInfo {
        <str as Type<Sqlite>>::type_info()
    }

    fn compatible(info: &SqliteTypeInfo) -> bool {
        <str as Type<Sqlite>>::compatible(info) || <i64 as Type<Sqlite>>::compatible(info)
    }
}

impl<'r> Decode<'r, Sqlite> for BodyText {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        if value.type_info().name() == "INTEGER" {
            let size = <i64 as Decode<Sqlite>>::decode(value)?;
            return Ok(Self(Stored::TooLong(u64::try_from(size)?)));
        }
        Ok(Self(Stored::Text(<Text as Decode<Sqlite>>::decode(value)?.into())))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_limit_in_the_queries_is_the_limit_of_bodies() {
        assert!(body_column!().contains(&format!("> {},", crate::outbox::BODY_MAX_BYTES)));
    }
}
