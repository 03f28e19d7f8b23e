//! The tools of working memory: `save_to_working_memory`, `get_from_working_memory`,
//! `delete_from_working_memory`, `list_working_memory` and `search_working_memory`.

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use std::time::Duration;
use toolbus_tools::arguments::{number, text};
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::registry::{self, Registry};
use toolbus_tools::tool::{Annotations, Risk};
use toolbus_tools::{Door, Executor, Guide, Scope, Tool};

use crate::arguments;
use crate::chunker::{end_of_units, utf16_len};
use crate::config::ResultThreshold;
use crate::namespace::{Namespace, Path};
use crate::working::{Filter, List, NewEntry, WorkingMemory};
use crate::{Error, MemoryConfig, MemoryOwner, texts};

const SOURCE: &str = "working-memory";
/// Room for the note on what is not listed, in UTF-16 code units.
const NOTE_UNITS: usize = 100;

#[derive(Debug, Clone, Copy)]
enum Operation {
    Save,
    Get,
    Delete,
    List,
    Search,
}

struct WorkingTool {
    operation: Operation,
    memory: WorkingMemory,
    threshold: ResultThreshold,
}

/// The guide to working memory.
pub(crate) fn guide() -> Guide {
    Guide {
        name: SOURCE.to_owned(),
        summary: "Keep results and notes of this session for a while, and read them in parts"
            .to_owned(),
        document: include_str!("guides/working_memory.md").to_owned(),
    }
}

/// Registers the tools. `threshold` says how much of an entry is read at a time.
pub(crate) fn register(
    registry: &Registry,
    memory: &WorkingMemory,
    threshold: &ResultThreshold,
) -> Result<(), registry::Error> {
    use Operation::{Delete, Get, List, Save, Search};
    for operation in [Save, Get, Delete, List, Search] {
        let tool = WorkingTool { operation, memory: memory.clone(), threshold: threshold.clone() };
        registry.register(operation.definition(memory.config()), tool)?;
    }
    Ok(())
}

impl Operation {
    fn definition(self, config: &MemoryConfig) -> Tool {
        let described = |text: &str| json!({"type": "string", "description": text});
        let key = described(
            "The key. It may have folders, as in notes/today; with a namespace before it, as in \
             subagent/1f/found, it is in that one",
        );
        let namespace = described(
            "Where to look: this session's own by default; subagent/1f, or subagent for all of them",
        );
        let category = described("Only entries whose category begins with this");
        let tags = described("Only entries that have all of these tags, with commas between them");

        let tool = |name: &str, alias: &str, description: String| {
            Tool::new(name, description, SOURCE).in_group(SOURCE).with_alias(alias)
        };
        match self {
            Self::Save => with_save_annotations(tool("save_to_working_memory", "SaveToWorkingMemory", format!(
                "Keeps a value of this session under a key for a while: {} minutes by default. A key \
                 that is there is written anew. At most {} entries of at most {} bytes each; what \
                 does not fit is refused.",
                config.ttl.as_secs() / 60, config.entries_max, config.entry_bytes_max,
            )))
            .with_parameters(save_parameters(config, &key)),
            Self::Get => tool("get_from_working_memory", "GetFromWorkingMemory",
                "Returns what is kept under a key. A long entry comes in parts: `offset` is where the \
                 next one begins.".to_owned())
            .read_only()
            .reading_stored()
            .with_parameters(json!({
                "type": "object",
                "properties": {
                    "key": key,
                    "offset": {"type": "integer", "minimum": 0, "description": "How many characters to pass over; 0 by default"}
                },
                "required": ["key"]
            })),
            Self::Delete => with_save_annotations(tool("delete_from_working_memory", "DeleteFromWorkingMemory",
                "Forgets what is kept under a key.".to_owned()))
            .with_parameters(json!({"type": "object", "properties": {"key": key}, "required": ["key"]})),
            Self::List => tool("list_working_memory", "ListWorkingMemory",
                "Lists the keys that are kept, with how long they still are.".to_owned())
            .read_only()
            .reading_stored()
            .with_parameters(json!({"type": "object", "properties": {"namespace": namespace}})),
            Self::Search => tool("search_working_memory", "SearchWorkingMemory",
                "Finds entries by words, category and tags: at most 20, best first, or newest first \
                 without words. It shows how each begins.".to_owned())
            .read_only()
            .reading_stored()
            .with_parameters(json!({
                "type": "object",
                "properties": {
                    "query": described("Words to look for in keys and values"),
                    "category": category,
                    "tags": tags,
                    "namespace": namespace
                }
            })),
        }
    }
}

/// What a tool changes is this session's own, and for a while.
fn with_save_annotations(tool: Tool) -> Tool {
    let annotations = Annotations { idempotent: true, ..tool.annotations };
    Tool { annotations, ..tool.with_risk(Risk::Low) }
}

fn save_parameters(config: &MemoryConfig, key: &Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "key": key,
            "data": {"type": "string", "description": "The value"},
            "ttl_minutes": {
                "type": "integer",
                "minimum": 1,
                "maximum": config.ttl_max.as_secs() / 60,
                "description": "How many minutes to keep it"
            },
            "category": {"type": "string", "description": "A category to find it by"},
            "tags": {"type": "string", "description": "Tags to find it by, with commas between them"}
        },
        "required": ["key", "data"]
    })
}

impl Executor for WorkingTool {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move {
            let answer = self.answer(&call.scope, &call.arguments).await?;
            Ok(Output::text(answer))
        })
    }

    fn coerce(&self, arguments: &mut Map<String, Value>) {
        arguments::coerce(arguments);
    }
}

impl WorkingTool {
    async fn answer(&self, scope: &Scope, arguments: &Map<String, Value>) -> Result<String, Error> {
        let namespace = Namespace::of(scope)?;
        let owner = MemoryOwner::of(scope);
        let key = || namespace.path_of(text(arguments, "key").unwrap_or_default());

        match self.operation {
            Operation::Save => {
                let path = check_writable(&namespace, key()?)?;
                self.save(&owner, path, arguments).await
            }
            Operation::Get => {
                let offset = number(arguments, "offset").unwrap_or_default();
                let units_max = self.readable_units(scope);
                self.get(&owner, &key()?, Window { offset, units_max }).await
            }
            Operation::Delete => {
                let path = check_writable(&namespace, key()?)?;
                self.memory.delete(&owner, &path).await?;
                Ok(format!("Working memory entry '{path}' deleted."))
            }
            Operation::List => {
                let below = search_root(&namespace, text(arguments, "namespace"))?;
                let list = self.memory.list(&owner, &below).await?;
                let is_own = below == *namespace.as_path();
                Ok(describe_list(&list, &below, is_own, self.readable_units(scope)))
            }
            Operation::Search => {
                let below = search_root(&namespace, text(arguments, "namespace"))?;
                self.search(&owner, &below, arguments).await
            }
        }
    }

    /// How much the caller reads at a time. Programs take all of it.
    fn readable_units(&self, scope: &Scope) -> usize {
        match scope.door {
            Door::Turn => self.threshold.chunk_units(scope),
            _ => usize::MAX,
        }
    }

    async fn save(
        &self,
        owner: &MemoryOwner,
        path: Path,
        arguments: &Map<String, Value>,
    ) -> Result<String, Error> {
        let mut entry = NewEntry::new(path.clone(), text(arguments, "data").unwrap_or_default())
            .with_category(text(arguments, "category"))?
            .with_tags(text(arguments, "tags"))?;
        if let Some(minutes) = number(arguments, "ttl_minutes") {
            entry = entry.with_ttl(Duration::from_secs(minutes.saturating_mul(60)));
        }

        self.memory.save(owner, entry).await?;
        Ok(format!("Saved to working memory under key '{path}'."))
    }

    async fn get(&self, owner: &MemoryOwner, path: &Path, window: Window) -> Result<String, Error> {
        let found = self.memory.find(owner, path).await?;
        Ok(match found {
            Some(entry) => window.of(entry.value),
            None => format!("Working memory entry '{path}' not found or has expired."),
        })
    }

    async fn search(
        &self,
        owner: &MemoryOwner,
        below: &Path,
        arguments: &Map<String, Value>,
    ) -> Result<String, Error> {
        let given = |name: &str| {
            let text = text(arguments, name).map(str::trim);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let filter = Filter {
            query: given("query"),
            category: given("category"),
            tags: texts::parse_tags(text(arguments, "tags"))?,
        };
        let found = self.memory.search(owner, below, &filter).await?;

        let filters = filter.describe();
        let mut answer = match found.entries.len() {
            0 => format!("No working memory entries matched ({filters}) in namespace '{below}'."),
            count => {
                format!("Working memory search ({filters}) in '{below}' — {count} result(s):")
            }
        };
        for entry in &found.entries {
            let line = entry.info.describe(found.now_ms);
            answer.push_str(&format!("\n{line}: {}", texts::make_preview(&entry.value)));
        }
        if found.unread > 0 {
            let unread = found.unread;
            answer.push_str(&format!(
                "\n{unread} older entries were not searched: there is too much"
            ));
        }
        Ok(answer)
    }
}

/// The entries in lines, as many as fit.
fn describe_list(list: &List, below: &Path, is_own: bool, units_max: usize) -> String {
    if list.entries.is_empty() {
        return match is_own {
            true => "Working memory is empty.".to_owned(),
            false => format!("No entries found in namespace '{below}'."),
        };
    }

    let mut more = list.entries.len() + list.more;
    let mut answer = format!("Working memory '{below}' ({more} entries):");
    let mut units = utf16_len(&answer) + NOTE_UNITS;
    for entry in &list.entries {
        let line = entry.describe(list.now_ms);
        units = units.saturating_add(utf16_len(&line) + 1);
        if units > units_max {
            break;
        }
        answer.push('\n');
        answer.push_str(&line);
        more -= 1;
    }
    if more > 0 {
        answer.push_str(&format!("\n… and {more} more: name a namespace, or search"));
    }
    answer
}

/// Which part of a value is read.
#[derive(Debug, Clone, Copy)]
struct Window {
    offset: u64,
    units_max: usize,
}

impl Window {
    fn of(self, value: String) -> String {
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let start = end_of_units(&value, offset);
        let rest = &value[start..];
        let end = end_of_units(rest, self.units_max);
        if start == 0 && end == value.len() {
            return value;
        }

        let all = utf16_len(&value);
        let from = utf16_len(&value[..start]);
        let next = from + utf16_len(&rest[..end]);
        let more = match next < all {
            true => format!("; the next part begins at offset {next}"),
            false => String::new(),
        };
        format!("{}\n[characters {from} to {next} of {all}{more}]", &rest[..end])
    }
}

/// A path that calls of this namespace may change.
fn check_writable(namespace: &Namespace, path: Path) -> Result<Path, Error> {
    match namespace.may_write(&path) {
        true => Ok(path),
        false => Err(Error::ForeignSession(path.to_string())),
    }
}

fn search_root(namespace: &Namespace, asked: Option<&str>) -> Result<Path, Error> {
    match asked.filter(|asked| !asked.trim().is_empty()) {
        Some(asked) => namespace.prefix_of(asked),
        None => Ok(namespace.as_path().clone()),
    }
}

#[cfg(test)]
mod tests;
