//! The person at the terminal, asked what a tool wants to know.
//!
//! One question at a time, on standard error and standard input. What a server sends is shown
//! without control characters and never opened, run or filled in by itself.

mod approval;
mod form;

use std::io::{BufRead as _, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::termios::{QueueSelector, tcflush};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use toolbus_bus::{Asker, Question};
use toolbus_json::Limits;
use toolbus_wire::message::toolbus::{AskError, AskErrorCode, AskKind};

use crate::terminal_text;
use form::{FieldEntry, Form};

/// Longest line that is read, in bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// What JSON that a person types may have.
const LINE_LIMITS: Limits = Limits::of_bytes(LINE_BYTES_MAX as usize);
/// How often a person may mistype one field.
const TRIES_MAX: usize = 5;
/// Most characters of a text of a server that are shown in one place.
const SHOWN_CHARACTERS_MAX: usize = 2_000;

/// Somebody who reads and types.
#[derive(Clone)]
pub(crate) struct Person {
    keyboard: Arc<tokio::sync::Mutex<Keyboard>>,
    is_asked: Arc<AtomicBool>,
}

/// What a person types, line by line.
struct Keyboard {
    source: Arc<dyn LineSource>,
    /// A read that was begun for a question which was withdrawn. Its line answers nothing.
    pending_read: Option<JoinHandle<std::io::Result<String>>>,
}

/// Where the lines come from.
trait LineSource: Send + Sync {
    /// The next line with its end; empty at the end of input. Blocks.
    fn read_line(&self) -> std::io::Result<String>;

    /// Forgets what was typed and not read yet.
    fn discard_typed(&self);
}

/// The terminal at standard input.
struct TerminalInput;

impl LineSource for TerminalInput {
    fn read_line(&self) -> std::io::Result<String> {
        let mut line = String::new();
        std::io::stdin().lock().take(LINE_BYTES_MAX).read_line(&mut line)?;
        Ok(line)
    }

    fn discard_typed(&self) {
        // Where that cannot be done, standard input is no terminal, and nobody types ahead.
        let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
    }
}

impl Person {
    pub(crate) fn new() -> Self {
        Self::at(TerminalInput)
    }

    fn at(source: impl LineSource + 'static) -> Self {
        let keyboard = Keyboard { source: Arc::new(source), pending_read: None };
        Self { keyboard: Arc::new(tokio::sync::Mutex::new(keyboard)), is_asked: Arc::default() }
    }

    /// Puts the questions of a call.
    pub(crate) fn asker(&self) -> Asker {
        let person = self.clone();
        let asker = Asker::to(move |question| {
            let person = person.clone();
            async move { person.answer_question(question).await }
        });
        // Completions are refused in words.
        asker.with_kinds([AskKind::Elicitation, AskKind::Sampling, AskKind::Approval])
    }

    /// Whether a question is on the terminal at this moment, which nothing else may write to.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Acquire)
    }

    async fn answer_question(&self, question: Question) -> Result<Value, AskError> {
        match question.kind {
            AskKind::Elicitation | AskKind::Approval => {}
            AskKind::Sampling => {
                return Err(unsupported_error(
                    "agent-host has no model that could give a completion",
                ));
            }
            kind => {
                return Err(unsupported_error(format!(
                    "agent-host answers no questions of {kind}"
                )));
            }
        }

        let mut keyboard = self.keyboard.lock().await;
        let mut asked = QuestionGuard::begin(&self.is_asked);
        keyboard.discard_typed_ahead().await;

        if question.kind == AskKind::Approval {
            let answered = approval::ask(&mut keyboard, &question.params).await;
            asked.is_over = true;
            return answered;
        }

        let from = question.from.as_deref().unwrap_or("A tool");
        let message = question.params["message"].as_str().unwrap_or_default();
        write_line(&format!("\r\x1b[2K\n{} asks: {}\n", to_printable(from), to_printable(message)));
        let params = &question.params;
        let answered = match params["mode"].as_str() {
            None | Some("form") => fill_in(&mut keyboard, &params["requestedSchema"]).await,
            Some("url") => show_address(&mut keyboard, &params["url"]).await,
            Some(_) => Err(unsupported_error("this version knows no such form")),
        };

        asked.is_over = true;

        Ok(match answered? {
            Some(content) if content.is_null() => json!({"action": "accept"}),
            Some(content) => json!({"action": "accept", "content": content}),
            None => {
                write_line("Declined.\n");
                json!({"action": "decline"})
            }
        })
    }
}

/// Asks field by field. `None`: the person does not want to.
async fn fill_in(keyboard: &mut Keyboard, schema: &Value) -> Result<Option<Value>, AskError> {
    let form = Form::from_schema(schema).map_err(unsupported_error)?;
    write_line(
        "Enter takes the default; an empty line for a field that has none and is required declines.\n",
    );

    let mut content = serde_json::Map::new();
    for field in form.fields() {
        write_line(&to_printable(&field.describe()));
        let mut tries = 0;
        loop {
            write_line(&to_printable(&field.prompt()));
            let Some(line) = keyboard.next_line().await? else { return Ok(None) };
            match field.read_line(&line) {
                FieldEntry::Value(value) => {
                    content.insert(field.name().to_owned(), value);
                    break;
                }
                FieldEntry::LeftOut => break,
                FieldEntry::Declined => return Ok(None),
                FieldEntry::Wrong(why) => write_line(&format!("  {}\n", to_printable(&why))),
            }

            tries += 1;
            if tries >= TRIES_MAX {
                return Ok(None);
            }
        }
    }

    if form.is_empty() && !ask_to_confirm(keyboard, "Agree?").await? {
        return Ok(None);
    }

    Ok(Some(Value::Object(content)))
}

/// Shows an address, for the person to go there.
async fn show_address(keyboard: &mut Keyboard, url: &Value) -> Result<Option<Value>, AskError> {
    let url = url.as_str().unwrap_or_default();
    if !(url.starts_with("https://") || url.starts_with("http://")) {
        return Err(unsupported_error("the address is none of the web"));
    }
    write_line(&format!(
        "Open this address in a browser, if you trust it:\n  {}\n",
        to_printable(url)
    ));
    Ok(ask_to_confirm(keyboard, "Have you done so?").await?.then_some(Value::Null))
}

async fn ask_to_confirm(keyboard: &mut Keyboard, what: &str) -> Result<bool, AskError> {
    write_line(&format!("{what} [y/N] "));
    let line = keyboard.next_line().await?;
    Ok(line.is_some_and(|line| matches!(line.trim(), "y" | "Y" | "yes" | "Yes")))
}

impl Keyboard {
    /// Forgets what was typed before the next question is shown: it cannot be an answer to that.
    ///
    /// A thread that waits for a line cannot be called off, so the line that it gets is dropped. It
    /// may have been typed for the question before, or by somebody who never saw that it was gone.
    async fn discard_typed_ahead(&mut self) {
        if let Some(pending) = &mut self.pending_read {
            if !pending.is_finished() {
                write_line("\r\x1b[2K\nThere is another question. Press Enter to see it.\n");
            }
            let _ = pending.await;
            self.pending_read = None;
        }
        self.source.discard_typed();
    }

    /// The next line; `None` at the end of input.
    async fn next_line(&mut self) -> Result<Option<String>, AskError> {
        let source = Arc::clone(&self.source);
        let read =
            self.pending_read.insert(tokio::task::spawn_blocking(move || source.read_line())).await;
        self.pending_read = None;

        let failed = |error: &dyn std::error::Error| {
            AskError::new(AskErrorCode::Failed, format!("nothing can be read: {error}"))
        };
        let line = read.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;

        // Even an empty line ends with its end.
        Ok(Some(line).filter(|line| !line.is_empty()))
    }
}

/// Marks the terminal as taken while a question is on it.
struct QuestionGuard<'a> {
    is_asked: &'a AtomicBool,
    /// Whether the question came to its end. One that did not was withdrawn.
    is_over: bool,
}

impl<'a> QuestionGuard<'a> {
    fn begin(is_asked: &'a AtomicBool) -> Self {
        is_asked.store(true, Ordering::Release);
        Self { is_asked, is_over: false }
    }
}

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            write_line("\nThe question was withdrawn: what is typed now answers nothing.\n");
        }
        self.is_asked.store(false, Ordering::Release);
    }
}

fn unsupported_error(why: impl Into<String>) -> AskError {
    AskError::new(AskErrorCode::Unsupported, why)
}

fn write_line(text: &str) {
    // A terminal that is gone takes the person along.
    let _ = write!(std::io::stderr(), "{text}");
    let _ = std::io::stderr().flush();
}

/// A text of a stranger as a terminal may have it, and not too much of it.
fn to_printable(text: &str) -> String {
    terminal_text::clean(text).chars().take(SHOWN_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests;
