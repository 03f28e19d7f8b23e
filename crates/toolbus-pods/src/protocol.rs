//! The protocol between the manager and the first process of a pod.
//!
//! The other half is `supervisor.py`, which describes both directions. Invariants: a line that does
//! not begin with the nonce of its pod is ignored; a gap in the numbers means that output was lost
//! on the way, and is an error, never skipped.

use std::io::Read as _;
use std::iter;
use std::sync::LazyLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flate2::Compression;
use flate2::read::ZlibEncoder;
use serde::{Deserialize, Serialize};
use toolbus_scripts::files::File;
use toolbus_scripts::runner::{Ending, KernelObject, Script, Stream, Usage};
use toolbus_scripts::supervisor::seccomp::{Machine, Network, filter_program};

/// Most bytes of one line: a piece of output in base64, and what stands before it.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The program of a pod's first process, for `python3 -c`. Packed, because every pod's description
/// carries it, which the cluster reads and writes many times on the way of one script.
pub(crate) static PROGRAM: LazyLock<String> =
    LazyLock::new(|| pack_program(&program_text(Network::Denied)));
/// The same for pods that may have sockets of every kind.
pub(crate) static PROGRAM_WITH_NETWORK: LazyLock<String> =
    LazyLock::new(|| pack_program(&program_text(Network::Allowed)));

/// The program's text, without comments, behind the filters of all machines: what a pod's node is
/// shows in the pod.
fn program_text(network: Network) -> String {
    let sources = [
        toolbus_scripts::RUN_SCRIPT,
        include_str!("python/script.py"),
        include_str!("python/files.py"),
        include_str!("python/supervisor.py"),
        include_str!("python/child.py"),
    ];

    let lines = sources.iter().flat_map(|source| source.lines());
    let code = lines.filter(|line| {
        let code = line.trim_start();
        !code.is_empty() && !code.starts_with('#')
    });
    let filters = Machine::ALL.map(|machine| {
        let filter = filter_program(machine, network, None);
        let digits: String = filter.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("\"{}\": \"{digits}\"", machine.name())
    });
    let head = format!("FILTERS = {{{}}}", filters.join(", "));

    iter::once(head.as_str()).chain(code).flat_map(|line| [line, "\n"]).collect()
}

/// One line that runs a program: its text by zlib in base64, which are there wherever Python is.
fn pack_program(program: &str) -> String {
    let mut text = Vec::new();
    ZlibEncoder::new(program.as_bytes(), Compression::best())
        .read_to_end(&mut text)
        .expect("memory can be read");
    let text = STANDARD.encode(text);
    format!("import binascii, zlib; exec(zlib.decompress(binascii.a2b_base64(\"{text}\")))")
}

/// The limits of one script, as they are sent to its pod: numbers, all of them.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ScriptLimits {
    pub(crate) timeout_ms: u64,
    pub(crate) output_bytes: usize,
    pub(crate) processes: u32,
    pub(crate) open_files: u32,
    pub(crate) file_bytes: u64,
    pub(crate) address_space_bytes: u64,
    /// Files and folders, and locks on files, that the script may have at a time.
    pub(crate) inodes: u32,
    pub(crate) file_locks: u32,
    /// 1 where there is a folder of packages, else 0.
    pub(crate) packages: u32,
    /// Of files that come back: most of them, most bytes together, longest name, most entries of
    /// their folder.
    pub(crate) files: usize,
    pub(crate) files_bytes: usize,
    pub(crate) name_bytes: usize,
    pub(crate) entries: usize,
}

/// Asks whether the first process listens, and gives it the nonce of its answers.
pub(crate) fn hello_message(nonce: &str) -> Bytes {
    single_frame(b'H', nonce.as_bytes())
}

/// Hands over the script and all it needs to a pod, which reports that it has it. The script starts
/// with [`go_message`].
pub(crate) fn prepare_message(settings: &ScriptLimits, script: &Script) -> Bytes {
    let mut request = script_frames(settings, script);
    append_frame(&mut request, b'C', b"");
    request.into()
}

/// Starts the script that was handed over.
pub(crate) fn go_message() -> Bytes {
    single_frame(b'G', b"")
}

/// Hands over the script and all it needs; it starts when this has arrived.
pub(crate) fn start_message(settings: &ScriptLimits, script: &Script) -> Bytes {
    let mut request = script_frames(settings, script);
    append_frame(&mut request, b'G', b"");
    request.into()
}

fn script_frames(settings: &ScriptLimits, script: &Script) -> Vec<u8> {
    let settings = limit_lines(settings);
    // No name has a zero byte in it.
    let file = |file: &File| [file.name.as_str().as_bytes(), &file.content].join(&0);
    let files: Vec<Vec<u8>> = script.files.iter().map(file).collect();
    let source = script.source.as_bytes();
    let input = script.input.as_bytes();
    let mut parts = vec![(b'L', settings.as_bytes()), (b'S', source), (b'I', input)];

    parts.extend(files.iter().map(|file| (b'F', file.as_slice())));
    let length: usize = parts.iter().map(|(_, body)| 5 + body.len()).sum();
    // And what comes behind.
    let mut request = Vec::with_capacity(length + 5);

    for (kind, body) in parts {
        append_frame(&mut request, kind, body);
    }

    request
}

/// A line for each number. The pod has no parser at hand that would not take long to load.
fn limit_lines(settings: &ScriptLimits) -> String {
    let settings = serde_json::to_value(settings).expect("numbers can be written as JSON");
    let members = settings.as_object().into_iter().flatten();
    members.map(|(name, number)| format!("{name} {number}\n")).collect()
}

/// Ends the script.
pub(crate) fn kill_message() -> Bytes {
    single_frame(b'K', b"")
}

/// Acknowledges the end.
pub(crate) fn acknowledge_message() -> Bytes {
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

/// A report of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// The first process listens.
    Ready,
    /// The pod has a script, which has not started.
    Taken,
    /// The script runs.
    Started,
    /// The script wrote this.
    Output(Stream, Vec<u8>),
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
pub(crate) struct ScriptEnd {
    pub(crate) ending: Ending,
    pub(crate) elapsed: Duration,
    pub(crate) usage: Usage,
}

/// Why what came from a pod cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// Something is missing between two lines.
    #[error("output was lost on its way: line {expected} is missing")]
    Gap {
        /// The number that should have come.
        expected: u64,
    },
    /// A line of the pod that says nothing known.
    #[error("an unknown report: {0}")]
    Unknown(String),
    /// A line without an end.
    #[error("a line of more than {LINE_BYTES_MAX} bytes")]
    TooLong,
}

/// Parses reports out of the bytes that a pod wrote.
#[derive(Debug)]
pub(crate) struct ReportReader {
    nonce: String,
    /// What is not a whole line yet.
    pending: Vec<u8>,
    /// `None` until the pod says that it listens.
    next: Option<u64>,
}

impl ReportReader {
    /// A reader of all reports, from the first.
    pub(crate) fn new(nonce: &str) -> Self {
        Self { nonce: nonce.to_owned(), pending: Vec::new(), next: Some(0) }
    }

    /// A reader from the next `ready` on, which may have been reported before on another
    /// connection.
    pub(crate) fn joining_late(nonce: &str) -> Self {
        Self { next: None, ..Self::new(nonce) }
    }

    /// Takes bytes and gives the reports that they complete, up to the first mistake.
    pub(crate) fn accept(&mut self, bytes: &[u8]) -> Result<Vec<Report>, Error> {
        let mut reports = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.pending.extend_from_slice(part);
            if self.pending.last() != Some(&b'\n') {
                break;
            }
            let line = std::mem::take(&mut self.pending);
            if let Some(report) = self.parse_line(&line[..line.len() - 1])? {
                reports.push(report);
            }
        }

        if self.pending.len() > LINE_BYTES_MAX {
            return Err(Error::TooLong);
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

        self.next = Some(number + 1);
        let unknown =
            || Error::Unknown(format!("{word} {}", text.chars().take(100).collect::<String>()));

        let report = match word {
            "ready" => Report::Ready,
            "taken" => Report::Taken,
            "started" => Report::Started,
            "out" | "err" => {
                let stream = if word == "out" { Stream::Stdout } else { Stream::Stderr };
                Report::Output(stream, STANDARD.decode(text).map_err(|_| unknown())?)
            }
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

    /// Number, word and text of a line of this pod.
    fn split_line<'a>(&self, line: &'a [u8]) -> Option<(u64, &'a str, &'a str)> {
        let line = std::str::from_utf8(line).ok()?;
        let rest = line.strip_prefix(&self.nonce)?.strip_prefix(' ')?;
        let mut parts = rest.splitn(3, ' ');
        Some((parts.next()?.parse().ok()?, parts.next()?, parts.next().unwrap_or_default()))
    }
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
    let end: WireEnd = serde_json::from_str(text).ok()?;
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
