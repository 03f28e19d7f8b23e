//! The caller's side: starts a worker for each question, watches its time, and says how it ended.
//!
//! Invariants: a worker never outlives its question, whether that is answered, late or dropped; at
//! most as many run at a time as the engine allows; nothing that a worker writes is held beyond a
//! bound.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::protocol::{REQUEST_BYTES_MAX, Request, frame};
use crate::{Answer, Error, Question};

mod ending;
mod starter;

use ending::Ending;
use starter::Starter;

/// The name of workers in lists of processes.
const NAME: &str = "toolbus-query-worker";
/// How many workers run at a time, unless the caller says otherwise.
const WORKERS_DEFAULT: usize = 4;
/// Most bytes that a caller may allow for the text of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Least bytes of an answer: below, there is no room to say anything.
const ANSWER_BYTES_MIN: usize = 256;
/// What a reply has around the text of its answer.
const REPLY_BYTES_AROUND: usize = 64 << 10;
/// What is kept of what a worker writes to standard error.
const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// What is read of a stream and written to a worker at a time.
const FEED_BYTES: usize = 64 << 10;

/// Asks questions about values, each in a worker process of its own.
///
/// Cheap to clone. Every clone shares the workers.
#[derive(Debug, Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    program: PathBuf,
    arguments: Vec<OsString>,
    permits: Semaphore,
    starter: Starter,
}

/// What one question may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of the answer's text: 16 KiB by default, from 256 bytes to 1 MiB.
    pub answer_bytes: usize,
    /// Most memory of the worker, above what it starts with and the size of the value, which counts
    /// up to as much again: 512 MiB by default.
    pub memory_bytes: u64,
    /// Most time until the answer, 10 s by default. It includes waiting for other questions.
    pub timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { answer_bytes: 16 << 10, memory_bytes: 512 << 20, timeout: Duration::from_secs(10) }
    }
}

/// The bytes that a question is about.
pub struct Value {
    bytes: Bytes,
    media_type: Option<String>,
    size: Option<u64>,
}

enum Bytes {
    File(File),
    Stream(Pin<Box<dyn AsyncRead + Send>>),
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { media_type, size, .. } = self;
        f.debug_struct("Value")
            .field("media_type", media_type)
            .field("size", size)
            .finish_non_exhaustive()
    }
}

impl Value {
    /// A file that is open for reading. The worker reads from its start, wherever the file is
    /// positioned, and does not move it. Parts of it are found without reading what is before.
    #[must_use]
    pub fn file(file: File) -> Self {
        Self { bytes: Bytes::File(file), media_type: None, size: None }
    }

    /// A stream, of which no more is read than the answer needs.
    #[must_use]
    pub fn stream(stream: impl AsyncRead + Send + 'static) -> Self {
        Self { bytes: Bytes::Stream(Box::pin(stream)), media_type: None, size: None }
    }

    /// A pipe that somebody writes to while the question is answered. Of it no more is read than
    /// the answer needs; then writing fails.
    #[must_use]
    pub fn pipe(reader: PipeReader) -> Self {
        Self::file(File::from(OwnedFd::from(reader)))
    }

    /// The same with its media type: what a head says of binary content, and a hint which kind of
    /// rows there are.
    #[must_use]
    pub fn with_media_type(self, media_type: impl Into<String>) -> Self {
        Self { media_type: Some(media_type.into()), ..self }
    }

    /// The same with its size in bytes, which nobody can see in a stream.
    #[must_use]
    pub fn with_size(self, size: u64) -> Self {
        Self { size: Some(size), ..self }
    }
}

impl Engine {
    /// An engine whose workers are `program` with these arguments, whose `main` then calls
    /// [`run_worker`](crate::run_worker).
    ///
    /// # Errors
    ///
    /// There can be no thread that starts the workers.
    pub fn new(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> io::Result<Self> {
        Self::with_workers(program, arguments, WORKERS_DEFAULT)
    }

    /// The same with at most `workers` at a time. There are four by default.
    ///
    /// # Errors
    ///
    /// There can be no thread that starts the workers.
    pub fn with_workers(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
        workers: usize,
    ) -> io::Result<Self> {
        let workers = workers.clamp(1, Semaphore::MAX_PERMITS);
        let shared = Shared {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            permits: Semaphore::new(workers),
            starter: Starter::new(workers)?,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Asks a question about a value. When the future is dropped, the worker is killed.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with time and I/O.
    pub async fn ask(
        &self,
        question: &Question,
        value: Value,
        limits: &Limits,
    ) -> Result<Answer, Error> {
        question.check()?;

        let late = || Error::Timeout { after: limits.timeout };
        let deadline = Instant::now() + limits.timeout;
        let permit = timeout_at(deadline, self.shared.permits.acquire()).await;
        let permit = permit.map_err(|_| Error::Busy)?;
        let _permit = permit.map_err(|_| Error::failed("the engine is closed"))?;

        let request = request(question, &value, limits);
        let answer = self.run_worker(request, value.bytes);
        match timeout_at(deadline, answer).await {
            Ok(Ok(ending)) => ending.into_answer(late),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(late()),
        }
    }

    /// Starts a worker and has it answer. Dropping this kills it.
    async fn run_worker(&self, request: Request, bytes: Bytes) -> Result<Ending, Error> {
        let frame = frame(&request).map_err(|error| Error::failed(error.to_string()))?;
        if frame.len() > REQUEST_BYTES_MAX {
            return Err(Error::invalid("the question is too long"));
        }
        let reply_max = request.answer_bytes * 6 + REPLY_BYTES_AROUND;
        let io = |error| Error::io("talking to it", error);

        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(io)?;
        ours.set_nonblocking(true).map_err(io)?;
        let socket = UnixStream::from_std(ours).map_err(io)?;
        let (stdin, stream) = match bytes {
            Bytes::File(file) => (Stdio::from(file), None),
            Bytes::Stream(stream) => (Stdio::piped(), Some(stream)),
        };
        let mut child = self.start(stdin, theirs).await?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or_else(|| Error::failed("it has no output"))?;

        let (messages, mut questions) = socket.into_split();
        let talk = async {
            // A worker that has ended reads no more; how it ended says why.
            let ask = async { questions.write_all(&frame).await.ok() };
            let reply = read_bounded(stdout, reply_max);
            let messages = read_bounded(messages, MESSAGE_BYTES_MAX);
            let (_, reply, messages) = tokio::join!(ask, reply, messages);
            (reply, messages)
        };
        // Both arms may be dropped at any point: the worker ends with its question.
        let (reply, messages) = tokio::select! {
            talked = talk => talked,
            error = feed(stream, stdin) => return Err(Error::io("the value cannot be read", error)),
        };

        let status = child.wait().await.map_err(io)?;
        Ok(Ending { status, reply: reply.map_err(io)?, messages: messages.unwrap_or_default() })
    }

    async fn start(
        &self,
        stdin: Stdio,
        socket: std::os::unix::net::UnixStream,
    ) -> Result<Child, Error> {
        let mut command = Command::new(&self.shared.program);
        command
            .arg0(NAME)
            .args(&self.shared.arguments)
            .env_clear()
            .current_dir("/")
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::from(OwnedFd::from(socket)))
            .kill_on_drop(true);
        self.shared.starter.start(command).await.map_err(|error| Error::io("starting it", error))
    }
}

fn request(question: &Question, value: &Value, limits: &Limits) -> Request {
    // A moment longer than the wall clock allows, so that what only waits is told as that.
    let cpu_seconds = limits.timeout.as_secs().saturating_add(1);
    Request {
        question: question.clone(),
        answer_bytes: limits.answer_bytes.clamp(ANSWER_BYTES_MIN, ANSWER_BYTES_MAX),
        memory_bytes: limits.memory_bytes,
        cpu_seconds,
        caller: std::process::id(),
        media_type: value.media_type.clone(),
        size: value.size,
    }
}

/// Writes a stream to a worker and closes its input. Returns only when the stream fails: a worker
/// that is not interested in the rest ends, and says so elsewhere.
async fn feed(
    stream: Option<Pin<Box<dyn AsyncRead + Send>>>,
    stdin: Option<ChildStdin>,
) -> io::Error {
    if let (Some(mut stream), Some(mut stdin)) = (stream, stdin) {
        let mut buffer = vec![0; FEED_BYTES];
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) => break,
                Ok(length) if stdin.write_all(&buffer[..length]).await.is_ok() => {}
                Ok(_) => break,
                Err(error) => return error,
            }
        }
    }
    std::future::pending().await
}

/// Reads to the end, and keeps the first bytes.
async fn read_bounded(mut from: impl AsyncRead + Unpin, max: usize) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    (&mut from).take(max as u64).read_to_end(&mut kept).await?;
    tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    Ok(kept)
}
