//! Sets of principals: globs as rules have them, for whatever else names who may see something.

use toolbus_tools::{Audience, Principal};

use crate::conditions::GLOBS_MAX;
use crate::principal::{PrincipalError, PrincipalPattern};

/// Principals, by globs over `PROOF:NAME`. By default there are none in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrincipalSet {
    patterns: Vec<PrincipalPattern>,
}

/// Why globs are no set of principals.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrincipalSetError {
    /// There are no globs.
    #[error("an empty list would be for nobody; write `*` for everybody")]
    Empty,
    /// There are too many globs.
    #[error("{0} globs are more than {GLOBS_MAX}")]
    TooMany(usize),
    /// One of them is no glob over principals.
    #[error("the glob {glob:?}: {source}")]
    Glob {
        /// The glob.
        glob: String,
        /// What is wrong with it.
        source: PrincipalError,
    },
}

impl PrincipalSet {
    /// Reads globs.
    ///
    /// # Errors
    /// When there are none or too many, and what is wrong with the first that is no glob.
    pub fn parse(globs: &[String]) -> Result<Self, PrincipalSetError> {
        if globs.is_empty() {
            return Err(PrincipalSetError::Empty);
        }
        if globs.len() > GLOBS_MAX {
            return Err(PrincipalSetError::TooMany(globs.len()));
        }

        let parse = |glob: &String| {
            let wrong = |source| PrincipalSetError::Glob { glob: glob.clone(), source };
            PrincipalPattern::parse(glob).map_err(wrong)
        };
        Ok(Self { patterns: globs.iter().map(parse).collect::<Result<_, _>>()? })
    }

    /// Whether a principal is in it.
    #[must_use]
    pub fn contains(&self, principal: &Principal) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(principal))
    }

    /// Those in it, as the audience of a tool.
    #[must_use]
    pub fn into_audience(self) -> Audience {
        Audience::only(move |principal| self.contains(principal))
    }
}

#[cfg(test)]
mod tests;
