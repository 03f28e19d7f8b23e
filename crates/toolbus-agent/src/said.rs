//! The text that begins a turn: words that a person typed, or text from outside.

use toolbus_models::outside::OutsideText;
use toolbus_tools::{ForeignText, Lineage, Nonce};

use crate::conversation::{Event, Occasion, Outside};

/// The beginning of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The text, by its author.
    pub words: Words,
    /// Id of a text that may be delivered twice. The second delivery gets the same answer.
    pub id: Option<String>,
}

/// The text that begins a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Words {
    /// Words that a person typed. The model reads them as a message of the user.
    Person(String),
    /// Text from outside. The model reads it as the result of a call, between marks.
    Outside(Occasion, OutsideText),
}

impl Said {
    /// Begins a turn with words that a person typed.
    #[must_use]
    pub fn by_person(text: String, id: Option<String>) -> Self {
        Self { words: Words::Person(text), id }
    }

    /// Begins a turn with text from outside.
    #[must_use]
    pub fn from_outside(occasion: Occasion, text: OutsideText, id: String) -> Self {
        Self { words: Words::Outside(occasion, text), id: Some(id) }
    }

    /// Returns the event that begins the turn. The nonce is drawn here, after all text from outside
    /// was written.
    pub(crate) fn into_event(self, hint: Option<ForeignText>, lineage: Lineage) -> Event {
        let Self { words, id } = self;
        let (text, outside) = match words {
            Words::Person(text) => (text, None),
            Words::Outside(occasion, OutsideText { from, text }) => {
                (text.into_string(), Some(Outside { occasion, from }))
            }
        };
        let (nonce, lineage) = (Some(Nonce::random()), Some(lineage));
        Event::Said { text, outside, nonce, hint, id, lineage }
    }
}

impl Words {
    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Person(text) => text,
            Self::Outside(_, OutsideText { text, .. }) => text.as_str(),
        }
    }
}

impl From<String> for Said {
    fn from(text: String) -> Self {
        Self::by_person(text, None)
    }
}
