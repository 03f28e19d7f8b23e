//! The worker's side: limits itself, reads the question, answers it, and ends.
//!
//! Everything happens in one thread with a stack of a known size, so that an overflow is told as
//! one. It knows no async runtime.

use std::io::{self, Write as _};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use rustix::stdio::stderr;
use toolbus_json::Limits;

use crate::Question;
use crate::protocol::{REQUEST_BYTES_MAX, Reply, Request};

mod bounded;
pub(crate) mod grep;
pub(crate) mod grep_files;
mod head;
pub(crate) mod jq;
pub(crate) mod json;
mod limits;
mod seccomp;
mod slice;
mod source;
pub(crate) mod sql;
mod text;
mod value_stream;

use source::Source;

/// A request: one question.
const REQUEST_LIMITS: Limits = Limits::of_bytes(REQUEST_BYTES_MAX).with_values(4_096);
/// The stack of the thread that answers: for filters that recurse and values that are nested.
const STACK_BYTES: usize = 64 << 20;
/// The exit code of a worker that panicked, as Rust has it.
const PANICKED: i32 = 101;

/// Why there is no answer, seen from inside.
#[derive(Debug)]
enum Refusal {
    Invalid(String),
    OutOfMemory,
    Failed(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::OutOfMemory => Self::OutOfMemory,
            _ => Self::Failed(format!("the value cannot be read: {error}")),
        }
    }
}

/// What every question is answered within.
struct Task {
    source: Source,
    answer_bytes: usize,
    media_type: Option<String>,
}

/// Answers the question that waits at standard error about the value at standard input, and ends
/// the process. Call it first in `main`, before there are threads, a runtime or settings.
pub fn run_worker() -> ! {
    let answering =
        std::thread::Builder::new().stack_size(STACK_BYTES).name("worker".to_owned()).spawn(answer);
    if let Ok(thread) = answering {
        // It ends the process, so this returns only after a panic.
        let _ = thread.join();
    }
    exit(PANICKED)
}

/// Runs a target of a fuzzer with the stack that a worker has.
#[cfg(feature = "fuzzing")]
pub(crate) fn run_with_stack(target: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        thread.spawn_scoped(scope, target).map(drop).expect("a thread");
    });
}

fn answer() {
    let reply = match prepare() {
        Ok((request, source)) => reply(request, source),
        Err(error) => Reply::Failed(format!("limiting itself: {error}")),
    };

    let written = serde_json::to_vec(&reply).map_err(io::Error::other);
    let written = written.and_then(|reply| {
        let mut stdout = io::stdout().lock();
        stdout.write_all(&reply)?;
        stdout.flush()
    });
    // Nobody reads it when this fails.
    exit(i32::from(written.is_err()))
}

/// Ends the process without running destructors: a large value takes long to drop.
#[expect(clippy::disallowed_methods, reason = "nothing of a worker outlives it")]
fn exit(code: i32) -> ! {
    std::process::exit(code)
}

/// Limits the process, for good, and reads the question.
fn prepare() -> io::Result<(Request, Source)> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    limits::set_fixed()?;
    let request = read_request()?;
    if getppid() != Pid::from_raw(request.caller.cast_signed()) {
        return Err(io::Error::other("its caller is gone"));
    }

    let source = Source::open(request.size)?;
    limits::set_for(&request, source.file_size())?;
    seccomp::apply()?;
    Ok((request, source))
}

fn read_request() -> io::Result<Request> {
    let mut length = [0; 4];
    read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > REQUEST_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }

    let mut body = vec![0; length];
    read_exact(&mut body)?;
    toolbus_json::from_slice(&body, &REQUEST_LIMITS).map_err(io::Error::other)
}

fn read_exact(mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::read(stderr(), &mut *buffer))? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => buffer = &mut buffer[length..],
        }
    }
    Ok(())
}

fn reply(request: Request, source: Source) -> Reply {
    let Request { question, answer_bytes, media_type, .. } = request;
    let task = Task { source, answer_bytes, media_type };
    let answer = match question {
        Question::Head(head) => head::answer(&head, task),
        Question::Slice(slice) => slice::answer_bytes(&slice, task),
        Question::Lines(lines) => slice::answer_lines(&lines, task),
        Question::Grep(grep) => grep::answer(&grep, task),
        Question::GrepFiles(question) => grep_files::answer(&question, task),
        Question::Jq(jq) => jq::answer(&jq, task),
        Question::Sql(sql) => sql::answer(&sql, task),
    };
    match answer {
        Ok(answer) => Reply::Answer(answer),
        Err(Refusal::Invalid(message)) => Reply::Invalid(message),
        Err(Refusal::OutOfMemory) => Reply::OutOfMemory,
        Err(Refusal::Failed(message)) => Reply::Failed(message),
    }
}
