//! Text written by other programs.
//!
//! SQLite accepts any bytes as text, and old warehouse software writes Latin-1. Such a row must not make a
//! whole query fail, so invalid UTF-8 is read as U+FFFD. A change that contains U+FFFD is rejected.

use crate::outbox::StoredBody;
use sqlx::error::BoxDynError;
use sqlx::sqlite::{SqliteTypeInfo, SqliteValueRef};
use sqlx::{Decode, Sqlite, Type, TypeInfo as _, ValueRef as _};

/// Text from arbitrary bytes.
#[derive(Type)]
#[sqlx(transparent)]
pub(in crate::store) struct LossyText(Vec<u8>);

impl From<LossyText> for String {
    fn from(text: LossyText) -> Self {
        String::from_utf8_lossy(&text.0).into_owned()
    }
}

/// SQL: the column `body` of a change; a body over the limit is replaced by its size.
///
/// SQLite reads the size without loading the text. The limit is [`crate::outbox::BODY_MAX_BYTES`].
macro_rules! body_column {
    () => {
        "iif(octet_length(body) > 262144, octet_length(body), body) AS body"
    };
}
pub(in crate::store) use body_column;

impl Type<Sqlite> for StoredBody {
    fn type_info() -> SqliteTypeInfo {
        <str as Type<Sqlite>>::type_info()
    }

    fn compatible(info: &SqliteTypeInfo) -> bool {
        <str as Type<Sqlite>>::compatible(info) || <i64 as Type<Sqlite>>::compatible(info)
    }
}

impl<'r> Decode<'r, Sqlite> for StoredBody {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        if value.type_info().name() == "INTEGER" {
            let size = i64::decode(value)?;
            return Ok(Self::TooLong(u64::try_from(size)?));
        }
        Ok(Self::Text(LossyText::decode(value)?.into()))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_limit_in_the_queries_is_the_limit_of_bodies() {
        assert!(body_column!().contains(&format!("> {},", crate::outbox::BODY_MAX_BYTES)));
    }
}
