//! Text of strangers as a terminal may have it.
//!
//! What a tool returns can hold sequences that a terminal obeys: they set its title or clipboard,
//! move the cursor over what was printed before, or turn the direction of the text. Piped output is
//! data and stays as it is; what a person reads on a terminal passes through [`clean`].

use std::borrow::Cow;
use std::io::IsTerminal;

use toolbus_tools::hidden_text::{self, HiddenKind};

/// The text without control sequences, control characters and invisible characters, where `stream`
/// is a terminal; else the text as it is.
pub(crate) fn for_stream<'a>(text: &'a str, stream: &impl IsTerminal) -> Cow<'a, str> {
    if stream.is_terminal() { Cow::Owned(clean(text)) } else { Cow::Borrowed(text) }
}

/// The text without control sequences, control characters and invisible characters. Line ends and
/// tabs stay.
pub(crate) fn clean(text: &str) -> String {
    let text = hidden_text::without_control_sequences(text);
    text.chars().filter(|c| is_printable(*c)).collect()
}

/// Whether a terminal shows this character and does nothing else because of it.
pub(crate) fn is_printable(c: char) -> bool {
    matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(c))
}

/// Characters that change the direction of text or hide in it, so that it reads as another text.
/// Terminals display the other invisible characters (emoji selectors, private use) with their font.
fn is_invisible(c: char) -> bool {
    let kind = hidden_text::invisible_kind(c);
    kind.is_some_and(|kind| !matches!(kind, HiddenKind::VariationSelector | HiddenKind::PrivateUse))
}

#[cfg(test)]
mod tests;
