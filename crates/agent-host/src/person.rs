//! The person at the terminal, asked what a tool wants to know.
//!
//! One question at a time, on standard error and standard input. What a server sends is shown
//! without control characters and never opened, run or filled in by itself.

mod form;

use std::io::{BufRead as _, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use toolbus_bus::{Asker, Question};
use toolbus_wire::message::toolbus::{AskError, AskErrorCode, AskKind};

use form::{Entry, Form};

/// Longest line that is read, in bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;
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

/// Standard input, line by line.
#[derive(Default)]
struct Keyboard {
    /// A read that was begun for a question which was withdrawn: the next one goes on with it.
    reading: Option<JoinHandle<std::io::Result<String>>>,
}

impl Person {
    pub(crate) fn new() -> Self {
        Self { keyboard: Arc::default(), is_asked: Arc::default() }
    }

    /// Puts the questions of a call.
    pub(crate) fn asker(&self) -> Asker {
        let person = self.clone();
        Asker::to(move |question| {
            let person = person.clone();
            async move { person.answer(question).await }
        })
    }

    /// Whether a question is on the terminal at this moment, which nothing else may write to.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Acquire)
    }

    async fn answer(&self, question: Question) -> Result<Value, AskError> {
        match question.kind {
            AskKind::Elicitation => {}
            AskKind::Sampling => {
                return Err(unsupported("agent-host has no model that could give a completion"));
            }
            kind => return Err(unsupported(format!("agent-host answers no questions of {kind}"))),
        }
        let mut keyboard = self.keyboard.lock().await;
        let _asked = Asked::begin(&self.is_asked);
        let from = question.from.as_deref().unwrap_or("A tool");
        let message = question.params["message"].as_str().unwrap_or_default();
        say(&format!("\r\x1b[2K\n{} asks: {}\n", shown(from), shown(message)));
        let params = &question.params;
        let answered = match params["mode"].as_str() {
            None | Some("form") => fill_in(&mut keyboard, &params["requestedSchema"]).await?,
            Some("url") => visit(&mut keyboard, &params["url"]).await?,
            Some(_) => return Err(unsupported("this version knows no such form")),
        };
        Ok(match answered {
            Some(content) if content.is_null() => json!({"action": "accept"}),
            Some(content) => json!({"action": "accept", "content": content}),
            None => {
                say("Declined.\n");
                json!({"action": "decline"})
            }
        })
    }
}

/// Asks field by field. `None`: the person does not want to.
async fn fill_in(keyboard: &mut Keyboard, schema: &Value) -> Result<Option<Value>, AskError> {
    let form = Form::read(schema).map_err(unsupported)?;
    say(
        "Enter takes the default; an empty line for a field that has none and is required declines.\n",
    );
    let mut content = serde_json::Map::new();
    for field in form.fields() {
        say(&shown(&field.describe()));
        let mut tries = 0;
        loop {
            say(&shown(&field.prompt()));
            let Some(line) = keyboard.line().await? else { return Ok(None) };
            match field.enter(&line) {
                Entry::Value(value) => {
                    content.insert(field.name().to_owned(), value);
                    break;
                }
                Entry::LeftOut => break,
                Entry::Declined => return Ok(None),
                Entry::Wrong(why) => say(&format!("  {}\n", shown(&why))),
            }
            tries += 1;
            if tries >= TRIES_MAX {
                return Ok(None);
            }
        }
    }
    if form.is_empty() && !confirm(keyboard, "Agree?").await? {
        return Ok(None);
    }
    Ok(Some(Value::Object(content)))
}

/// Shows an address, for the person to go there.
async fn visit(keyboard: &mut Keyboard, url: &Value) -> Result<Option<Value>, AskError> {
    let url = url.as_str().unwrap_or_default();
    if !(url.starts_with("https://") || url.starts_with("http://")) {
        return Err(unsupported("the address is none of the web"));
    }
    say(&format!("Open this address in a browser, if you trust it:\n  {}\n", shown(url)));
    Ok(confirm(keyboard, "Have you done so?").await?.then_some(Value::Null))
}

async fn confirm(keyboard: &mut Keyboard, what: &str) -> Result<bool, AskError> {
    say(&format!("{what} [y/N] "));
    let line = keyboard.line().await?;
    Ok(line.is_some_and(|line| matches!(line.trim(), "y" | "Y" | "yes" | "Yes")))
}

impl Keyboard {
    /// The next line; `None` at the end of input.
    async fn line(&mut self) -> Result<Option<String>, AskError> {
        let reading = self.reading.get_or_insert_with(|| tokio::task::spawn_blocking(read));
        let read = reading.await;
        self.reading = None;
        let failed = |error: &dyn std::error::Error| {
            AskError::new(AskErrorCode::Failed, format!("nothing can be read: {error}"))
        };
        let line = read.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
        // Even an empty line ends with its end.
        Ok(Some(line).filter(|line| !line.is_empty()))
    }
}

fn read() -> std::io::Result<String> {
    let mut line = String::new();
    std::io::stdin().lock().take(LINE_BYTES_MAX).read_line(&mut line)?;
    Ok(line)
}

/// Marks the terminal as taken.
struct Asked<'a>(&'a AtomicBool);

impl<'a> Asked<'a> {
    fn begin(is_asked: &'a AtomicBool) -> Self {
        is_asked.store(true, Ordering::Release);
        Self(is_asked)
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn unsupported(why: impl Into<String>) -> AskError {
    AskError::new(AskErrorCode::Unsupported, why)
}

fn say(text: &str) {
    // A terminal that is gone takes the person along.
    let _ = write!(std::io::stderr(), "{text}");
    let _ = std::io::stderr().flush();
}

/// A text of a stranger as a terminal may have it: line ends, and no other control characters.
fn shown(text: &str) -> String {
    let is_harmless = |c: &char| *c == '\n' || !(c.is_control() || is_invisible(*c));
    text.chars().filter(is_harmless).take(SHOWN_CHARACTERS_MAX).collect()
}

/// Characters that turn the direction of a text or hide in it, so that it is read as another.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
