//! The gate of the budget: charges the call to its scope, and to those above it.

use crate::call::{Call, CallError};

/// Refuses a call that the budget of its scope, or of one above it, has no room for.
pub(crate) fn charge_budget(call: &Call) -> Result<(), CallError> {
    call.scope.budget.charge_call().map_err(CallError::from)
}
