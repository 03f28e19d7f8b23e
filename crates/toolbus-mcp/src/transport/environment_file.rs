//! The file of variables that a program is started with, as an entry's `envFile` names it: lines
//! `NAME=value`, as shells and `docker run --env-file` have them.
//!
//! Nothing in it is replaced or run. What is wrong with it is told by the number of the line, for
//! its values are secrets.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use toolbus_wire::message::Secret;

use crate::small_file;

/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// Why a file of variables cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("it cannot be read")]
    Unreadable(#[source] io::Error),
    /// Counted from 1.
    #[error("line {line} {what}")]
    Line { line: usize, what: &'static str },
}

/// Reads a file of variables. Blocks.
pub(crate) fn read(path: &Path) -> Result<BTreeMap<String, Secret>, Error> {
    parse(&small_file::read_text(path, FILE_BYTES_MAX).map_err(Error::Unreadable)?)
}

/// Parses the text of a file. Of two variables of one name, the last counts.
pub(crate) fn parse(text: &str) -> Result<BTreeMap<String, Secret>, Error> {
    let mut variables = BTreeMap::new();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let mistake = |what| Error::Line { line: index + 1, what };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }

        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=').ok_or(mistake("has no '='"))?;
        let name = name.trim();
        if name.is_empty() || name.contains(char::is_whitespace) || line.contains('\0') {
            return Err(mistake("is no variable"));
        }
        let value = parse_value(value.trim()).map_err(mistake)?;
        variables.insert(name.to_owned(), Secret::from(value));
    }

    Ok(variables)
}

/// The value without its quotes. A comment may follow it.
fn parse_value(text: &str) -> Result<String, &'static str> {
    match text.chars().next() {
        Some(quote @ ('"' | '\'')) => parse_quoted(&text[1..], quote),
        _ => {
            let comment = text.find(" #").or_else(|| text.starts_with('#').then_some(0));
            Ok(text[..comment.unwrap_or(text.len())].trim_end().to_owned())
        }
    }
}

/// Between double quotes, `\n`, `\"` and `\\` stand for what they do in shells; between single
/// ones, every character stands for itself.
fn parse_quoted(text: &str, quote: char) -> Result<String, &'static str> {
    let mut value = String::new();
    let mut characters = text.chars();

    while let Some(character) = characters.next() {
        match character {
            end if end == quote => {
                let rest = characters.as_str().trim_start();
                let is_comment = rest.is_empty() || rest.starts_with('#');
                return if is_comment { Ok(value) } else { Err("goes on behind its quotes") };
            }
            '\\' if quote == '"' => match characters.next() {
                Some('n') => value.push('\n'),
                Some(escaped @ ('"' | '\\')) => value.push(escaped),
                Some(other) => value.extend(['\\', other]),
                None => value.push('\\'),
            },
            other => value.push(other),
        }
    }

    Err("has a quote without its end")
}

#[cfg(test)]
mod tests;
