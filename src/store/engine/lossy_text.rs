//! Text written by other programs.
//!
//! SQLite accepts any bytes as text, and old warehouse software writes Latin-1. Such a row must not make a
//! whole query fail, so invalid UTF-8 is read as U+FFFD. A change that contains U+FFFD is rejected.

use crate::outbox::StoredBody;
use sqlx::{FromRow, Type};

/// Text from arbitrary bytes.
#[derive(Type)]
#[sqlx(transparent)]
pub(in crate::store) struct LossyText(Vec<u8>);

impl From<LossyText> for String {
    fn from(text: LossyText) -> Self {
        String::from_utf8_lossy(&text.0).into_owned()
    }
}

/// SQL: the body of a change as the columns of [`StoredBodyRow`].
///
/// The database reads the size without loading the text.
macro_rules! body_columns {
    () => {
        "CASE WHEN octet_length(body) <= 262144 THEN body END AS body, \
         CAST(octet_length(body) AS BIGINT) AS body_size"
    };
}
pub(in crate::store) use body_columns;

/// Body of a change; no text above [`crate::outbox::BODY_MAX_BYTES`].
#[derive(FromRow)]
pub(in crate::store) struct StoredBodyRow {
    body: Option<LossyText>,
    body_size: i64,
}

impl From<StoredBodyRow> for StoredBody {
    fn from(row: StoredBodyRow) -> Self {
        row.body.map_or(Self::TooLong(row.body_size.unsigned_abs()), |body| Self::Text(body.into()))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_limit_in_the_queries_is_the_limit_of_bodies() {
        assert!(body_columns!().contains(&format!("<= {} ", crate::outbox::BODY_MAX_BYTES)));
    }
}
