//! The lines of many files that match a pattern, by ripgrep's own crates.

use std::io::{self, BufReader, Read};

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, Sink, SinkContext, SinkContextKind, SinkMatch};

use super::bounded::Pieces;
use super::grep::{self, ShownLine};
use super::text::REPLACED_NOTE;
use super::{Refusal, Task};
use crate::files::{FILE_NAME_BYTES_MAX, PIECE_BYTES_MAX};
use crate::question::GrepFiles;
use crate::{Answer, More};

/// What is read of the pipe at a time.
const BUFFER_BYTES: usize = 64 << 10;

pub(super) fn answer(question: &GrepFiles, task: Task) -> Result<Answer, Refusal> {
    search(question, task.source, task.answer_bytes)
}

fn search(question: &GrepFiles, value: impl Read, answer_bytes: usize) -> Result<Answer, Refusal> {
    let matcher = grep::matcher(&question.grep)?;
    let shows_lines = !question.names && !question.grep.count;
    let mut searcher = grep::searcher(&question.grep, shows_lines, BinaryDetection::quit(0));

    let mut files = FilesReader::new(value);
    let mut found = Found::new(question, &matcher, answer_bytes);
    while let Some(name) = files.next_file()? {
        found.begin_file(name);
        searcher.search_reader(&matcher, &mut files, &mut found)?;
        if !shows_lines {
            found.show_file();
        }
        if found.has_more {
            break;
        }
    }
    Ok(found.into_answer())
}

/// Reads one file after the other; what is left of one is passed over for the next.
struct FilesReader<R> {
    from: BufReader<R>,
    /// How many bytes of the piece are left.
    left: usize,
    /// No file has begun, or it has ended.
    is_between: bool,
}

impl<R: Read> FilesReader<R> {
    fn new(from: R) -> Self {
        Self { from: BufReader::with_capacity(BUFFER_BYTES, from), left: 0, is_between: true }
    }

    /// The name of the next file; `None` where there are no more.
    fn next_file(&mut self) -> io::Result<Option<String>> {
        io::copy(self, &mut io::sink())?;
        let Some(length) = self.next_length(FILE_NAME_BYTES_MAX)? else { return Ok(None) };

        let mut name = vec![0; length];
        self.from.read_exact(&mut name)?;
        self.is_between = false;
        Ok(Some(String::from_utf8_lossy(&name).into_owned()))
    }

    /// The length before a name or a piece; `None` at the end of the stream.
    fn next_length(&mut self, max: usize) -> io::Result<Option<usize>> {
        let mut length = [0; 4];
        if self.from.read(&mut length[..1])? == 0 {
            return Ok(None);
        }
        self.from.read_exact(&mut length[1..])?;

        let length = u32::from_le_bytes(length) as usize;
        if length > max {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Some(length))
    }
}

impl<R: Read> Read for FilesReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.is_between {
            let length = self.next_length(PIECE_BYTES_MAX)?;
            self.left = length.ok_or(io::ErrorKind::UnexpectedEof)?;
            self.is_between = self.left == 0;
        }
        if self.is_between || buffer.is_empty() {
            return Ok(0);
        }

        let wanted = buffer.len().min(self.left);
        let length = self.from.read(&mut buffer[..wanted])?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= length;
        Ok(length)
    }
}

/// What a search has found so far.
struct Found<'a> {
    question: &'a GrepFiles,
    matcher: &'a RegexMatcher,
    pieces: Pieces,
    /// The file that is searched.
    name: String,
    /// Matching lines of it.
    in_file: u64,
    /// Its lines are set apart from those of the file before.
    needs_separator: bool,
    /// Matching lines, or files that have some, those that were skipped too.
    matches: u64,
    /// The same, those that are shown.
    shown: u64,
    has_more: bool,
    cut: u64,
    any_replaced: bool,
}

impl<'a> Found<'a> {
    fn new(question: &'a GrepFiles, matcher: &'a RegexMatcher, answer_bytes: usize) -> Self {
        Self {
            question,
            matcher,
            pieces: Pieces::new(answer_bytes),
            name: String::new(),
            in_file: 0,
            needs_separator: false,
            matches: 0,
            shown: 0,
            has_more: false,
            cut: 0,
            any_replaced: false,
        }
    }

    fn begin_file(&mut self, name: String) {
        self.name = name;
        self.in_file = 0;
        let grep = &self.question.grep;
        self.needs_separator = self.shown > 0 && (grep.before > 0 || grep.after > 0);
    }

    fn shows_lines(&self) -> bool {
        !self.question.names && !self.question.grep.count
    }

    /// Counts what matched, and shows it unless it is to be skipped.
    fn show_match(&mut self, show: impl FnOnce(&mut Self) -> bool) {
        self.matches += 1;
        if self.matches <= self.question.grep.skip {
            return;
        }

        self.has_more = self.shown == self.question.grep.max_matches || !show(self);
        if !self.has_more {
            self.shown += 1;
        }
    }

    /// Shows the name of the file that was searched, if it has matches.
    fn show_file(&mut self) {
        if self.in_file == 0 {
            return;
        }
        self.show_match(|found| {
            let Self { name, in_file, .. } = &*found;
            let line = if found.question.names {
                format!("{name}\n")
            } else {
                format!("{name}:{in_file}\n")
            };
            found.pieces.push(&line)
        });
    }

    /// Shows a line after the name of its file and its number; whether there was room.
    fn show_line(&mut self, number: Option<u64>, mark: char, line: ShownLine) -> bool {
        if std::mem::take(&mut self.needs_separator) {
            self.pieces.push_uncounted("--\n");
        }

        self.cut += u64::from(line.is_cut);
        self.any_replaced |= line.has_replaced;
        let (name, number) = (&self.name, number.unwrap_or_default());
        self.pieces.push(&format!("{name}{mark}{number}{mark}{}\n", line.text))
    }

    fn into_answer(self) -> Answer {
        let what = if self.shows_lines() { "matching lines" } else { "files" };
        let Self { question, shown, .. } = self;
        let skip = question.grep.skip + shown;
        let more = self.has_more.then(|| More {
            hint: format!("{shown} {what} are shown; narrow the pattern, or skip {skip}"),
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
        answer
    }
}

impl Sink for &mut Found<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.in_file += 1;
        if !self.shows_lines() {
            return Ok(!self.question.names);
        }

        let matcher = (!self.question.grep.invert).then_some(self.matcher);
        let number = found.line_number();
        self.show_match(|all| all.show_line(number, ':', ShownLine::of(found.bytes(), matcher)));
        Ok(!self.has_more)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let is_after = *context.kind() == SinkContextKind::After;
        if self.matches < self.question.grep.skip || (self.shown == 0 && is_after) {
            return Ok(true);
        }

        let line = ShownLine::of(context.bytes(), None);
        self.has_more = !self.show_line(context.line_number(), '-', line);
        Ok(!self.has_more)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if self.shown > 0 {
            self.pieces.push_uncounted("--\n");
        }
        Ok(true)
    }
}

/// Searches files. What is shown of them is bounded.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(pattern: &str, files: &[u8], answer_bytes: usize) {
    let pattern = pattern.to_owned();
    let grep = crate::question::Grep { pattern, before: 1, after: 1, ..Default::default() };
    for names in [false, true] {
        let question = GrepFiles { grep: grep.clone(), names };
        if let Ok(answer) = search(&question, files, answer_bytes) {
            assert!(answer.text.len() <= answer_bytes);
        }
    }
}

/// Writes a file, where its name is one, and reads it: it is the same, and the only one.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_file(name: &str, content: &[u8]) {
    let mut written = Vec::new();
    let mut writer = crate::FilesWriter::new(&mut written);
    if writer.begin_file(name).is_err() {
        return;
    }
    writer.write_bytes(content).expect("memory takes it");
    writer.end_file().expect("memory takes it");

    let mut reader = FilesReader::new(written.as_slice());
    assert_eq!(reader.next_file().expect("a file").as_deref(), Some(name));
    let mut read = Vec::new();
    reader.read_to_end(&mut read).expect("its content");
    assert_eq!(read, content);
    assert_eq!(reader.next_file().expect("the end"), None);
}
