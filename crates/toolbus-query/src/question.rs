//! What can be asked about a value.

use serde::{Deserialize, Serialize};

use crate::Error;

/// Most bytes of a pattern, filter or statement.
pub const PROGRAM_BYTES_MAX: usize = 64 << 10;
/// Most lines of a head.
pub const HEAD_LINES_MAX: u32 = 1_000;
/// Most lines of context before or after a match.
pub const CONTEXT_LINES_MAX: u32 = 100;

/// A question about a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Question {
    /// How it begins.
    Head(Head),
    /// A part of it, by bytes.
    Slice(Slice),
    /// A part of it, by lines.
    Lines(Lines),
    /// The lines that match a pattern.
    Grep(Grep),
    /// The lines of many files that match a pattern.
    GrepFiles(GrepFiles),
    /// What a jq filter makes of it.
    Jq(Jq),
    /// What a SQL statement makes of it.
    Sql(Sql),
}

/// How a value begins. Text is shown with long lines cut; binary content is described.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Head {
    /// How many lines: 20 by default, at most [`HEAD_LINES_MAX`].
    pub lines: Option<u32>,
    /// How many bytes, in place of lines.
    pub bytes: Option<u64>,
}

/// A part of a value by bytes. The parts of a value in order, each from the `next_offset` of the
/// one before, concatenate to the value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Slice {
    /// The first byte.
    pub offset: u64,
    /// How many bytes at most; as many as fit by default.
    pub length: Option<u64>,
}

/// A part of a value by lines, ends of lines included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lines {
    /// The first line, counted from 1.
    pub from_line: u64,
    /// How many lines at most; as many as fit by default.
    pub lines: Option<u64>,
}

impl Default for Lines {
    fn default() -> Self {
        Self { from_line: 1, lines: None }
    }
}

/// The lines that match a pattern, as ripgrep prints them with line numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Grep {
    /// A regular expression of Rust's syntax.
    pub pattern: String,
    /// The pattern is text, no expression.
    pub fixed: bool,
    /// Upper and lower case are the same.
    pub ignore_case: bool,
    /// Lines of context before each match.
    pub before: u32,
    /// Lines of context after each match.
    pub after: u32,
    /// How many matching lines to show at most.
    pub max_matches: u64,
    /// How many matching lines to pass over first.
    pub skip: u64,
    /// The lines that do not match.
    pub invert: bool,
    /// Only how many there are.
    pub count: bool,
}

impl Default for Grep {
    fn default() -> Self {
        Self {
            pattern: String::new(),
            fixed: false,
            ignore_case: false,
            before: 0,
            after: 0,
            max_matches: 100,
            skip: 0,
            invert: false,
            count: false,
        }
    }
}

/// The lines of many files that match a pattern, each after the name of its file. The value is what
/// [`FilesWriter`](crate::FilesWriter) writes. Files with a NUL byte are passed over from there on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GrepFiles {
    /// What is looked for. Where lines are counted, they are counted for each file.
    pub grep: Grep,
    /// Only the names of files that have such a line.
    pub names: bool,
}

/// What a jq filter makes of a JSON document or a sequence of JSON values, an output a line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Jq {
    /// The filter, in the language of jq as jaq knows it.
    pub filter: String,
    /// Strings are shown as they are, not as JSON.
    pub raw: bool,
    /// All values are one array.
    pub slurp: bool,
    /// The filter runs once, on `null`; it reads the values by `input` and `inputs`.
    pub null_input: bool,
    /// How many outputs to pass over first.
    pub skip: u64,
}

/// What a SQL statement makes of JSON lines, a JSON array, CSV or Parquet. The value is the table
/// `data`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sql {
    /// One `SELECT`, of SQLite's language.
    pub statement: String,
    /// How rows are shown.
    pub format: RowFormat,
    /// How the value is read; guessed by default, by its media type and how it begins.
    pub source: Option<RowSource>,
}

/// How rows are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowFormat {
    /// A JSON array of objects, a line each.
    #[default]
    Json,
    /// CSV with a header.
    Csv,
}

/// How rows are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowSource {
    /// JSON values one after the other, or one array of them.
    Json,
    /// Comma-separated values with a header.
    Csv,
    /// Tab-separated values with a header.
    Tsv,
    /// Parquet.
    Parquet,
}

impl Question {
    /// Checks what can be checked without the value.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let (what, program) = match self {
            Self::Head(_) | Self::Slice(_) | Self::Lines(_) => return self.check_places(),
            Self::Grep(grep) | Self::GrepFiles(GrepFiles { grep, .. }) => {
                ("pattern", &grep.pattern)
            }
            Self::Jq(jq) => ("filter", &jq.filter),
            Self::Sql(sql) => ("statement", &sql.statement),
        };

        if program.len() > PROGRAM_BYTES_MAX {
            let length = program.len();
            return Err(Error::invalid(format!(
                "the {what} has {length} bytes, {PROGRAM_BYTES_MAX} are allowed"
            )));
        }
        self.check_places()
    }

    fn check_places(&self) -> Result<(), Error> {
        let message = match self {
            Self::Head(Head { lines: Some(_), bytes: Some(_) }) => {
                "a head has lines or bytes, not both".to_owned()
            }
            Self::Head(Head { lines: Some(lines), .. }) if *lines > HEAD_LINES_MAX => {
                format!("a head has at most {HEAD_LINES_MAX} lines")
            }
            Self::Lines(Lines { from_line: 0, .. }) => "lines are counted from 1".to_owned(),
            Self::Grep(grep) | Self::GrepFiles(GrepFiles { grep, .. })
                if grep.before.max(grep.after) > CONTEXT_LINES_MAX =>
            {
                format!("a match has at most {CONTEXT_LINES_MAX} lines of context on a side")
            }
            Self::Grep(Grep { pattern, .. })
            | Self::GrepFiles(GrepFiles { grep: Grep { pattern, .. }, .. })
                if pattern.is_empty() =>
            {
                "the pattern is empty".to_owned()
            }
            _ => return Ok(()),
        };

        Err(Error::Invalid { message })
    }
}
