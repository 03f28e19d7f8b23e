//! Requirement strings, parsed before any process sees them.
//!
//! The grammar is that of PEP 508 without its dangerous half: a name, extras, versions (PEP 440)
//! and a marker. Addresses, paths, options and everything else that an installer would take are
//! refused. What comes out is rebuilt from the parts, never the text that came in.

mod scanner;

use std::collections::BTreeSet;
use std::fmt;

use crate::runner::PACKAGES_MAX;

use scanner::Scanner;

/// Longest requirement string, in bytes.
const REQUIREMENT_BYTES_MAX: usize = 256;
/// Names that installers take for files.
const ARCHIVES: [&str; 7] = [".whl", ".zip", ".tar", ".gz", ".tgz", ".bz2", ".egg"];

/// A requirement string that was refused, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The list is too long.
    #[error("more than {PACKAGES_MAX} packages")]
    TooMany,
    /// One of them is too long.
    #[error("a requirement is longer than {REQUIREMENT_BYTES_MAX} bytes")]
    TooLong,
    /// One of them is none.
    #[error("{text:?} is not a package requirement: {reason}")]
    Refused {
        /// The string as it came.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// A set of requirements in one form for all the ways to write it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requirements(BTreeSet<String>);

impl Requirements {
    /// Parses them all.
    ///
    /// # Errors
    /// On the first that is none, with the reason for its author.
    pub fn parse(texts: &[String]) -> Result<Self, Error> {
        if texts.len() > PACKAGES_MAX {
            return Err(Error::TooMany);
        }

        let requirements = texts.iter().map(|text| {
            if text.len() > REQUIREMENT_BYTES_MAX {
                return Err(Error::TooLong);
            }
            parse(text)
                .map(|requirement| requirement.to_string())
                .map_err(|reason| Error::Refused { text: text.clone(), reason })
        });

        requirements.collect::<Result<_, _>>().map(Self)
    }

    /// Whether nothing is required.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each requirement, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Requirement {
    name: String,
    extras: BTreeSet<String>,
    versions: BTreeSet<String>,
    marker: String,
}

impl fmt::Display for Requirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(",");
        formatter.write_str(&self.name)?;

        if !self.extras.is_empty() {
            write!(formatter, "[{}]", join(&self.extras))?;
        }

        formatter.write_str(&join(&self.versions))?;

        if !self.marker.is_empty() {
            write!(formatter, "; {}", self.marker)?;
        }

        Ok(())
    }
}

fn parse(text: &str) -> Result<Requirement, &'static str> {
    let mut scanner = Scanner::new(text);
    let name = scan_name(&mut scanner)?;
    let extras = if scanner.take_if('[') { scan_extras(&mut scanner)? } else { BTreeSet::new() };

    let versions = if scanner.take_if('(') {
        let versions = scan_versions(&mut scanner)?;
        scanner.expect(')', "expected `)` after the versions")?;
        versions
    } else if matches!(scanner.peek_char(), None | Some(';')) {
        BTreeSet::new()
    } else {
        scan_versions(&mut scanner)?
    };

    let marker = if scanner.take_if(';') { scan_marker(&mut scanner)? } else { String::new() };

    match scanner.peek_char() {
        None => Ok(Requirement { name, extras, versions, marker }),
        Some('@') => Err("addresses are not allowed"),
        Some(_) => Err("expected a version, a marker or the end"),
    }
}

/// A name as package indexes compare it (PEP 503).
fn scan_name(scanner: &mut Scanner<'_>) -> Result<String, &'static str> {
    let text = scanner.take_word(|char| char.is_ascii_alphanumeric() || "._-".contains(char));

    let is_edge = |char: Option<char>| char.is_some_and(|char| char.is_ascii_alphanumeric());
    if !is_edge(text.chars().next()) || !is_edge(text.chars().last()) {
        return Err("expected a name of letters, digits, `.`, `_` and `-`");
    }

    let text = text.to_ascii_lowercase();
    if ARCHIVES.iter().any(|ending| text.ends_with(ending)) {
        return Err("it names a file");
    }

    let parts = text.split(['.', '_', '-']).filter(|part| !part.is_empty());
    Ok(parts.collect::<Vec<_>>().join("-"))
}

fn scan_extras(scanner: &mut Scanner<'_>) -> Result<BTreeSet<String>, &'static str> {
    let mut extras = BTreeSet::new();
    if scanner.take_if(']') {
        return Ok(extras);
    }

    loop {
        extras.insert(scan_name(scanner)?);
        if scanner.take_if(']') {
            return Ok(extras);
        }
        scanner.expect(',', "expected `,` or `]` after an extra")?;
    }
}

fn scan_versions(scanner: &mut Scanner<'_>) -> Result<BTreeSet<String>, &'static str> {
    let mut versions = BTreeSet::new();
    loop {
        let operator = scanner.take_word(|char| "<>=!~".contains(char)).to_owned();
        if !["==", "!=", "<=", ">=", "<", ">", "~="].contains(&operator.as_str()) {
            return Err("expected one of `==`, `!=`, `<=`, `>=`, `<`, `>`, `~=`");
        }

        let text =
            scanner.take_word(|char| char.is_ascii_alphanumeric() || ".*+!-_".contains(char));
        let (version, is_wildcard) = match text.strip_suffix(".*") {
            Some(version) => (version, true),
            None => (text, false),
        };
        if !is_version(version) || (is_wildcard && operator != "==" && operator != "!=") {
            return Err("expected a version such as `1.2.3`");
        }

        versions.insert(format!("{operator}{}", text.to_ascii_lowercase()));

        if !scanner.take_if(',') {
            return Ok(versions);
        }
    }
}

/// Whether this is a version of PEP 440: `[N!]N(.N)*[{a|b|rc}N][.postN][.devN][+local]`, with the
/// spellings that PEP 440 takes for the same.
fn is_version(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let (public, local) = match text.split_once('+') {
        Some((public, local)) => (public, Some(local)),
        None => (text.as_str(), None),
    };

    let is_part =
        |part: &str| !part.is_empty() && part.chars().all(|char| char.is_ascii_alphanumeric());

    if local.is_some_and(|local| !local.split(['.', '-', '_']).all(is_part)) {
        return false;
    }

    let release = match public.split_once('!') {
        Some((epoch, release)) if is_number(epoch) => release,
        Some(_) => return false,
        None => public.strip_prefix('v').unwrap_or(public),
    };

    let end = release.find(|char: char| !char.is_ascii_digit() && char != '.');
    let (numbers, suffixes) = release.split_at(end.unwrap_or(release.len()));

    // A separator may stand before the first suffix.
    let numbers =
        if suffixes.is_empty() { numbers } else { numbers.strip_suffix('.').unwrap_or(numbers) };

    numbers.split('.').all(is_number) && are_suffixes(suffixes)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|char| char.is_ascii_digit())
}

/// Pre-, post- and development releases, each a word with an optional number.
fn are_suffixes(mut text: &str) -> bool {
    const WORDS: [&str; 11] =
        ["alpha", "beta", "preview", "post", "pre", "rev", "dev", "rc", "a", "b", "c"];

    let skip = |text: &mut &str| {
        if let Some(rest) = text.strip_prefix(['.', '-', '_']) {
            *text = rest;
        }
    };

    for _ in 0..3 {
        if text.is_empty() {
            return true;
        }

        let had_dash = text.starts_with('-');
        skip(&mut text);

        match WORDS
            .iter()
            .find_map(|word| text.strip_prefix(word))
            .or_else(|| text.strip_prefix('r'))
        {
            Some(rest) => {
                text = rest;
                if text.len() > 1 && text[1..].starts_with(|char: char| char.is_ascii_digit()) {
                    skip(&mut text);
                }
            }
            // `1.0-1` is the first post-release of 1.0.
            None if had_dash && text.starts_with(|char: char| char.is_ascii_digit()) => {}
            None => return false,
        }

        text = text.trim_start_matches(|char: char| char.is_ascii_digit());
    }

    text.is_empty()
}

/// A condition on the environment, as its tokens with one space between them.
fn scan_marker(scanner: &mut Scanner<'_>) -> Result<String, &'static str> {
    let mut tokens = Vec::new();
    let mut open = 0_usize;

    loop {
        while scanner.take_if('(') {
            open += 1;
            tokens.push("(".to_owned());
        }

        tokens.push(marker_value(scanner)?);
        tokens.push(marker_operator(scanner)?);
        tokens.push(marker_value(scanner)?);

        while open > 0 && scanner.take_if(')') {
            open -= 1;
            tokens.push(")".to_owned());
        }

        if scanner.peek_char().is_none() {
            return if open == 0 {
                Ok(tokens.join(" "))
            } else {
                Err("expected `)` in the marker")
            };
        }
        match scanner.take_word(|char| char.is_ascii_lowercase()) {
            word @ ("and" | "or") => tokens.push(word.to_owned()),

            _ => return Err("expected `and`, `or` or the end of the marker"),
        }
    }
}

fn marker_value(scanner: &mut Scanner<'_>) -> Result<String, &'static str> {
    const VARIABLES: [&str; 12] = [
        "python_version",
        "python_full_version",
        "os_name",
        "sys_platform",
        "platform_release",
        "platform_system",
        "platform_version",
        "platform_machine",
        "platform_python_implementation",
        "implementation_name",
        "implementation_version",
        "extra",
    ];

    for quote in ['"', '\''] {
        if scanner.take_if(quote) {
            let text =
                scanner.raw_word(|char| char.is_ascii_alphanumeric() || " ._+!*-#".contains(char));
            let value = format!("\"{text}\"");

            scanner.expect_raw(quote, "expected a string of plain characters in the marker")?;
            return Ok(value);
        }
    }
    let word = scanner.take_word(|char| char.is_ascii_lowercase() || char == '_');
    if VARIABLES.contains(&word) {
        Ok(word.to_owned())
    } else {
        Err("expected a variable such as `python_version` or a string in the marker")
    }
}

fn marker_operator(scanner: &mut Scanner<'_>) -> Result<String, &'static str> {
    const EXPECTED: &str = "expected a comparison in the marker";
    let symbol = scanner.take_word(|char| "<>=!~".contains(char));

    match symbol {
        "==" | "!=" | "<=" | ">=" | "<" | ">" | "~=" | "===" => return Ok(symbol.to_owned()),
        "" => {}
        _ => return Err(EXPECTED),
    }

    match scanner.take_word(|char| char.is_ascii_lowercase()) {
        "in" => Ok("in".to_owned()),
        "not" if scanner.take_word(|char| char.is_ascii_lowercase()) == "in" => {
            Ok("not in".to_owned())
        }
        _ => Err(EXPECTED),
    }
}

#[cfg(test)]
mod tests;
