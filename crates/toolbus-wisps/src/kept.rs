//! What is kept of wisps in working memory: outputs for those who read them, and what was begun and
//! how it ended, so that a call that comes again runs no step twice.
//!
//! All of it belongs to the owner of the call's memory, and is a part of results: it is counted
//! apart from what a model saves by hand.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use toolbus_memory::{Error, MemoryOwner, Namespace, NewEntry, Path, WorkingMemory};
use toolbus_tools::id::SessionId;
use toolbus_tools::{Output, Scope};

use crate::WispsConfig;
use crate::ids::{BatchId, WispId};
use crate::report::{Category, StepFailure};

/// The last part of the key of an output.
pub(crate) const OUTPUT: &str = "output";
/// The same of what is known of a step's call.
const CALL: &str = "call";
/// The same of the result of a batch.
const RESULT: &str = "result";
const CATEGORY: &str = "wisp";

/// Keeps what wisps give, for one owner.
pub(crate) struct Kept<'a> {
    pub(crate) memory: &'a WorkingMemory,
    pub(crate) owner: MemoryOwner,
    pub(crate) config: &'a WispsConfig,
}

/// What is known of the steps of a wisp that was begun before.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    steps: HashMap<String, Known>,
}

/// What is known of a step.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    /// It has given this.
    Succeeded(String),
    /// It has failed.
    Failed(StepFailure),
    /// A task was sent to another agent, and its end is waited for.
    Waiting {
        /// The task.
        task_id: String,
    },
    /// It was begun.
    Begun,
}

impl Known {
    fn to_json(&self) -> Value {
        match self {
            Self::Succeeded(_) => json!({"state": "succeeded"}),
            Self::Failed(failure) => json!({
                "state": "failed", "category": failure.category.as_str(),
                "message": failure.message,
            }),
            Self::Waiting { task_id } => json!({"state": "waiting", "task": task_id}),
            Self::Begun => json!({"state": "begun"}),
        }
    }

    /// What is not understood was begun, for sure.
    fn read(text: &str) -> Self {
        let value: Value = toolbus_json::from_trusted(text).unwrap_or_default();
        let text = |member: &str| value[member].as_str().unwrap_or_default().to_owned();
        match text("state").as_str() {
            "failed" => {
                let category = Category::parse(&text("category"));
                Self::Failed(StepFailure::new(category, text("message")))
            }
            "waiting" => Self::Waiting { task_id: text("task") },
            _ => Self::Begun,
        }
    }
}

impl Journal {
    pub(crate) fn find(&self, step: &str) -> Option<&Known> {
        self.steps.get(&step.to_lowercase())
    }
}

impl Kept<'_> {
    /// The result of a batch that has ended.
    pub(crate) async fn find_result(&self, batch: &BatchId) -> Result<Option<Output>, Error> {
        let path = path_of(&batch.key(RESULT))?;
        let Some(entry) = self.memory.find(&self.owner, &path).await? else { return Ok(None) };
        let value: Value = toolbus_json::from_trusted(&entry.value).unwrap_or_default();
        let Some(text) = value["text"].as_str() else { return Ok(None) };
        Ok(Some(match value["isError"].as_bool() {
            Some(true) => Output::error(text),
            _ => Output::text(text),
        }))
    }

    /// Keeps how a batch has ended.
    pub(crate) async fn keep_result(
        &self,
        batch: &BatchId,
        summary: &Value,
        output: &Output,
    ) -> Result<(), Error> {
        let result = json!({"isError": output.is_error, "text": output.to_text()});
        let entries = [("summary", summary), (RESULT, &result)].map(|(name, value)| {
            self.entry(&batch.key(name), value.to_string(), self.config.summary_ttl)
        });
        let entries = entries.into_iter().collect::<Result<_, _>>()?;
        self.memory.save_all(&self.owner, entries).await
    }

    /// What is known of the steps of a wisp.
    pub(crate) async fn open_journal(&self, wisp: &WispId) -> Result<Journal, Error> {
        let session = SessionId::parse(wisp.namespace());
        let session = session.map_err(|_| Error::Key("it is no namespace of a wisp"))?;
        let below = Namespace::of_session(&session)?;
        let mut journal = Journal::default();

        for info in self.memory.list(&self.owner, below.as_path()).await?.entries {
            let lower = info.path.to_lowercase();
            let mut parts = lower.rsplit('/');
            let (Some(name), Some(step)) = (parts.next(), parts.next()) else { continue };
            if name != OUTPUT && name != CALL {
                continue;
            }
            let path = path_of(&info.path)?;
            let Some(entry) = self.memory.find(&self.owner, &path).await? else { continue };
            if name == OUTPUT {
                journal.steps.insert(step.to_owned(), Known::Succeeded(entry.value));
            } else {
                let known = Known::read(&entry.value);
                journal.steps.entry(step.to_owned()).or_insert(known);
            }
        }
        Ok(journal)
    }

    /// Writes down what is known of a step.
    pub(crate) async fn note(&self, wisp: &WispId, step: &str, known: &Known) -> Result<(), Error> {
        let key = wisp.key(step, CALL);
        let entry = self.entry(&key, known.to_json().to_string(), self.config.output_ttl)?;
        self.memory.save_all(&self.owner, vec![entry]).await
    }

    /// Takes back that a step was begun.
    pub(crate) async fn take_back(&self, wisp: &WispId, step: &str) -> Result<(), Error> {
        self.memory.delete(&self.owner, &path_of(&wisp.key(step, CALL))?).await?;
        Ok(())
    }

    /// Keeps the output of a step.
    pub(crate) async fn keep_output(
        &self,
        wisp: &WispId,
        step: &str,
        text: &str,
    ) -> Result<(), Error> {
        let key = wisp.key(step, OUTPUT);
        let entry = self.entry(&key, text.to_owned(), self.config.output_ttl)?;
        self.memory.save_all(&self.owner, vec![entry]).await
    }

    /// Keeps the output of a step under the key that its definition names.
    pub(crate) async fn keep_output_to(&self, path: &Path, text: &str) -> Result<(), Error> {
        let entry = NewEntry::new(path.clone(), text).with_ttl(self.config.output_ttl);
        self.memory.save(&self.owner, entry.with_category(Some(CATEGORY))?).await
    }

    /// Keeps a long input in chunks, and gives their keys.
    pub(crate) async fn keep_chunks(
        &self,
        wisp: &WispId,
        step: &str,
        text: &str,
    ) -> Result<Vec<String>, Error> {
        let mut keys = Vec::new();
        let mut entries = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.char_indices().nth(self.config.chunk_chars_max.get());
            let (chunk, after) = rest.split_at(end.map_or(rest.len(), |(end, _)| end));
            let key = wisp.key(step, &format!("input-chunk{}", keys.len()));
            entries.push(self.entry(&key, chunk.to_owned(), self.config.chunk_ttl)?);
            keys.push(key);
            rest = after;
        }
        self.memory.save_all(&self.owner, entries).await?;
        Ok(keys)
    }

    /// Keeps these outputs for a shorter time: their wisp has succeeded.
    pub(crate) async fn shorten(&self, keys: &[String], ttl: Duration) -> Result<(), Error> {
        let paths = keys.iter().map(|key| path_of(key)).collect::<Result<_, _>>()?;
        self.memory.shorten(&self.owner, paths, ttl).await
    }

    fn entry(&self, key: &str, value: String, ttl: Duration) -> Result<NewEntry, Error> {
        let entry = NewEntry::new(path_of(key)?, value).with_ttl(ttl);
        Ok(entry.with_category(Some(CATEGORY))?.of_result())
    }
}

/// Where the output of a step goes that names a key: into the session, or else beside the wisp's.
pub(crate) fn output_path(scope: &Scope, wisp: &WispId, key: &str) -> Result<Path, Error> {
    let Some(session) = &scope.session else {
        return path_of(&format!("{}/{key}", wisp.namespace()));
    };
    let namespace = Namespace::of_session(session)?;
    let path = namespace.path_of(key)?;
    match namespace.may_write(&path) {
        true => Ok(path),
        false => Err(Error::ForeignSession(path.to_string())),
    }
}

/// The path of a key that begins with the namespace of a wisp or a batch.
fn path_of(key: &str) -> Result<Path, Error> {
    let mut slashes = key.match_indices('/');
    let end = slashes.nth(1).map_or(key.len(), |(end, _)| end);
    let session = SessionId::parse(&key[..end]);
    let session = session.map_err(|_| Error::Key("it is no key of a wisp"))?;
    Namespace::of_session(&session)?.path_of(key)
}
