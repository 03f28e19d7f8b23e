//! Columns that several crates write alike: whose a row is, and values in JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::any::{Any, AnyRow, AnyTypeInfo};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::{Database, Decode, Encode, Row as _, Type, ValueRef as _};

/// Longest text of a [`JsonColumn`], in bytes.
pub const JSON_COLUMN_BYTES_MAX: usize = 256 << 10;

/// The owner of a row. The text is opaque here: equal texts are one owner, and no later owner gets
/// the text of one that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(String);

/// A value that a `TEXT` column has as JSON, of at most [`JSON_COLUMN_BYTES_MAX`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonColumn<T>(pub T);

/// A value is too large for its column.
#[derive(Debug, thiserror::Error)]
#[error("{bytes} bytes of JSON are over the limit of {JSON_COLUMN_BYTES_MAX} for a column")]
struct TooLarge {
    bytes: usize,
}

impl OwnerId {
    /// The owner of this text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: DeserializeOwned> JsonColumn<T> {
    /// The value of a column. `None`: it cannot be read, which is logged; `id` names the row.
    ///
    /// # Errors
    /// When the row has no such column.
    pub fn read(row: &AnyRow, column: &str, id: &str) -> Result<Option<T>, sqlx::Error> {
        match row.try_get::<Self, _>(column) {
            Ok(Self(value)) => Ok(Some(value)),
            Err(sqlx::Error::ColumnDecode { source, .. }) => {
                tracing::warn!(error = &*source, column, id, "a column of a row cannot be read");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads a column that is NULL in rows of older programs: `None` for NULL.
    ///
    /// # Errors
    /// If the row has no such column.
    pub fn read_optional(row: &AnyRow, column: &str, id: &str) -> Result<Option<T>, sqlx::Error> {
        if row.try_get_raw(column)?.is_null() {
            return Ok(None);
        }
        Self::read(row, column, id)
    }
}

impl Type<Any> for OwnerId {
    fn type_info() -> AnyTypeInfo {
        <String as Type<Any>>::type_info()
    }
}

impl<'q> Encode<'q, Any> for OwnerId {
    fn encode_by_ref(
        &self,
        buffer: &mut <Any as Database>::ArgumentBuffer,
    ) -> Result<IsNull, BoxDynError> {
        <String as Encode<'q, Any>>::encode_by_ref(&self.0, buffer)
    }
}

impl<'r> Decode<'r, Any> for OwnerId {
    fn decode(value: <Any as Database>::ValueRef<'r>) -> Result<Self, BoxDynError> {
        <String as Decode<'r, Any>>::decode(value).map(Self)
    }
}

impl<T> Type<Any> for JsonColumn<T> {
    fn type_info() -> AnyTypeInfo {
        <String as Type<Any>>::type_info()
    }
}

impl<'q, T: Serialize> Encode<'q, Any> for JsonColumn<T> {
    fn encode_by_ref(
        &self,
        buffer: &mut <Any as Database>::ArgumentBuffer,
    ) -> Result<IsNull, BoxDynError> {
        let text = serde_json::to_string(&self.0)?;
        check_length(&text)?;
        <String as Encode<'q, Any>>::encode(text, buffer)
    }
}

impl<'r, T: DeserializeOwned> Decode<'r, Any> for JsonColumn<T> {
    fn decode(value: <Any as Database>::ValueRef<'r>) -> Result<Self, BoxDynError> {
        let text = <&'r str as Decode<'r, Any>>::decode(value)?;
        check_length(text)?;
        Ok(Self(toolbus_json::from_trusted(text)?))
    }
}

fn check_length(text: &str) -> Result<(), TooLarge> {
    match text.len() {
        ..=JSON_COLUMN_BYTES_MAX => Ok(()),
        bytes => Err(TooLarge { bytes }),
    }
}
