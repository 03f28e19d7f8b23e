//! Findings in the listing of one server that people or models should know of.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use toolbus_tools::hidden_text::HiddenCounts;

use super::pinned_item::PinnedItem;
use crate::catalogue::TOOL_NAME_BYTES_MAX;
use crate::eraser::shorten_text;
use crate::offer::PROMPT_NAME_BYTES_MAX;

/// Most places and names that are kept of one listing; of the others only their number.
pub(crate) const PLACES_MAX: usize = 50;
/// Longest name in a notice, in bytes.
const NAME_BYTES_MAX: usize = 80;

/// The findings of one listing. Two listings that are alike have equal findings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// What is held back.
    pub(crate) withheld: BTreeMap<PinnedItem, Withheld>,
    /// What has changed and was taken, with the difference; the last change of each.
    pub(crate) changed: Vec<(PinnedItem, Vec<String>)>,
    /// Where hidden characters were taken out.
    pub(crate) hidden: BoundedList<(String, HiddenCounts)>,
    /// Tools and prompts that were refused for a name of theirs.
    pub(crate) refused: BoundedList<(String, NameFault)>,
    /// Names and patterns of the operator's filter that match no tool.
    pub(crate) unmatched: BoundedList<String>,
    /// Tools and prompts that are not pinned, because there are too many.
    pub(crate) unpinned: usize,
    /// The pins cannot be kept.
    pub(crate) pins_unavailable: bool,
}

/// Why something is held back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Withheld {
    /// It was not there when the server was first seen.
    pub(crate) is_new: bool,
    /// Which members of its definition have changed, none when that is not known.
    pub(crate) members: Vec<&'static str>,
    /// The whole difference.
    pub(crate) difference: Vec<String>,
}

/// What is wrong with a name, so that its tool or prompt is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameFault {
    /// The name of a tool that is not of the protocol's alphabet, or too long.
    Alphabet,
    /// The name of a tool is a protocol method.
    Method,
    /// The name of a prompt is too long.
    Length,
    /// The name, or one of an argument, has hidden characters.
    Hidden,
}

/// A list that stays short, and says how much longer it would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BoundedList<T> {
    pub(crate) some: Vec<T>,
    pub(crate) more: usize,
}

/// Who reads notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A person, who sees everything.
    Operator,
    /// A model. It does not see the words of a definition that has not been accepted.
    Model,
}

impl<T> Default for BoundedList<T> {
    fn default() -> Self {
        Self { some: Vec::new(), more: 0 }
    }
}

impl<T> BoundedList<T> {
    pub(crate) fn push(&mut self, place: T) {
        if self.some.len() < PLACES_MAX {
            self.some.push(place);
        } else {
            self.more += 1;
        }
    }

    fn notice_more(&self, what: &str, notices: &mut Vec<String>) {
        if self.more > 0 {
            notices.push(format!("{} more {what}", self.more));
        }
    }
}

impl Withheld {
    /// Why, in a sentence without a word of the server's.
    pub(crate) fn reason(&self) -> String {
        if self.is_new {
            return "it is new".to_owned();
        }
        format!("it is not what it was when it was first seen ({} changed)", self.changed_parts())
    }

    /// What has changed, in a few words and none of the server's.
    fn changed_parts(&self) -> String {
        if self.members.is_empty() { "its definition".to_owned() } else { self.members.join(", ") }
    }

    /// The end of a notice.
    fn notice(&self, reader: Reader) -> String {
        let what = match (reader, self.is_new) {
            (Reader::Model, true) => return "it is new".to_owned(),
            (Reader::Model, false) => self.changed_parts(),
            (Reader::Operator, _) => self.difference.join("; "),
        };
        if self.is_new { format!("it is new: {what}") } else { format!("changed are {what}") }
    }
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alphabet => write!(
                f,
                "its name is not of 1 to {TOOL_NAME_BYTES_MAX} letters, digits and _ - . /"
            ),
            Self::Method => f.write_str(
                "its name is that of a protocol method, and rules cannot tell the two apart",
            ),
            Self::Length => {
                write!(f, "its name has not 1 to {PROMPT_NAME_BYTES_MAX} bytes")
            }
            Self::Hidden => f.write_str("hidden characters in a name"),
        }
    }
}

impl Findings {
    /// Adds a tool or a prompt that is refused.
    pub(crate) fn refuse(&mut self, what: String, why: NameFault) {
        self.refused.push((what, why));
    }

    /// Takes in what was found in something else that the server lists.
    pub(crate) fn add(&mut self, others: &Self) {
        others.hidden.some.iter().cloned().for_each(|place| self.hidden.push(place));
        self.hidden.more += others.hidden.more;
        others.refused.some.iter().cloned().for_each(|place| self.refused.push(place));
        self.refused.more += others.refused.more;
    }

    /// Everything, one line each. No line holds a hidden character.
    pub(crate) fn notices(&self, reader: Reader) -> Vec<String> {
        let mut notices = Vec::new();
        // The name of a prompt may be a sentence.
        let is_unnamed =
            |item: &PinnedItem| reader == Reader::Model && matches!(item, PinnedItem::Prompt(_));
        let named = self.withheld.iter().filter(|(item, _)| !is_unnamed(item));
        for (item, withheld) in named.clone().take(PLACES_MAX) {
            notices.push(format!("{item} is held back: {}", withheld.notice(reader)));
        }

        let named = named.count();
        if let more @ 1.. = named.saturating_sub(PLACES_MAX) {
            notices.push(format!("{more} more are held back"));
        }
        if let prompts @ 1.. = self.withheld.len() - named {
            notices.push(format!("{prompts} of its prompts are held back"));
        }

        for (item, difference) in self.changed.iter().take(PLACES_MAX) {
            let mut notice = format!("{item} has changed");
            if !difference.is_empty() {
                let _ = write!(notice, ": {}", difference.join("; "));
            }
            notices.push(notice);
        }

        if let more @ 1.. = self.changed.len().saturating_sub(PLACES_MAX) {
            notices.push(format!("{more} more have changed"));
        }

        match reader {
            Reader::Operator => {
                let refused = self.refused.some.iter();
                notices.extend(refused.map(|(what, why)| format!("{what} is refused: {why}")));
                self.refused.notice_more("are refused", &mut notices);
            }
            // Their names may be sentences.
            Reader::Model => {
                let count = self.refused.some.len() + self.refused.more;
                let what = "of its tools and prompts are refused for a name of theirs";
                notices.extend((count > 0).then(|| format!("{count} {what}")));
            }
        }

        let hidden = self.hidden.some.iter();
        notices.extend(
            hidden.map(|(place, found)| {
                format!("hidden characters were taken out of {place}: {found}")
            }),
        );

        self.hidden.notice_more("places had hidden characters", &mut notices);
        if reader == Reader::Operator {
            let unmatched = self.unmatched.some.iter().map(|text| quote_name(text));
            notices.extend(unmatched.map(|name| format!("{name} of its filter matches no tool")));
            self.unmatched.notice_more("names of its filter match no tool", &mut notices);
        }

        if self.unpinned > 0 {
            notices.push(format!("{} are too many to be pinned", self.unpinned));
        }

        if self.pins_unavailable {
            notices.push("what its tools are cannot be pinned here".to_owned());
        }

        notices
    }
}

/// A name of a server's in a notice: quoted, and not too long.
pub(crate) fn quote_name(name: &str) -> String {
    let name: String =
        shorten_text(name, NAME_BYTES_MAX).chars().flat_map(char::escape_debug).collect();
    format!("'{name}'")
}

#[cfg(test)]
mod tests;
