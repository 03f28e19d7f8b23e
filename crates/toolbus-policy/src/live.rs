//! A rule book in use, which can be replaced while calls are decided.

use std::sync::Arc;

use parking_lot::RwLock;
use toolbus_tools::Scope;
use toolbus_tools::budget::RunLimits;
use toolbus_tools::policy::{Decision, Policy, PolicyRequest};

use crate::book::RuleBook;
use crate::limit::RateLimit;
use crate::mistake::Mistakes;
use crate::settings::{LimitSettings, PolicySettings};

/// The policy of a book that can be replaced. Clones have the same book. Each decision is made by
/// one book as a whole, the old one or the new one.
#[derive(Debug, Clone)]
pub struct LivePolicy {
    book: Arc<RwLock<Arc<RuleBook>>>,
}

impl LivePolicy {
    /// The policy of this book.
    #[must_use]
    pub fn new(book: RuleBook) -> Self {
        Self { book: Arc::new(RwLock::new(Arc::new(book))) }
    }

    /// The book that decides now.
    #[must_use]
    pub fn book(&self) -> Arc<RuleBook> {
        Arc::clone(&self.book.read())
    }

    /// The gate that counts calls against the limits of the book.
    #[must_use]
    pub fn rate_limit(&self) -> RateLimit {
        RateLimit::new(self.clone())
    }

    /// The limits that count this call.
    #[must_use]
    pub fn limits_of(&self, request: &PolicyRequest<'_>) -> Vec<LimitSettings> {
        let book = self.book();
        let counting = book.limit_matcher.matching(request);
        counting.iter().map(|limit| book.limits[limit].settings().clone()).collect()
    }

    /// Has the book of these settings decide from now on, and answers whether it is another one.
    /// Limits that stay the same go on from what was counted.
    ///
    /// # Errors
    /// With everything that is wrong with them; then the old book stays as it is.
    pub fn replace(&self, settings: &PolicySettings) -> Result<bool, Mistakes> {
        let book = RuleBook::new(settings)?;
        // Read under the same lock, so that of two that replace it at once none is lost.
        let mut current = self.book.write();
        if current.revision() == book.revision() {
            return Ok(false);
        }

        let next = Arc::new(book.continuing(&current));
        let previous = std::mem::replace(&mut *current, Arc::clone(&next));
        drop(current);

        let (revision, rules) = (next.revision(), next.rule_count());
        tracing::info!(%revision, previous = %previous.revision(), rules, "replaced the policy");
        Ok(true)
    }
}

impl Policy for LivePolicy {
    fn decide(&self, request: &PolicyRequest<'_>) -> Decision {
        self.book.read().decide(request)
    }

    fn run_limits(&self, scope: &Scope) -> RunLimits {
        self.book.read().run_limits(scope)
    }
}
