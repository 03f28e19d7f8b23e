//! The lines that match a pattern, by ripgrep's own crates.

use std::io::{self, Read};
use std::ops::Range;

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};

use super::bounded::{self, Pieces};
use super::text::{REPLACED_NOTE, lossy};
use super::{Refusal, Task};
use crate::question::Grep;
use crate::{Answer, More};

/// Largest compiled pattern.
const PATTERN_BYTES_MAX: usize = 16 << 20;
/// Largest cache of a pattern's automaton.
const AUTOMATON_BYTES_MAX: usize = 64 << 20;
/// Longest line that is shown as a whole.
const LINE_BYTES_MAX: usize = 500;
/// What a line that is cut shows before its match.
const BEFORE_MATCH_BYTES: usize = 150;

pub(super) fn answer(grep: &Grep, task: Task) -> Result<Answer, Refusal> {
    search(grep, task.source, task.answer_bytes)
}

fn search(grep: &Grep, value: impl Read, answer_bytes: usize) -> Result<Answer, Refusal> {
    let matcher = matcher(grep)?;
    let mut searcher = searcher(grep, !grep.count, BinaryDetection::convert(0));

    let mut found = Found::new(grep, &matcher, answer_bytes);
    searcher.search_reader(&matcher, value, &mut found)?;
    Ok(found.into_answer())
}

/// What matches the pattern.
pub(super) fn matcher(grep: &Grep) -> Result<RegexMatcher, Refusal> {
    RegexMatcherBuilder::new()
        .case_insensitive(grep.ignore_case)
        .fixed_strings(grep.fixed)
        .multi_line(true)
        .line_terminator(Some(b'\n'))
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(AUTOMATON_BYTES_MAX)
        .build(&grep.pattern)
        .map_err(|error| Refusal::Invalid(bounded::message(error)))
}

/// What finds the lines that match; with their numbers and what is around them where they are
/// shown.
pub(super) fn searcher(grep: &Grep, shows_lines: bool, binary: BinaryDetection) -> Searcher {
    SearcherBuilder::new()
        .line_number(shows_lines)
        .invert_match(grep.invert)
        .before_context(if shows_lines { grep.before as usize } else { 0 })
        .after_context(if shows_lines { grep.after as usize } else { 0 })
        .binary_detection(binary)
        .build()
}

/// A line as it is shown.
pub(super) struct ShownLine {
    pub(super) text: String,
    /// It is long, and was cut around its match.
    pub(super) is_cut: bool,
    /// Bytes of it are not UTF-8.
    pub(super) has_replaced: bool,
}

/// What a search has found so far.
struct Found<'a> {
    grep: &'a Grep,
    matcher: &'a RegexMatcher,
    pieces: Pieces,
    /// Matching lines, those that were skipped too.
    matches: u64,
    /// Matching lines that are shown.
    shown: u64,
    has_more: bool,
    cut: u64,
    any_replaced: bool,
    /// Where there is a NUL byte.
    binary_at: Option<u64>,
}

impl<'a> Found<'a> {
    fn new(grep: &'a Grep, matcher: &'a RegexMatcher, answer_bytes: usize) -> Self {
        Self {
            grep,
            matcher,
            pieces: Pieces::new(answer_bytes),
            matches: 0,
            shown: 0,
            has_more: false,
            cut: 0,
            any_replaced: false,
            binary_at: None,
        }
    }

    /// Shows a line after its number; whether there was room.
    fn show(&mut self, number: Option<u64>, mark: char, line: &[u8], matched: bool) -> bool {
        let number = number.unwrap_or_default();
        let matcher = (matched && !self.grep.invert).then_some(self.matcher);
        let line = ShownLine::of(line, matcher);

        self.cut += u64::from(line.is_cut);
        self.any_replaced |= line.has_replaced;
        self.pieces.push(&format!("{number}{mark}{}\n", line.text))
    }

    fn into_answer(self) -> Answer {
        let Self { grep, matches, shown, .. } = self;
        if grep.count {
            let text = format!("{matches}\n");
            let notes = self.binary_at.map(binary_note).into_iter().collect();
            return Answer { text, count: Some(matches), notes, ..Answer::default() };
        }

        let skip = grep.skip + shown;
        let more = self.has_more.then(|| More {
            hint: format!(
                "{shown} matching lines are shown; narrow the pattern, count them, or skip {skip}"
            ),
            skip: Some(skip),
            ..More::default()
        });
        let mut answer = self.pieces.into_answer(more);
        answer.count = Some(shown);
        if self.cut > 0 {
            answer.notes.push(format!("{} long lines were cut around their match", self.cut));
        }
        if self.any_replaced {
            answer.notes.push(REPLACED_NOTE.to_owned());
        }
        answer.notes.extend(self.binary_at.map(binary_note));
        answer
    }
}

fn binary_note(at: u64) -> String {
    format!(
        "the value is binary: it has a NUL byte around byte {at}, and lines behind that are not shown"
    )
}

impl ShownLine {
    /// A line without its end, cut around the match that `matcher` finds, or behind its beginning.
    pub(super) fn of(line: &[u8], matcher: Option<&RegexMatcher>) -> Self {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);

        let is_cut = line.len() > LINE_BYTES_MAX;
        let place = if is_cut {
            let found = matcher.and_then(|matcher| matcher.find(line).ok().flatten());
            around(line, found.map_or(0, |found| found.start()))
        } else {
            0..line.len()
        };
        let (shown, has_replaced) = lossy(&line[place.clone()]);

        let mut text = String::new();
        if place.start > 0 {
            text.push_str(&format!("[{} bytes]… ", place.start));
        }
        text.push_str(&shown);
        if place.end < line.len() {
            text.push_str(&format!(" …[{} bytes]", line.len() - place.end));
        }
        Self { text, is_cut, has_replaced }
    }
}

/// The part of a long line to show for a match, on boundaries of characters where it has some.
fn around(line: &[u8], at: usize) -> Range<usize> {
    let is_boundary = |at: &usize| line.get(*at).is_none_or(|byte| byte & 0xC0 != 0x80);
    let boundary = |at: usize| (at.saturating_sub(3)..=at).rev().find(is_boundary).unwrap_or(at);

    let start = at.saturating_sub(BEFORE_MATCH_BYTES);
    let end = (start + LINE_BYTES_MAX).min(line.len());
    let start = end.saturating_sub(LINE_BYTES_MAX).min(start);
    boundary(start)..boundary(end)
}

impl Sink for &mut Found<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.matches += 1;
        if self.grep.count || self.matches <= self.grep.skip {
            return Ok(true);
        }
        if self.binary_at.is_some() {
            // Lines of what is no text help nobody.
            self.has_more = false;
            return Ok(false);
        }

        self.has_more = self.shown == self.grep.max_matches
            || !self.show(found.line_number(), ':', found.bytes(), true);
        if !self.has_more {
            self.shown += 1;
        }
        Ok(!self.has_more)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let is_skipped = self.matches < self.grep.skip
            || (self.shown == 0 && *context.kind() == SinkContextKind::After);
        if self.grep.count || self.binary_at.is_some() || is_skipped {
            return Ok(true);
        }

        self.has_more = !self.show(context.line_number(), '-', context.bytes(), false);
        Ok(!self.has_more)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if self.shown > 0 && !self.grep.count {
            self.pieces.push_uncounted("--\n");
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, at: u64) -> io::Result<bool> {
        self.binary_at.get_or_insert(at);
        Ok(true)
    }
}

/// Searches a value. What is shown of it is bounded.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(pattern: &str, value: &[u8], answer_bytes: usize) {
    let pattern = pattern.to_owned();
    let grep = Grep { pattern, before: 1, after: 1, max_matches: 9, ..Grep::default() };
    if let Ok(answer) = search(&grep, value, answer_bytes) {
        assert!(answer.text.len() <= answer_bytes);
    }
}
