//! Which lists a server says to have changed.
//!
//! What was said is forgotten only by a listing that began later and came to its end.

use parking_lot::Mutex;

/// Some of the lists of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
}

/// The lists that the server has said to have changed since they were listed.
#[derive(Default)]
pub(crate) struct ListsSaid(Mutex<Lists>);

/// What was said before a listing began. Dropped with a listing that failed, it is as if nobody had
/// looked.
pub(crate) struct Said<'a> {
    all: &'a ListsSaid,
    lists: Lists,
}

impl ListsSaid {
    pub(super) fn add(&self, add: impl FnOnce(&mut Lists)) {
        add(&mut self.0.lock());
    }

    /// A listing begins.
    pub(crate) fn take(&self) -> Said<'_> {
        Said { all: self, lists: std::mem::take(&mut self.0.lock()) }
    }
}

impl Said<'_> {
    /// They have been listed.
    pub(crate) fn listed(mut self) -> Lists {
        std::mem::take(&mut self.lists)
    }
}

impl Drop for Said<'_> {
    fn drop(&mut self) {
        let Lists { tools, prompts, resources } = self.lists;
        self.all.add(|said| {
            said.tools |= tools;
            said.prompts |= prompts;
            said.resources |= resources;
        });
    }
}

#[cfg(test)]
mod tests;
