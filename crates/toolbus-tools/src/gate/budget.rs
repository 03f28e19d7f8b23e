//! Counts the call in the budget of its scope.

use crate::call::{Call, CallError};

/// Refuses a call that the budget of its scope, or of one above it, has no room for.
pub(crate) fn take_of_budget(call: &Call) -> Result<(), CallError> {
    call.scope.budget.take_call().map_err(CallError::from)
}
