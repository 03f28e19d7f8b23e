//! Log filters.

use std::fmt;

use tracing_subscriber::filter::Targets;

use super::{TextValue, text_value};

/// Which log lines are written: a level, or directives such as `info,toolbus_bus=debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter(String);

impl LogFilter {
    /// The directives as text, known to parse.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TextValue for LogFilter {
    const FORMAT: &'static str = "log-filter";
    const WHAT: &'static str = "a log filter";
    const EXAMPLES: &'static [&'static str] = &["debug", "info,toolbus_bus=debug"];
    const SENSITIVE: bool = false;

    fn read(text: &str) -> Result<Self, String> {
        // An empty directive would be one for everything.
        let directives: Vec<&str> =
            text.split(',').map(str::trim).filter(|directive| !directive.is_empty()).collect();

        let directives = directives.join(",");

        match directives.parse::<Targets>() {
            _ if directives.is_empty() => Err("it says nothing".to_owned()),
            Ok(_) => Ok(Self(directives)),
            Err(error) => Err(error.to_string()),
        }
    }
}

text_value!(LogFilter);
