//! Audiences: for whom a tool is there at all.
//!
//! A view says what a caller sees of the tools that there are, a policy which of those may run. A
//! tool that works with one person's account or files is a matter of neither: it is there for that
//! person's principals and for nobody else, in every list and for every call.

use std::fmt;
use std::sync::Arc;

use crate::scope::Principal;

/// For whom a tool is there. By default it is there for everybody. Two audiences are equal where
/// both are everybody, or one is a clone of the other.
#[derive(Clone, Default)]
pub struct Audience {
    /// Says who belongs to it. `None`: everybody.
    only: Option<Arc<Belongs>>,
}

type Belongs = dyn Fn(&Principal) -> bool + Send + Sync;

impl Audience {
    /// Everybody.
    #[must_use]
    pub const fn everybody() -> Self {
        Self { only: None }
    }

    /// The principals of which this says so.
    #[must_use]
    pub fn only(belongs: impl Fn(&Principal) -> bool + Send + Sync + 'static) -> Self {
        Self { only: Some(Arc::new(belongs)) }
    }

    /// Whether a principal belongs to it.
    #[must_use]
    pub fn has(&self, principal: &Principal) -> bool {
        self.only.as_ref().is_none_or(|belongs| belongs(principal))
    }
}

impl PartialEq for Audience {
    fn eq(&self, other: &Self) -> bool {
        match (&self.only, &other.only) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }
}

impl Eq for Audience {}

impl fmt::Debug for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.only.is_none() { "everybody" } else { "some" })
    }
}
