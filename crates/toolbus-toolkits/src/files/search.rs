//! Finding files by their names, and lines in them.

use std::io::{Read as _, pipe};
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use toolbus_query::question::GrepFiles;
use toolbus_query::{FilesWriter, Limits, Question, Value};

use super::Files;
use super::error::Error;
use super::open;
use super::text::push_note;
use super::walk::{self, Flow, Found, WALK_TIMEOUT, Walk};
use super::workspace::{Place, Wanted};

/// Longest glob pattern, in bytes.
const GLOB_BYTES_MAX: usize = 1024;
/// Most files that one answer names.
const FILES_MAX: usize = 1000;
/// Most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 32 << 10;
/// Largest file that is searched.
const SEARCHED_BYTES_MAX: u64 = 64 << 20;
/// What is read of a file at a time.
const READ_BYTES: usize = 64 << 10;

/// What files are looked for by.
#[derive(Debug, Clone)]
pub(super) struct GlobSearch {
    pub(super) pattern: String,
    /// Where.
    pub(super) path: String,
    /// How many to pass over.
    pub(super) skip: u64,
}

/// What lines are looked for by.
#[derive(Debug, Clone)]
pub(super) struct GrepSearch {
    pub(super) question: GrepFiles,
    /// Where.
    pub(super) path: String,
    /// In which files.
    pub(super) glob: Option<String>,
}

/// The names of files that match.
pub(super) fn glob(
    files: &Files,
    search: &GlobSearch,
    cancelled: CancellationToken,
) -> Result<String, Error> {
    let matcher = compile(&search.pattern)?;
    let place = files.workspace.find(&search.path, Wanted::Any)?;
    let folder = files.workspace.show(&place);

    let mut walk = Walk::new(cancelled);
    let mut answer = String::new();
    let (mut matched, mut shown) = (0, 0);
    let mut has_more = false;
    walk.visit_files(&place, &mut |found| {
        if !matcher.is_match(found.below) {
            return Ok(Flow::Continue);
        }
        matched += 1;
        if matched <= search.skip {
            return Ok(Flow::Continue);
        }

        let path = walk::path_of(&folder, found.below);
        let path = path.to_string_lossy();
        has_more = shown == FILES_MAX || answer.len() + path.len() >= ANSWER_BYTES_MAX;
        if has_more {
            return Ok(Flow::Stop);
        }
        answer.push_str(&path);
        answer.push('\n');
        shown += 1;
        Ok(Flow::Continue)
    })?;

    if shown == 0 {
        answer = format!("No files match '{}'", search.pattern);
    }
    if has_more {
        let skip = search.skip + shown as u64;
        push_note(
            &mut answer,
            &format!("{shown} files are shown; narrow the pattern, or skip {skip}"),
        );
    }
    walk.into_notes().iter().for_each(|note| push_note(&mut answer, note));
    Ok(answer)
}

/// The lines that match. A worker of the engine looks for them, in what is read here.
pub(super) async fn grep(
    files: &Arc<Files>,
    search: GrepSearch,
    cancelled: CancellationToken,
) -> Result<String, Error> {
    let glob = search.glob.as_deref().map(compile).transpose()?;
    let io = |error| Error::io(&search.path, error);
    let (reader, writer) = pipe().map_err(io)?;

    let (own, path) = (Arc::clone(files), search.path.clone());
    // It ends with the walk, or when nobody reads any more.
    let feeding = spawn_blocking(move || {
        let feed = Feed { files: &own, glob, writer: FilesWriter::new(writer), too_large: 0 };
        feed.run(&path, cancelled)
    });

    let limits = Limits {
        answer_bytes: ANSWER_BYTES_MAX,
        // The walk ends first, and says so.
        timeout: WALK_TIMEOUT + WALK_TIMEOUT / 2,
        ..Limits::default()
    };
    let pattern = search.question.grep.pattern.clone();
    let question = Question::GrepFiles(search.question);
    let answered = files.engine.ask(&question, Value::pipe(reader), &limits).await;
    let fed = feeding.await.map_err(|_| Error::Stopped("the search failed"))?;
    let notes = fed?;
    let answer = answered.map_err(|error| match error {
        toolbus_query::Error::Invalid { message } => Error::Pattern(message),
        error => Error::Query(error),
    })?;

    let mut text = answer.text;
    if text.is_empty() {
        text = format!("No lines match '{pattern}'");
    }
    let more = answer.more.map(|more| more.hint);
    let all = answer.notes.into_iter().chain(more).chain(notes);
    all.for_each(|note| push_note(&mut text, &note));
    Ok(text)
}

/// Reads files into the pipe of a worker.
struct Feed<'a, W> {
    files: &'a Files,
    glob: Option<GlobMatcher>,
    writer: FilesWriter<W>,
    /// How many files were too large.
    too_large: usize,
}

impl<W: std::io::Write> Feed<'_, W> {
    /// Notes on what was left out.
    fn run(mut self, path: &str, cancelled: CancellationToken) -> Result<Vec<String>, Error> {
        let workspace = &self.files.workspace;
        let place = workspace.find(path, Wanted::Any)?;
        let shown = workspace.show(&place);
        if !place.is_folder() {
            return self.feed_single(&place, &shown);
        }

        let mut walk = Walk::new(cancelled);
        walk.visit_files(&place, &mut |found| {
            if self.glob.as_ref().is_some_and(|glob| !glob.is_match(found.below)) {
                return Ok(Flow::Continue);
            }
            let name = walk::path_of(&shown, found.below);
            match self.feed_found(&found, &name.to_string_lossy()) {
                Ok(()) => Ok(Flow::Continue),
                Err(Error::TooLarge { .. }) => {
                    self.too_large += 1;
                    Ok(Flow::Continue)
                }
                Err(error) if walk::is_passed_over(&error) => Ok(Flow::Continue),
                // Nobody reads any more: the answer is there.
                Err(_) => Ok(Flow::Stop),
            }
        })?;

        let mut notes = walk.into_notes();
        if self.too_large > 0 {
            notes.push(format!("{} files of more than 64 MiB were not searched", self.too_large));
        }
        Ok(notes)
    }

    fn feed_single(&mut self, place: &Place<'_>, shown: &str) -> Result<Vec<String>, Error> {
        let file = open::open_place(place, open::for_reading())?;
        match self.feed(file, shown) {
            Err(error @ Error::TooLarge { .. }) => Err(error),
            _ => Ok(Vec::new()),
        }
    }

    fn feed_found(&mut self, found: &Found<'_>, shown: &str) -> Result<(), Error> {
        let file = open::open_beneath(found.folder, found.name(), open::for_reading(), shown)?;
        self.feed(file, shown)
    }

    /// Writes one file. It is whole for the worker, also where reading it fails half way.
    fn feed(&mut self, mut file: std::fs::File, shown: &str) -> Result<(), Error> {
        let io = |error| Error::io(&shown, error);
        let bytes = file.metadata().map_err(io)?.len();
        if bytes > SEARCHED_BYTES_MAX {
            let (path, max) = (shown.to_owned(), SEARCHED_BYTES_MAX);
            return Err(Error::TooLarge { path, bytes, max });
        }

        let mut buffer = vec![0; READ_BYTES];
        let mut left = SEARCHED_BYTES_MAX;
        self.writer.begin_file(shown).map_err(io)?;
        while left > 0 {
            let Ok(length @ 1..) = file.read(&mut buffer) else { break };
            self.writer.write_bytes(&buffer[..length]).map_err(io)?;
            left = left.saturating_sub(length as u64);
        }
        self.writer.end_file().map_err(io)
    }
}

/// A pattern without a slash is about the names of files, in whatever folder.
fn compile(pattern: &str) -> Result<GlobMatcher, Error> {
    if pattern.is_empty() || pattern.len() > GLOB_BYTES_MAX {
        return Err(Error::Pattern(format!("it has to have 1 to {GLOB_BYTES_MAX} bytes")));
    }
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let anywhere = format!("**/{pattern}");
    let pattern = if pattern.contains('/') { pattern } else { &anywhere };

    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| Error::Pattern(error.to_string()))
}

/// Reads a pattern, and compares it with the path of a file.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(pattern: &str, path: &str) {
    if let Ok(matcher) = compile(pattern) {
        let _ = matcher.is_match(path);
    }
}
