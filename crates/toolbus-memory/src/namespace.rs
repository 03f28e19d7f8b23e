//! Namespaces of working memory, and paths within them.
//!
//! A path is segments with `/` between them, and the first two are its namespace: `session/abc`,
//! `subagent/1f`. Upper and lower case are the same, and a path is below another only where whole
//! segments say so: `session/s10` is not below `session/s1`.
//!
//! A key that a caller gives is a path within the namespace of its session, unless it begins with a
//! namespace itself.

use std::fmt;

use toolbus_tools::Scope;
use toolbus_tools::id::SessionId;

use crate::Error;

/// Longest path, in bytes, and so the longest key.
pub const PATH_BYTES_MAX: usize = 512;
/// Most segments of a path.
pub const PATH_SEGMENTS_MAX: usize = 16;

/// What a namespace begins with.
const KINDS: [&str; 5] = [SESSION, "patrol", "subagent", "research", "wisp"];
const SESSION: &str = "session";

/// The namespace that a session's memory is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace(Path);

/// A place in working memory: that of an entry, or one that others are below.
#[derive(Debug, Clone)]
pub struct Path {
    /// As it was written.
    text: String,
    /// What it is compared by.
    lower: String,
}

impl Namespace {
    /// The namespace of this session: the session itself where it begins with a kind of namespace,
    /// else `session/` and it.
    ///
    /// # Errors
    /// When it is too long for a namespace.
    pub fn of_session(session: &SessionId) -> Result<Self, Error> {
        let path = Path::parse(session.as_str())?;
        if path.has_namespace() {
            return Ok(Self(path));
        }
        Path::parse(&format!("{SESSION}/{session}")).map(Self)
    }

    /// The namespace of the calls of this scope.
    ///
    /// # Errors
    /// [`Error::NoSession`] where they have none.
    pub fn of(scope: &Scope) -> Result<Self, Error> {
        Self::of_session(scope.session.as_ref().ok_or(Error::NoSession)?)
    }

    /// The path of a key: within this namespace, unless it begins with a namespace.
    ///
    /// # Errors
    /// What is wrong with the key.
    pub fn path_of(&self, key: &str) -> Result<Path, Error> {
        let path = Path::parse(key)?;
        if path.has_namespace() && path.segments() > 2 {
            return Ok(path);
        }
        Path::parse(&format!("{}/{}", self.0.text, path.text))
    }

    /// What a caller means that names a namespace to look into, or a place in its own.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn prefix_of(&self, text: &str) -> Result<Path, Error> {
        let path = Path::parse(text)?;
        if KINDS.contains(&path.first_segment()) {
            return Ok(path);
        }
        Path::parse(&format!("{}/{}", self.0.text, path.text))
    }

    /// Whether the calls of this namespace may change what is there: in their own, and in those of
    /// work that sessions start, but not in another conversation's.
    #[must_use]
    pub fn may_write(&self, path: &Path) -> bool {
        path.is_within(&self.0) || path.first_segment() != SESSION
    }

    /// The namespace as a path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl Path {
    fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim().trim_matches('/');
        if text.len() > PATH_BYTES_MAX {
            return Err(Error::KeyTooLong { bytes: text.len() });
        }
        let segments: Vec<_> = text.split('/').collect();
        if segments.len() > PATH_SEGMENTS_MAX {
            return Err(Error::Key("it has too many segments"));
        }
        for segment in segments {
            if matches!(segment.trim(), "" | "." | "..") {
                return Err(Error::Key("a segment of it is empty, or only dots"));
            }
            if segment.chars().any(|c| c.is_control() || c == '`') {
                return Err(Error::Key("it has a control character or a backtick"));
            }
        }
        let lower = text.chars().flat_map(char::to_lowercase).collect();
        Ok(Self { text: text.to_owned(), lower })
    }

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What it is found by.
    pub(crate) fn lower(&self) -> &str {
        &self.lower
    }

    /// The namespace that it is in, whose entries are counted together.
    pub(crate) fn namespace(&self) -> &str {
        let mut slashes = self.lower.match_indices('/');
        match slashes.nth(1) {
            Some((end, _)) => &self.lower[..end],
            None => &self.lower,
        }
    }

    /// Whether it is the other, or below it.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        let rest = self.lower.strip_prefix(&other.lower);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    pub(crate) fn segments(&self) -> usize {
        self.lower.split('/').count()
    }

    fn first_segment(&self) -> &str {
        self.lower.split('/').next().unwrap_or_default()
    }

    fn has_namespace(&self) -> bool {
        KINDS.contains(&self.first_segment()) && self.segments() > 1
    }
}

impl PartialEq for Path {
    fn eq(&self, other: &Self) -> bool {
        self.lower == other.lower
    }
}

impl Eq for Path {}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
