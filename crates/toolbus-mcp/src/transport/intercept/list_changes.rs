//! The changes of lists that a server reports.
//!
//! A report is forgotten only by a listing that began later and came to its end.

use parking_lot::Mutex;

/// A choice of the lists of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ListKinds {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
}

/// The lists whose changes the server has reported since they were last listed.
#[derive(Default)]
pub(crate) struct ChangeReports(Mutex<ListKinds>);

/// The changes that were reported before a listing began. Dropped with a listing that failed, they
/// count as reported again.
pub(crate) struct ReportedChanges<'a> {
    all: &'a ChangeReports,
    lists: ListKinds,
}

impl ChangeReports {
    pub(super) fn report(&self, add: impl FnOnce(&mut ListKinds)) {
        add(&mut self.0.lock());
    }

    /// Takes the reports for a listing that begins.
    pub(crate) fn take(&self) -> ReportedChanges<'_> {
        ReportedChanges { all: self, lists: std::mem::take(&mut self.0.lock()) }
    }
}

impl ReportedChanges<'_> {
    /// Forgets the reports: the lists have been listed since.
    pub(crate) fn mark_listed(mut self) -> ListKinds {
        std::mem::take(&mut self.lists)
    }
}

impl Drop for ReportedChanges<'_> {
    fn drop(&mut self) {
        let ListKinds { tools, prompts, resources } = self.lists;
        self.all.report(|reported| {
            reported.tools |= tools;
            reported.prompts |= prompts;
            reported.resources |= resources;
        });
    }
}

#[cfg(test)]
mod tests;
