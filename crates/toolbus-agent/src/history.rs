//! What was said in a session, and how it is made shorter for a model that cannot read all of it.
//!
//! First large results are cut, the largest first: a tool can be called again. Then whole turns go,
//! the oldest first, and at last the oldest rounds of the turn that is under way. Calls and their
//! results go together, so no call is ever without its result.

use std::ops::Range;
use std::sync::Arc;

use toolbus_models::message::{Message, ToolResult};
use toolbus_models::outside::{OutsideText, outside_messages};
use toolbus_tools::Nonce;
use toolbus_tools::foreign_text::end_of_fence;

/// Stands at the end of a result that was cut.
const CUT: &str = "\n[truncated to fit context window]";
/// Stands in the place of what went.
const LEFT_OUT: &str = "[Earlier messages were left out, because they no longer fit.]";
/// What stays of a result that is cut, in characters.
const CUT_RESULT_CHARACTERS: usize = 2_000;

/// The messages of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    messages: Vec<Arc<Message>>,
    /// Where turns begin, in order.
    turns: Vec<usize>,
    /// Messages that begin the last turn. They stay for the whole turn.
    opening: usize,
    /// Number of texts from outside so far.
    outside: usize,
}

impl History {
    pub(crate) fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// Adds the message of a person, which begins a turn.
    pub(crate) fn begin_turn(&mut self, text: String) {
        self.turns.push(self.messages.len());
        self.push(Message::User { text });
        self.opening = 1;
    }

    /// Begins a turn with fixed words of Toolbus, followed by a text from outside.
    pub(crate) fn begin_outside(&mut self, words: &'static str, text: OutsideText, nonce: &Nonce) {
        self.begin_turn(words.to_owned());
        self.push_outside(&[text], nonce);
        self.opening = 3;
    }

    /// Adds texts from outside to the turn: a call made for the model, and its results.
    pub(crate) fn push_outside(&mut self, texts: &[OutsideText], nonce: &Nonce) {
        let [call, results] = outside_messages(texts, nonce, self.outside + 1);
        self.outside += texts.len();
        self.push(call);
        self.push(results);
    }

    /// Adds fixed words of Toolbus to the turn.
    pub(crate) fn push_words(&mut self, words: &'static str) {
        self.push(Message::user(words));
    }

    /// Adds a message to the turn.
    pub(crate) fn push(&mut self, message: Message) {
        self.messages.push(Arc::new(message));
    }

    /// Makes the messages shorter by one step. `false`: they cannot be.
    pub(crate) fn shorten(&mut self) -> bool {
        self.cut_results() || self.drop_turns() || self.drop_rounds()
    }

    /// Cuts the largest results, until half of what all of them had is gone.
    fn cut_results(&mut self) -> bool {
        let mut large: Vec<(usize, usize, usize)> = Vec::new();
        let mut bytes = 0;
        let opening = self.opening_of(self.turns.last().copied().unwrap_or_default());
        for (at, message) in self.messages.iter().enumerate() {
            // The task of a turn may be the result of a call.
            if opening.contains(&at) {
                continue;
            }
            let Message::Results { results } = &**message else { continue };
            for (number, result) in results.iter().enumerate() {
                bytes += result.text.len();
                // What is as long as one that was cut is not cut again.
                if result.text.chars().nth(CUT_RESULT_CHARACTERS + CUT.len()).is_some() {
                    large.push((result.text.len(), at, number));
                }
            }
        }
        large.sort_unstable_by(|one, other| other.cmp(one));

        let mut gone = 0;
        for (length, at, number) in &large {
            if gone * 2 >= bytes {
                break;
            }
            let Message::Results { results } = &*self.messages[*at] else { continue };
            let mut results = results.clone();
            cut(&mut results[*number]);
            gone += length.saturating_sub(results[*number].text.len());
            self.messages[*at] = Arc::new(Message::Results { results });
        }
        !large.is_empty()
    }

    /// Drops the older half of the turns before the last one.
    fn drop_turns(&mut self) -> bool {
        let Some(before) = self.turns.len().checked_sub(1).filter(|before| *before > 0) else {
            return false;
        };
        let dropped = before.div_ceil(2);
        self.turns.drain(..dropped);
        let end = self.turns[0];
        self.replace_start(end);
        true
    }

    /// Drops the older half of the rounds before the last one, of the only turn that there is.
    fn drop_rounds(&mut self) -> bool {
        let Some(begin) = self.turns.first().copied() else { return false };
        let opening = self.opening_of(begin);
        let rounds: Vec<usize> = (opening.end..self.messages.len())
            .filter(|at| matches!(&*self.messages[*at], Message::Results { .. }))
            .collect();
        let Some(before) = rounds.len().checked_sub(1).filter(|before| *before > 0) else {
            return false;
        };
        let end = rounds[before.div_ceil(2) - 1] + 1;
        let opening = self.messages[opening].to_vec();
        self.replace_start(end);
        self.messages.splice(1..1, opening);
        self.turns = vec![1];
        true
    }

    /// Returns the range of the messages that begin the last turn, which starts at `begin`.
    fn opening_of(&self, begin: usize) -> Range<usize> {
        begin..begin + self.opening
    }

    /// Puts one message in the place of all before this one.
    fn replace_start(&mut self, end: usize) {
        self.messages.splice(..end, [Arc::new(Message::user(LEFT_OUT))]);
        for turn in &mut self.turns {
            *turn = turn.saturating_sub(end) + 1;
        }
    }
}

/// Truncates a result. The end of a fence stays.
fn cut(result: &mut ToolResult) {
    let end_of_fence = end_of_fence(&result.text).unwrap_or_default();
    let kept = CUT_RESULT_CHARACTERS.saturating_sub(end_of_fence.len());
    if let Some((end, _)) = result.text.char_indices().nth(kept) {
        result.text.truncate(end);
        result.text.push_str(CUT);
        result.text.push_str(&end_of_fence);
    }
}

#[cfg(test)]
mod tests;
