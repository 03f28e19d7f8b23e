//! What is wrong with a rule book, in words for whoever wrote it.

use std::fmt;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mistake {
    /// The member of the settings that it is in, such as `rules[3].tools`.
    pub key: String,
    /// What is wrong, with the name of the rule or limit.
    pub what: String,
}

/// Every mistake of a rule book; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistakes(Vec<Mistake>);

impl Mistakes {
    /// The mistakes as an error, or `Ok` where there is none.
    pub(crate) fn of(mistakes: Vec<Mistake>) -> Result<(), Self> {
        if mistakes.is_empty() { Ok(()) } else { Err(Self(mistakes)) }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Mistake> {
        self.0.iter()
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the rule book has mistakes")?;
        self.0.iter().try_for_each(|mistake| write!(f, "\n  {}: {}", mistake.key, mistake.what))
    }
}

impl std::error::Error for Mistakes {}

/// Collects the mistakes of one rule or limit.
pub(crate) struct Reporter<'a> {
    /// Such as `rules[3]`.
    pub(crate) key: String,
    /// Such as `rule 'no-deletes'`.
    pub(crate) owner: String,
    pub(crate) found: &'a mut Vec<Mistake>,
}

impl Reporter<'_> {
    /// Adds a mistake in a member.
    pub(crate) fn add(&mut self, member: &str, what: impl fmt::Display) {
        let key = format!("{}.{member}", self.key);
        self.found.push(Mistake { key, what: format!("{}: {what}", self.owner) });
    }
}
