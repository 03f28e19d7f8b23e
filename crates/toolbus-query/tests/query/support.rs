//! What the tests of the crate share: an engine with real workers, and values.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::time::Duration;

use toolbus_query::{Answer, Engine, Error, Limits, Question, Value, WORKER_MODE};

pub(crate) fn engine() -> Engine {
    Engine::new(env!("CARGO_BIN_EXE_toolbus-query-worker"), [WORKER_MODE]).expect("a thread")
}

/// Workers are built without optimization, and the machine may be busy.
pub(crate) fn limits() -> Limits {
    Limits { timeout: Duration::from_secs(60), ..Limits::default() }
}

pub(crate) fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("room");
    file.rewind().expect("a file");
    file
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Asks of a file.
pub(crate) fn ask_file(
    question: &Question,
    bytes: &[u8],
    limits: &Limits,
) -> Result<Answer, Error> {
    let value = Value::file(file(bytes));
    runtime().block_on(engine().ask(question, value, limits))
}

/// Asks of a file and of a stream, which must not make a difference.
#[track_caller]
pub(crate) fn ask(question: &Question, bytes: &[u8]) -> Result<Answer, Error> {
    let of_file = ask_file(question, bytes, &limits());
    let stream = std::io::Cursor::new(bytes.to_vec());
    let value = Value::stream(stream).with_size(bytes.len() as u64);
    let of_stream = runtime().block_on(engine().ask(question, value, &limits()));
    match (&of_file, &of_stream) {
        (Ok(of_file), Ok(of_stream)) => assert_eq!(of_file, of_stream, "{question:?}"),
        _ => assert_eq!(format!("{of_file:?}"), format!("{of_stream:?}"), "{question:?}"),
    }
    of_file
}

#[track_caller]
pub(crate) fn answer(question: &Question, bytes: &[u8]) -> Answer {
    ask(question, bytes).unwrap_or_else(|error| panic!("{question:?}: {error}"))
}

/// What is wrong with a question.
#[track_caller]
pub(crate) fn invalid(question: &Question, bytes: &[u8]) -> String {
    match ask(question, bytes) {
        Err(Error::Invalid { message }) => message,
        other => panic!("{question:?}: {other:?}"),
    }
}
