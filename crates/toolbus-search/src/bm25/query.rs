//! What is looked for: the terms of a query, and its phrases.

use super::{TOKEN_CHARS_MIN, runs};

/// Longest query that is read, in bytes; the rest of a longer one is not looked for.
pub const QUERY_BYTES_MAX: usize = 16 << 10;
/// Most terms of a query, and most phrases. Those beyond are not looked for.
pub const QUERY_TERMS_MAX: usize = 128;

/// The terms and phrases of a query, each once, in the order in which they come.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) terms: Vec<String>,
    pub(super) phrases: Vec<Phrase>,
}

/// Two tokens that follow each other in a query, whatever short words were between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Phrase {
    pub(super) first: String,
    pub(super) second: String,
}

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let text = text[..text.floor_char_boundary(QUERY_BYTES_MAX)].to_ascii_lowercase();
        let tokens = runs(text.as_bytes()).filter(|run| run.len() >= TOKEN_CHARS_MIN);
        let mut query = Self::default();
        let mut previous: Option<String> = None;

        for run in tokens {
            let token = text[run].to_owned();
            if query.terms.len() < QUERY_TERMS_MAX && !query.terms.contains(&token) {
                query.terms.push(token.clone());
            }
            if let Some(first) = previous.replace(token.clone()) {
                let phrase = Phrase { first, second: token };
                if query.phrases.len() < QUERY_TERMS_MAX && !query.phrases.contains(&phrase) {
                    query.phrases.push(phrase);
                }
            }
        }
        query
    }
}

impl Phrase {
    /// As it stands in a text.
    pub(super) fn text(&self) -> String {
        format!("{} {}", self.first, self.second)
    }

    /// Whether two places of it can overlap: its end is a beginning of it. Then a place does not
    /// count that begins within the one before.
    pub(super) fn can_overlap(&self) -> bool {
        let shorter = self.first.len().min(self.second.len());
        (1..=shorter).any(|length| {
            self.second.as_bytes()[self.second.len() - length..] == self.first.as_bytes()[..length]
        })
    }
}
