//! Globs: patterns over ids and names, in which `*` stands for any text and everything else for
//! itself. They mean what [`toolbus_tools::view`] means by them.

use toolbus_tools::id::ID_BYTES_MAX;

/// A pattern. `a*b*` is the literals `a`, `b` and nothing, with any text between them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Glob {
    /// The literals between the stars. A single one is the whole text.
    parts: Box<[Box<str>]>,
}

/// Why a text is no glob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    #[error("it is empty")]
    Empty,
    #[error("it has {0} bytes, more than {ID_BYTES_MAX}")]
    TooLong(usize),
    #[error("it has a control character")]
    ControlCharacter,
    #[error("it begins or ends with a space")]
    OuterSpace,
    #[error("it has `**`, and one `*` stands for any text already")]
    DoubleStar,
}

/// A byte of a text that a glob matches, or what a star of another glob stands for: some text of
/// which no more is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Symbol {
    Byte(u8),
    Unknown,
}

impl PartialEq<u8> for Symbol {
    fn eq(&self, byte: &u8) -> bool {
        *self == Self::Byte(*byte)
    }
}

impl Glob {
    /// Reads a pattern.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        check_text(text)?;
        Ok(Self::of_parts(text.split('*').map(str::to_owned).collect()))
    }

    /// The pattern with these literals between its stars. Only the first and the last may be empty.
    pub(crate) fn of_parts(parts: Vec<String>) -> Self {
        Self { parts: parts.into_iter().map(String::into_boxed_str).collect() }
    }

    /// Whether it matches every text.
    pub(crate) fn is_any(&self) -> bool {
        matches!(&*self.parts, [first, last] if first.is_empty() && last.is_empty())
    }

    /// The only text that it matches, where there is only one.
    pub(crate) fn exact(&self) -> Option<&str> {
        if let [text] = &*self.parts { Some(text) } else { None }
    }

    /// What every text that it matches begins with, where nothing else is asked of it.
    pub(crate) fn prefix_only(&self) -> Option<&str> {
        match &*self.parts {
            [prefix, rest] if rest.is_empty() => Some(prefix),
            _ => None,
        }
    }

    /// The longest text that is somewhere in every text that it matches.
    pub(crate) fn longest_literal(&self) -> &str {
        self.parts.iter().max_by_key(|part| part.len()).map_or("", |part| part)
    }

    /// Whether it matches a text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.fits(text.as_bytes())
    }

    /// Whether it matches every text that another one matches.
    ///
    /// That is so exactly if it matches the other pattern itself, whose stars only its own stars
    /// may take in. If it does, it takes in whatever those stars stand for as well. If it does not,
    /// it does not match the text in which each of those stars stands for one character that
    /// neither pattern has, and the other pattern matches that text.
    pub(crate) fn covers(&self, symbols: &[Symbol]) -> bool {
        self.fits(symbols)
    }

    /// The pattern as [`covers`](Glob::covers) takes it.
    pub(crate) fn symbols(&self) -> Vec<Symbol> {
        let mut symbols = Vec::new();
        for (position, part) in self.parts.iter().enumerate() {
            if position > 0 {
                symbols.push(Symbol::Unknown);
            }
            symbols.extend(part.bytes().map(Symbol::Byte));
        }
        symbols
    }

    /// A text that it matches, in which this stands for each star.
    pub(crate) fn sample(&self, star: &str) -> String {
        self.parts.join(star)
    }

    /// The literals have to follow each other. Taking each as early as it comes leaves most of the
    /// text to those after it.
    fn fits<T: PartialEq<u8>>(&self, text: &[T]) -> bool {
        let (first, middle, last) = match &*self.parts {
            [] => return text.is_empty(),
            [whole] => return is_literal(text, whole),
            [first, middle @ .., last] => (first, middle, last),
        };

        let Some(inner_len) = text.len().checked_sub(first.len() + last.len()) else {
            return false;
        };
        let (start, rest) = text.split_at(first.len());
        let (mut rest, end) = rest.split_at(inner_len);
        if !is_literal(start, first) || !is_literal(end, last) {
            return false;
        }

        for part in middle {
            let found = rest.windows(part.len()).position(|window| is_literal(window, part));
            let Some(at) = found else { return false };
            rest = &rest[at + part.len()..];
        }
        true
    }
}

/// Refuses what can be no pattern, or only by mistake.
pub(crate) fn check_text(text: &str) -> Result<(), Error> {
    if text.is_empty() {
        return Err(Error::Empty);
    }
    if text.len() > ID_BYTES_MAX {
        return Err(Error::TooLong(text.len()));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::ControlCharacter);
    }
    if text.trim() != text {
        return Err(Error::OuterSpace);
    }
    if text.contains("**") {
        return Err(Error::DoubleStar);
    }
    Ok(())
}

fn is_literal<T: PartialEq<u8>>(text: &[T], literal: &str) -> bool {
    text.len() == literal.len()
        && text.iter().zip(literal.as_bytes()).all(|(symbol, byte)| symbol == byte)
}

#[cfg(test)]
mod tests;
