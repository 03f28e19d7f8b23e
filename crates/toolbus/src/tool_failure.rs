//! How a tool's function says that it failed.

use std::error::Error as StdError;
use std::fmt;

use toolbus_tools::CallError;

type BoxedError = Box<dyn StdError + Send + Sync>;

/// Longest text that is made of an error and its causes, in bytes; the rest is cut off.
pub const FAILURE_BYTES_MAX: usize = 4096;

/// How a tool's function says that it failed.
///
/// Every type that implements [`std::error::Error`] converts into it, so `?` works: what the error
/// says, with its causes, is what the caller is told, under
/// [`ErrorCode::ExecutionFailed`](toolbus_wire::ErrorCode::ExecutionFailed). `anyhow::Error` and
/// `Box<dyn Error + Send + Sync>` do not implement it: see [`ToolFailure::from_boxed`]. A
/// [`CallError`] stays what it is, for tools that know more: a code, whether they had started, when
/// to try again.
///
/// Models read the text, so it must not hold a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFailure(CallError);

impl ToolFailure {
    /// A failure that says this. Whatever can be shown will do, also where it is no error:
    /// `.map_err(ToolFailure::new)`.
    #[must_use]
    pub fn new(message: impl fmt::Display) -> Self {
        Self(CallError::execution_failed(truncate(message.to_string())))
    }

    /// A failure that says what a boxed error and its causes say, for errors that `?` does not
    /// convert: `.map_err(ToolFailure::from_boxed)` takes an `anyhow::Error` and a
    /// `Box<dyn Error + Send + Sync>`.
    ///
    /// A [`CallError`] in a box stays what it is. One within an `anyhow::Error` is read as any
    /// other error, so take it out first where it matters.
    #[must_use]
    pub fn from_boxed(error: impl Into<BoxedError>) -> Self {
        match error.into().downcast::<CallError>() {
            Ok(error) => Self(*error),
            Err(error) => Self::new(join_causes(&*error)),
        }
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for ToolFailure {
    fn from(error: E) -> Self {
        Self::from_boxed(error)
    }
}

impl From<ToolFailure> for CallError {
    fn from(failure: ToolFailure) -> Self {
        failure.0
    }
}

/// What an error and its causes say, from the outermost on. A cause that only says again what
/// stands before it is left out.
fn join_causes(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause
        && text.len() <= FAILURE_BYTES_MAX
    {
        let said = error.to_string();
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

/// The text, cut to [`FAILURE_BYTES_MAX`].
pub(crate) fn truncate(mut text: String) -> String {
    if text.len() > FAILURE_BYTES_MAX {
        text.truncate(text.floor_char_boundary(FAILURE_BYTES_MAX));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests;
