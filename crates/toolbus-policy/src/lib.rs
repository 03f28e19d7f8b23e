//! Who may call what, and how often.
//!
//! A [`RuleBook`] is what an operator writes in the section `policy` of the settings
//! ([`PolicySettings`]), checked as a whole and indexed. The first rule whose conditions a call
//! meets decides it; a call that none decides is the default's. [`LivePolicy`] is a book in use,
//! which can be replaced by another one between two calls, and [`RateLimit`] the gate that counts
//! calls against the limits of the book. [`matrix`] shows what a book says, by the function that
//! decides.
//!
//! A decision looks at the call's scope and subject alone, waits for nothing, and allocates nothing
//! where it allows.

mod book;
mod budget;
pub mod call_limits;
mod conditions;
mod coverage;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod glob;
mod limit;
mod live;
mod matcher;
pub mod matrix;
mod mistake;
pub mod months;
mod preset;
mod principal;
mod principal_set;
pub mod retry;
mod rule_set;
mod session_owner;
mod settings;
pub mod spawn;
mod text_index;

pub use book::{
    DecidedBy, Explanation, LIMITS_MAX, NAME_BYTES_MAX, PATTERNS_MAX, REASON_BYTES_MAX, Revision,
    RuleBook,
};
pub use budget::BUDGETS_MAX;
pub use limit::{BUCKETS_MAX, RateLimit};
pub use live::LivePolicy;
pub use mistake::{Mistake, Mistakes};
pub use preset::Preset;
pub use principal::{PrincipalError, owner_text, parse_owner, parse_principal, principal_text};
pub use principal_set::{PrincipalSet, PrincipalSetError};
pub use rule_set::RULES_MAX;
pub use session_owner::SessionOwner;
pub use settings::{
    BudgetSettings, CountedBy, Effect, LimitSettings, Period, PolicySettings, RuleSettings,
};
