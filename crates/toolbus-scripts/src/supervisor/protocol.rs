//! The protocol between a runner and the supervisor of a script.
//!
//! The other half is `supervisor.py`, which describes both directions. Invariants: a line that does
//! not begin with the nonce of its supervisor is ignored; a gap in the numbers means that output
//! was lost on the way, and is an error, never skipped.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use toolbus_json::Limits;

use crate::files::{ENTRIES_MAX, FILES_BYTES_MAX, FILES_MAX, File, NAME_BYTES_MAX};
use crate::runner::{Ending, KernelObject, OUTPUT_BYTES_MAX, Script, Stream, Usage};

/// Most bytes of one line: a piece of output in base64, and what stands before it.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Most reports that are taken at once. The streams from supervisors are read in pieces of some
/// ten kibibytes, which have a few thousand at the most.
const REPORTS_MAX: usize = 16 << 10;
/// What a line says of the end of a script: a few numbers.
const END_LIMITS: Limits = Limits::of_bytes(LINE_BYTES_MAX).with_values(1_000);

/// The limits of one script, as they are sent to its supervisor: numbers, all of them.
#[derive(Debug, Clone, Serialize)]
pub struct ScriptLimits {
    /// How long it may run.
    pub timeout_ms: u64,
    /// How much of each stream is sent.
    pub output_bytes: usize,
    /// What all its processes and files may hold together, where nothing else bounds it; else 0.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub processes: u32,
    /// Open descriptors of each process.
    pub open_files: u32,
    /// The largest file that it may write.
    pub file_bytes: u64,
    /// Address space of each process.
    pub address_space_bytes: u64,
    /// Files and folders that it may have at a time.
    pub inodes: u32,
    /// Locks on files that it may have at a time.
    pub file_locks: u32,
    /// 1 where there is a folder of packages, else 0.
    pub packages: u32,
    /// Of files that come back: most of them, most bytes together, longest name, most entries of
    /// their folder.
    pub files: usize,
    /// As above.
    pub files_bytes: usize,
    /// As above.
    pub name_bytes: usize,
    /// As above.
    pub entries: usize,
}

impl ScriptLimits {
    /// What a script may use everywhere, unless its runner says otherwise.
    #[must_use]
    pub fn new(timeout: Duration) -> Self {
        Self {
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            output_bytes: OUTPUT_BYTES_MAX,
            memory_bytes: 0,
            processes: 64,
            open_files: 256,
            file_bytes: 64 << 20,
            address_space_bytes: 4 << 30,
            inodes: 16_384,
            file_locks: 4096,
            packages: 0,
            files: FILES_MAX,
            files_bytes: FILES_BYTES_MAX,
            name_bytes: NAME_BYTES_MAX,
            entries: ENTRIES_MAX,
        }
    }
}

/// Asks whether the supervisor listens, and gives it the nonce of its answers.
#[must_use]
pub fn hello_message(nonce: &str) -> Bytes {
    single_frame(b'H', nonce.as_bytes())
}

/// Hands over the script and all it needs, which the supervisor confirms. The script starts with
/// [`go_message`].
#[must_use]
pub fn prepare_message(settings: &ScriptLimits, script: &Script) -> Bytes {
    let mut request = script_frames(settings, script);
    append_frame(&mut request, b'C', b"");
    request.into()
}

/// Starts the script that was handed over.
#[must_use]
pub fn go_message() -> Bytes {
    single_frame(b'G', b"")
}

/// Hands over the script and all it needs; it starts when this has arrived.
#[must_use]
pub fn start_message(settings: &ScriptLimits, script: &Script) -> Bytes {
    let mut request = script_frames(settings, script);
    append_frame(&mut request, b'G', b"");
    request.into()
}

fn script_frames(settings: &ScriptLimits, script: &Script) -> Vec<u8> {
    let channel = u32::from(script.prelude.is_some());
    let settings = format!("{}channel {channel}\n", limit_lines(settings));
    // No name has a zero byte in it.
    let file = |file: &File| [file.name.as_str().as_bytes(), &file.content].join(&0);
    let files: Vec<Vec<u8>> = script.files.iter().map(file).collect();
    let source = script.source.as_bytes();
    let input = script.input.as_bytes();
    let mut parts = vec![(b'L', settings.as_bytes()), (b'S', source), (b'I', input)];

    parts.extend(script.prelude.iter().map(|prelude| (b'P', prelude.as_bytes())));
    parts.extend(files.iter().map(|file| (b'F', file.as_slice())));
    let length: usize = parts.iter().map(|(_, body)| 5 + body.len()).sum();
    // And what comes behind.
    let mut request = Vec::with_capacity(length + 5);

    for (kind, body) in parts {
        append_frame(&mut request, kind, body);
    }

    request
}

/// A line for each number. The supervisor has no parser at hand that would not take
/// long to load.
fn limit_lines(settings: &ScriptLimits) -> String {
    let settings = serde_json::to_value(settings).expect("numbers can be written as JSON");
    let members = settings.as_object().into_iter().flatten();
    members.map(|(name, number)| format!("{name} {number}\n")).collect()
}

/// Ends the script.
#[must_use]
pub fn kill_message() -> Bytes {
    single_frame(b'K', b"")
}

/// The response to a request of the script.
#[must_use]
pub fn response_message(number: u32, body: &[u8]) -> Bytes {
    single_frame(b'R', &[&number.to_be_bytes(), body].concat())
}

/// Asks for a [`Report::Mark`] of this text, a word: what is reported before it was reported
/// before this was sent, or soon after.
#[must_use]
pub fn mark_message(text: &str) -> Bytes {
    single_frame(b'M', text.as_bytes())
}

/// Acknowledges the end.
#[must_use]
pub fn acknowledge_message() -> Bytes {
    single_frame(b'A', b"")
}

fn single_frame(kind: u8, body: &[u8]) -> Bytes {
    let mut message = Vec::with_capacity(5 + body.len());
    append_frame(&mut message, kind, body);
    message.into()
}

fn append_frame(message: &mut Vec<u8>, kind: u8, body: &[u8]) {
    let length = u32::try_from(body.len()).expect("the runner bounds scripts, inputs and files");
    message.push(kind);
    message.extend_from_slice(&length.to_be_bytes());
    message.extend_from_slice(body);
}

/// A report of a supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// It listens.
    Ready,
    /// It has a script, which has not started.
    Taken,
    /// The script runs.
    Started,
    /// The script wrote this.
    Output(Stream, Vec<u8>),
    /// The next piece of a request of the script to its caller, which has this number.
    Request {
        /// Counts the requests of a script, from 0 on.
        number: u32,
        /// A part of its body.
        piece: Vec<u8>,
        /// Whether it is the last.
        is_last: bool,
    },
    /// The script has been handed the response to the request of this number.
    Answered(u32),
    /// The script sends no more requests and takes no more responses.
    Closed,
    /// The mark of a [`mark_message`].
    Mark(String),
    /// The script is over; what it left follows.
    Over,
    /// The script left a file of this name and size.
    File(Vec<u8>, u64),
    /// The next piece of that file.
    Part(Vec<u8>),
    /// The script left something that does not come back: its name, and why.
    Omitted(Vec<u8>, Vec<u8>),
    /// The script ended, and all has been reported.
    Ended(ScriptEnd),
}

/// How a script ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptEnd {
    /// The way in which it ended.
    pub ending: Ending,
    /// Wall time from its start to its end.
    pub elapsed: Duration,
    /// What it used.
    pub usage: Usage,
}

/// Why what a supervisor wrote cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Something is missing between two lines.
    #[error("output was lost on its way: line {expected} is missing")]
    Gap {
        /// The number that should have come.
        expected: u64,
    },
    /// A line of it that says nothing known.
    #[error("an unknown report: {0}")]
    Unknown(String),
    /// A line that is longer than any of a supervisor.
    #[error("a line of more than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// More than a supervisor writes at once.
    #[error("more than {REPORTS_MAX} reports at once")]
    TooMany,
}

/// Parses reports out of the bytes that a supervisor wrote.
#[derive(Debug)]
pub struct ReportReader {
    nonce: String,
    /// What is not a whole line yet.
    pending: Vec<u8>,
    /// `None` until it says that it listens.
    next: Option<u64>,
}

impl ReportReader {
    /// A reader of all reports, from the first.
    #[must_use]
    pub fn new(nonce: &str) -> Self {
        Self { nonce: nonce.to_owned(), pending: Vec::new(), next: Some(0) }
    }

    /// A reader from the next `ready` on, which may have been reported before on another
    /// connection.
    #[must_use]
    pub fn joining_late(nonce: &str) -> Self {
        Self { next: None, ..Self::new(nonce) }
    }

    /// Takes bytes and gives the reports that they complete, up to the first mistake.
    ///
    /// # Errors
    /// When something is missing or unknown; what comes later cannot be used either.
    pub fn accept(&mut self, bytes: &[u8]) -> Result<Vec<Report>, Error> {
        let mut reports = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let whole = part.strip_suffix(b"\n");
            let piece = whole.unwrap_or(part);
            if self.pending.len() + piece.len() > LINE_BYTES_MAX {
                return Err(Error::TooLong);
            }

            self.pending.extend_from_slice(piece);
            if whole.is_none() {
                break;
            }
            let line = std::mem::take(&mut self.pending);
            let Some(report) = self.parse_line(&line)? else { continue };
            if reports.len() == REPORTS_MAX {
                return Err(Error::TooMany);
            }
            reports.push(report);
        }

        Ok(reports)
    }

    fn parse_line(&mut self, line: &[u8]) -> Result<Option<Report>, Error> {
        let Some((number, word, text)) = self.split_line(line) else { return Ok(None) };
        let expected = match self.next {
            Some(expected) => expected,
            None if word == "ready" => number,
            None => return Ok(None),
        };

        if number != expected {
            return Err(Error::Gap { expected });
        }

        let unknown =
            || Error::Unknown(format!("{word} {}", text.chars().take(100).collect::<String>()));
        self.next = Some(number.checked_add(1).ok_or_else(unknown)?);

        let report = match word {
            "ready" => Report::Ready,
            "taken" => Report::Taken,
            "started" => Report::Started,
            "out" | "err" => {
                let stream = if word == "out" { Stream::Stdout } else { Stream::Stderr };
                Report::Output(stream, STANDARD.decode(text).map_err(|_| unknown())?)
            }
            "ask" => parse_request(text).ok_or_else(unknown)?,
            "answered" => Report::Answered(text.parse().map_err(|_| unknown())?),
            "closed" => Report::Closed,
            "mark" => Report::Mark(text.to_owned()),
            "over" => Report::Over,
            "file" => {
                let (name, bytes) = text.split_once(' ').ok_or_else(unknown)?;
                let bytes = bytes.parse().map_err(|_| unknown())?;
                Report::File(STANDARD.decode(name).map_err(|_| unknown())?, bytes)
            }
            "part" => Report::Part(STANDARD.decode(text).map_err(|_| unknown())?),
            "omitted" => {
                let (name, reason) = text.split_once(' ').ok_or_else(unknown)?;
                let decode = |text| STANDARD.decode(text).map_err(|_| unknown());
                Report::Omitted(decode(name)?, decode(reason)?)
            }
            "end" => Report::Ended(parse_end(text).ok_or_else(unknown)?),
            _ => return Err(unknown()),
        };

        Ok(Some(report))
    }

    /// Number, word and text of a line.
    fn split_line<'a>(&self, line: &'a [u8]) -> Option<(u64, &'a str, &'a str)> {
        let line = std::str::from_utf8(line).ok()?;
        let rest = line.strip_prefix(&self.nonce)?.strip_prefix(' ')?;
        let mut parts = rest.splitn(3, ' ');
        Some((parts.next()?.parse().ok()?, parts.next()?, parts.next().unwrap_or_default()))
    }
}

/// Number, whether more follows, and a piece.
fn parse_request(text: &str) -> Option<Report> {
    let mut parts = text.splitn(3, ' ');
    let number = parts.next()?.parse().ok()?;
    let is_last = match parts.next()? {
        "more" => false,
        "last" => true,
        _ => return None,
    };
    let piece = STANDARD.decode(parts.next()?).ok()?;

    Some(Report::Request { number, piece, is_last })
}

#[derive(Deserialize)]
struct WireEnd {
    elapsed_ms: u64,
    cpu_ms: u64,
    memory_peak: u64,
    cause: Option<String>,
    signal: Option<i32>,
    code: Option<i32>,
}

fn parse_end(text: &str) -> Option<ScriptEnd> {
    let end: WireEnd = toolbus_json::from_str(text, &END_LIMITS).ok()?;
    let ending = match (end.cause.as_deref(), end.signal, end.code) {
        (Some("timed_out"), ..) => Ending::TimedOut,
        (Some("cancelled"), ..) => Ending::Cancelled,
        (Some("out_of_memory"), ..) => Ending::OutOfMemory,
        (Some("too_many_files"), ..) => Ending::TooMany(KernelObject::Files),
        (Some("too_many_file_locks"), ..) => Ending::TooMany(KernelObject::FileLocks),
        (None, Some(signal), None) => Ending::Killed { signal },
        (None, None, Some(code)) => Ending::Exited(code),
        _ => return None,
    };

    let usage = Usage { cpu: Duration::from_millis(end.cpu_ms), memory_peak: end.memory_peak };
    Some(ScriptEnd { ending, elapsed: Duration::from_millis(end.elapsed_ms), usage })
}

#[cfg(test)]
mod tests;
