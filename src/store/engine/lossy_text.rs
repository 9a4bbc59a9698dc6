//! Text written by other programs.
//!
//! SQLite accepts any bytes as text, and old warehouse software writes Latin-1. Such a row must not make a
//! whole query fail, so invalid UTF-8 is read as U+FFFD. A change that contains U+FFFD is rejected.

use serde::Serialize;
use serde_json::Value;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgTypeInfo, PgValueRef};
use sqlx::sqlite::{SqliteTypeInfo, SqliteValueRef};
use sqlx::{Decode, Postgres, Sqlite, Type};
use std::fmt;
use std::ops::Deref;

/// Text from arbitrary bytes. PostgreSQL accepts valid text only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LossyText(String);

impl<B: AsRef<[u8]>> From<B> for LossyText {
    fn from(bytes: B) -> Self {
        Self(String::from_utf8_lossy(bytes.as_ref()).into_owned())
    }
}

impl fmt::Display for LossyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Deref for LossyText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Type<Sqlite> for LossyText {
    fn type_info() -> SqliteTypeInfo {
        <[u8] as Type<Sqlite>>::type_info()
    }

    fn compatible(info: &SqliteTypeInfo) -> bool {
        <[u8] as Type<Sqlite>>::compatible(info)
    }
}

impl<'r> Decode<'r, Sqlite> for LossyText {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        <&[u8] as Decode<Sqlite>>::decode(value).map(Self::from)
    }
}

impl Type<Postgres> for LossyText {
    fn type_info() -> PgTypeInfo {
        <str as Type<Postgres>>::type_info()
    }

    /// JSON too: its text is what SQLite returns.
    fn compatible(info: &PgTypeInfo) -> bool {
        <str as Type<Postgres>>::compatible(info) || <Value as Type<Postgres>>::compatible(info)
    }
}

impl<'r> Decode<'r, Postgres> for LossyText {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        value.as_bytes().map(Self::from)
    }
}

impl From<LossyText> for String {
    fn from(text: LossyText) -> Self {
        text.0
    }
}
