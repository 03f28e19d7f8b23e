//! People whose turns are under way.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use toolbus_tools::{Door, Principal, Scope};

use crate::sessions::is_inner;

/// How many turns of people are under way, by who they are.
#[derive(Clone, Default)]
pub(crate) struct PeopleServed(Arc<Mutex<HashMap<Principal, usize>>>);

/// A turn of a person, for as long as this lives.
pub(crate) struct Serving<'a> {
    people: &'a PeopleServed,
    principal: &'a Principal,
}

impl PeopleServed {
    /// Counts the turn of a scope, where it is a person's: nobody talks in that of a subagent.
    pub(crate) fn begin<'a>(&'a self, scope: &'a Scope) -> Option<Serving<'a>> {
        let is_inner = scope.session.as_ref().is_some_and(is_inner);
        if scope.door != Door::Turn || is_inner {
            return None;
        }
        let principal = &scope.principal;
        *self.0.lock().entry(principal.clone()).or_default() += 1;
        Some(Serving { people: self, principal })
    }

    pub(crate) fn is_serving(&self, principal: &Principal) -> bool {
        self.0.lock().contains_key(principal)
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let mut people = self.people.0.lock();
        if let Some(turns) = people.get_mut(self.principal) {
            *turns -= 1;
            if *turns == 0 {
                people.remove(self.principal);
            }
        }
    }
}
