//! Tools for files: `read_file`, `write_file`, `append_file`, `edit_file`, `glob` and `grep`.
//!
//! A call finds its file in the `workspace`, opens it beneath a folder (`open`), and reads
//! (`text`, `docx`), writes (`write`) or searches (`walk`, `search`). What fails is told in a text
//! that begins with `Error` and names the action, as an error of the tool.

pub(crate) mod docx;
mod error;
mod open;
pub(crate) mod search;
mod settings;
pub(crate) mod text;
mod walk;
mod workspace;
pub(crate) mod write;

use std::env;
use std::io;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use toolbus_query::Engine;
use toolbus_query::question::{CONTEXT_LINES_MAX, Grep, GrepFiles};
use toolbus_tools::arguments::{number, text};
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::registry::{self, Registry};
use toolbus_tools::tool::Risk;
use toolbus_tools::{Audience, Executor, Guide, Tool};

use crate::arguments::{self, is_on};
use error::Error;
use search::{GlobSearch, GrepSearch};
pub use settings::{Access, FilesSettings};
use text::Window;
use workspace::{Wanted, Workspace};
use write::Edit;

const SOURCE: &str = "files";
/// Most calls that read or write at a time, and that search; others wait.
const CONCURRENT_MAX: usize = 8;
const SEARCHES_MAX: usize = 4;
/// How many matching lines are shown when nobody says, and at most.
const MATCHES_DEFAULT: u64 = 100;
const MATCHES_MAX: u64 = 1000;

/// The files that the tools may reach.
#[derive(Debug)]
pub struct Files {
    workspace: Workspace,
    /// The largest file that is read or edited, in bytes.
    file_bytes_max: u64,
    /// Answers `grep`.
    engine: Engine,
    permits: Semaphore,
    searches: Semaphore,
    /// Held while a file is changed: calls of a turn run at the same time.
    changing: Mutex<()>,
    audience: Audience,
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Read,
    Write,
    Append,
    Edit,
    Glob,
    Grep,
}

struct FileTool {
    operation: Operation,
    files: Arc<Files>,
}

/// The guide to files.
#[must_use]
pub fn guide() -> Guide {
    Guide {
        name: SOURCE.to_owned(),
        summary: "Read, write, edit and search files in the working directory".to_owned(),
        document: include_str!("files/guide.md").to_owned(),
    }
}

/// Registers the tools; those that write only where something may be written.
///
/// # Errors
/// When a name is taken.
pub fn register(registry: &Registry, files: Files) -> Result<(), registry::Error> {
    use Operation::{Append, Edit, Glob, Grep, Read, Write};
    let writing = if files.workspace.is_writable() { &[Write, Append, Edit][..] } else { &[] };
    let files = Arc::new(files);

    for operation in [Read].iter().chain(writing).chain(&[Glob, Grep]) {
        let tool = FileTool { operation: *operation, files: Arc::clone(&files) };
        registry.register(operation.definition().for_audience(files.audience.clone()), tool)?;
    }
    Ok(())
}

impl Files {
    /// Opens the folders of the settings. Paths are looked for in this process's current folder
    /// first, as far as that is within them.
    ///
    /// # Errors
    /// When a folder is not there, or shows more than files.
    pub fn open(settings: &FilesSettings, engine: Engine) -> io::Result<Self> {
        Ok(Self {
            workspace: Workspace::open(settings, &env::current_dir()?)?,
            file_bytes_max: settings.file_max.bytes(),
            engine,
            permits: Semaphore::new(CONCURRENT_MAX),
            searches: Semaphore::new(SEARCHES_MAX),
            changing: Mutex::new(()),
            audience: settings.audience(&[]),
        })
    }

    fn read(&self, path: &str, window: Window) -> Result<String, Error> {
        let place = self.workspace.find(path, Wanted::File)?;
        let shown = place.shown();
        let file = open::open_place(&place, open::for_reading())?;
        let bytes = open::read_bounded(&file, self.file_bytes_max, &shown)?;

        let extension = place.relative().extension();
        let text = if extension.is_some_and(|extension| extension.eq_ignore_ascii_case("docx")) {
            let text = docx::extract_text(&bytes);
            let text = text.map_err(|reason| Error::Document { path: shown, reason })?;
            text::Text { text, has_replaced: false }
        } else {
            text::decode(bytes, &shown)?
        };
        Ok(text.show(window))
    }

    fn write(&self, path: &str, content: &str) -> Result<String, Error> {
        let _changing = self.changing.lock();
        let place = self.workspace.find_for_writing(path)?;
        write::write(&place, content.as_bytes())?;
        Ok(format!("Successfully wrote to {}", place.shown()))
    }

    fn append(&self, path: &str, content: &str) -> Result<String, Error> {
        let _changing = self.changing.lock();
        let place = self.workspace.find_for_writing(path)?;
        write::append(&place, content.as_bytes())?;
        Ok(format!("Successfully appended to {}", place.shown()))
    }

    fn edit(&self, path: &str, edit: Edit<'_>) -> Result<String, Error> {
        let _changing = self.changing.lock();
        let place = self.workspace.find_for_writing(path)?;
        let count = write::edit(&place, edit, self.file_bytes_max)?;
        let times = if count == 1 { "1 occurrence" } else { &format!("{count} occurrences") };
        Ok(format!("Successfully edited {} ({times} replaced)", place.shown()))
    }
}

impl Operation {
    /// What its errors begin with.
    fn failure(self) -> &'static str {
        match self {
            Self::Read => "Error reading file",
            Self::Write => "Error writing file",
            Self::Append => "Error appending to file",
            Self::Edit => "Error editing file",
            Self::Glob => "Error finding files",
            Self::Grep => "Error searching files",
        }
    }

    /// What a failed call says.
    fn describe(self, error: &Error) -> String {
        match (self, error) {
            (Self::Append | Self::Edit, Error::NotFound(path)) => {
                format!("Error: file does not exist: {path}. Use write_file to create it first.")
            }
            _ => format!("{}: {error}", self.failure()),
        }
    }

    fn definition(self) -> Tool {
        let tool = |name: &str, description: &str| {
            Tool::new(name, description, SOURCE).in_group(SOURCE).with_parameters(self.parameters())
        };

        match self {
            Self::Read => tool(
                "read_file",
                "Read text files and .docx documents. A relative path is looked for in the current \
                 folder, in those above it up to the root of the repository, and in the working \
                 directory.",
            )
            .read_only(),
            Self::Write => tool(
                "write_file",
                "Write content to a file, creating parent directories as needed. What was in the \
                 file is replaced. A relative path is in the working directory.",
            )
            .with_risk(Risk::High),
            Self::Append => tool(
                "append_file",
                "Append content to an existing file. The file must already exist -- use write_file to \
                 create it first. A relative path is in the working directory.",
            )
            .with_risk(Risk::High),
            Self::Edit => tool(
                "edit_file",
                "Replace text in a file. old_string must be in the file exactly once, unless \
                 replace_all is set.",
            )
            .with_risk(Risk::High),
            Self::Glob => tool(
                "glob",
                "Find files by a pattern of their names, such as *.rs or src/**/*.{ts,tsx}. Files \
                 that .gitignore leaves out are not found.",
            )
            .read_only(),
            Self::Grep => tool(
                "grep",
                "Find lines in files by a regular expression. Files that .gitignore leaves out, and \
                 binary ones, are not searched.",
            )
            .read_only(),
        }
    }

    fn parameters(self) -> Value {
        let string = |text: &str| json!({"type": "string", "description": text});
        let whole = |text: &str| json!({"type": "integer", "minimum": 0, "description": text});
        let switch = |text: &str| json!({"type": "boolean", "description": text});
        let path =
            |what: &str| string(&format!("The file to {what}, by a relative or absolute path"));
        let folder = string("The folder to look in; the working directory by default");
        let skip = whole("How many to pass over, to see what did not fit before");

        let (properties, required) = match self {
            Self::Read => (
                json!({
                    "path": path("read"),
                    "offset": whole("The first line to show, from 1"),
                    "limit": whole("How many lines to show")
                }),
                json!(["path"]),
            ),
            Self::Write => (
                json!({"path": path("write"), "content": string("All that is to be in the file")}),
                json!(["path", "content"]),
            ),
            Self::Append => (
                json!({
                    "path": path("append to"),
                    "content": string("What to put behind its end")
                }),
                json!(["path", "content"]),
            ),
            Self::Edit => (
                json!({
                    "path": path("edit"),
                    "old_string": string("The text to replace, exactly as it is in the file"),
                    "new_string": string("The text to put in its place"),
                    "replace_all": switch("Replace every occurrence; false by default")
                }),
                json!(["path", "old_string", "new_string"]),
            ),
            Self::Glob => (
                json!({
                    "pattern": string("The pattern; without a slash it is about names in any folder"),
                    "path": folder,
                    "skip": skip
                }),
                json!(["pattern"]),
            ),
            Self::Grep => (grep_properties(), json!(["pattern"])),
        };
        json!({"type": "object", "properties": properties, "required": required})
    }
}

fn grep_properties() -> Value {
    let string = |text: &str| json!({"type": "string", "description": text});
    let switch = |text: &str| json!({"type": "boolean", "description": text});

    json!({
        "pattern": string("A regular expression, as ripgrep takes it"),
        "path": string("The file or folder to search; the working directory by default"),
        "glob": string("Only files whose names match this, such as *.rs"),
        "fixed": switch("The pattern is plain text"),
        "ignore_case": switch("Upper and lower case are the same"),
        "context": {
            "type": "integer", "minimum": 0, "maximum": CONTEXT_LINES_MAX,
            "description": "Lines to show before and after each match"
        },
        "files_only": switch("Only the names of the files that have such lines"),
        "max_matches": {
            "type": "integer", "minimum": 1, "maximum": MATCHES_MAX,
            "description": "How many matches to show at most; 100 by default"
        },
        "skip": {
            "type": "integer", "minimum": 0,
            "description": "How many to pass over, to see what did not fit before"
        }
    })
}

impl Executor for FileTool {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move {
            let cancelled = call.context.cancelled.clone();
            let answered = self.answer(call).await;
            match answered {
                _ if cancelled.is_cancelled() => Err(CallError::cancelled()),
                Ok(text) => Ok(Output::text(text)),
                Err(error) => Ok(Output::error(self.operation.describe(&error))),
            }
        })
    }

    fn coerce(&self, arguments: &mut Map<String, Value>) {
        arguments::coerce(arguments);
    }
}

impl FileTool {
    async fn answer(&self, call: Invocation) -> Result<String, Error> {
        let permits = match self.operation {
            Operation::Glob | Operation::Grep => &self.files.searches,
            _ => &self.files.permits,
        };
        let _permit = permits.acquire().await;
        // Fires as well when this future is dropped, so that a search ends.
        let cancelled = call.context.cancelled.child_token();
        let _guard = cancelled.clone().drop_guard();

        let operation = self.operation;
        let (files, arguments) = (Arc::clone(&self.files), call.arguments);
        if let Operation::Grep = operation {
            return search::grep(&files, grep_search(&arguments), cancelled).await;
        }

        let work = move || {
            let given = |name: &str| text(&arguments, name).unwrap_or_default();
            let path = given("path");
            match operation {
                Operation::Read => {
                    let offset = number(&arguments, "offset");
                    files.read(path, Window { offset, limit: number(&arguments, "limit") })
                }
                Operation::Write => files.write(path, given("content")),
                Operation::Append => files.append(path, given("content")),
                Operation::Edit => {
                    let all = is_on(&arguments, "replace_all");
                    files.edit(
                        path,
                        Edit { old: given("old_string"), new: given("new_string"), all },
                    )
                }
                Operation::Glob | Operation::Grep => {
                    search::glob(&files, &glob_search(&arguments), cancelled)
                }
            }
        };
        spawn_blocking(work).await.map_err(|_| Error::Stopped("it failed"))?
    }
}

fn search_path(arguments: &Map<String, Value>) -> String {
    let path = text(arguments, "path").filter(|path| !path.is_empty());
    path.unwrap_or(".").to_owned()
}

fn glob_search(arguments: &Map<String, Value>) -> GlobSearch {
    GlobSearch {
        pattern: text(arguments, "pattern").unwrap_or_default().to_owned(),
        path: search_path(arguments),
        skip: number(arguments, "skip").unwrap_or_default(),
    }
}

fn grep_search(arguments: &Map<String, Value>) -> GrepSearch {
    let context = number(arguments, "context").and_then(|lines| u32::try_from(lines).ok());
    let context = context.unwrap_or_default();
    let grep = Grep {
        pattern: text(arguments, "pattern").unwrap_or_default().to_owned(),
        fixed: is_on(arguments, "fixed"),
        ignore_case: is_on(arguments, "ignore_case"),
        before: context,
        after: context,
        max_matches: number(arguments, "max_matches").unwrap_or(MATCHES_DEFAULT).min(MATCHES_MAX),
        skip: number(arguments, "skip").unwrap_or_default(),
        ..Grep::default()
    };

    let glob = text(arguments, "glob").filter(|glob| !glob.is_empty()).map(str::to_owned);
    GrepSearch {
        question: GrepFiles { grep, names: is_on(arguments, "files_only") },
        path: search_path(arguments),
        glob,
    }
}
