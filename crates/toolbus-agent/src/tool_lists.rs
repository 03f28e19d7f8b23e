//! The tools that a model is told of.
//!
//! Where their definitions are larger than a budget, those that were registered last are left out
//! until the model has found them with `tool_search`. What it found stands in the session, so a
//! session that is read back has the same list.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use toolbus_models::message::Message;
use toolbus_models::request::ToolList;
use toolbus_tools::registry::ToolEntry;
use toolbus_tools::{Invoker, Scope, tool_search};

/// How large the definitions may be where nobody says, in bytes: some 16,000 tokens.
pub(crate) const DEFINITIONS_BYTES_DEFAULT: usize = 64 << 10;

/// Makes lists of tools, and keeps the last one, which each API has lowered once.
pub(crate) struct ToolLists {
    definitions_bytes_max: usize,
    kept: Mutex<Option<KeptList>>,
}

/// A list of tools, and what it was made from.
struct KeptList {
    /// The revision of the registry.
    revision: u64,
    /// The names of the tools that the scope may see.
    names: Vec<String>,
    /// Those tools; some of them are deferred.
    tools: Vec<Arc<ToolEntry>>,
    list: Arc<ToolList>,
}

impl ToolLists {
    pub(crate) fn new(definitions_bytes_max: usize) -> Self {
        Self { definitions_bytes_max, kept: Mutex::new(None) }
    }

    /// The tools of a request with these messages.
    pub(crate) fn list(
        &self,
        invoker: &Invoker,
        scope: &Scope,
        messages: &[Arc<Message>],
    ) -> Arc<ToolList> {
        let snapshot = invoker.registry().snapshot();
        let seen: Vec<_> = snapshot.seen_by(scope).collect();
        let revision = snapshot.revision();
        let mut kept = self.kept.lock();
        let is_known = |kept: &KeptList| {
            kept.revision == revision
                && kept.names.iter().eq(seen.iter().map(|entry| &entry.tool.name))
        };

        let known = kept.take().filter(is_known).unwrap_or_else(|| {
            let names = seen.iter().map(|entry| entry.tool.name.clone()).collect();
            let tools = fit(seen.into_iter().cloned().collect(), self.definitions_bytes_max);
            let list = Arc::new(ToolList::new(tools.clone()));
            KeptList { revision, names, tools, list }
        });
        let found = found_in(messages, &known.tools);
        let list = match known.list.found() == found {
            true => Arc::clone(&known.list),
            false => Arc::new(ToolList::new(known.tools.clone()).with_found(found)),
        };
        *kept = Some(KeptList { list: Arc::clone(&list), ..known });
        list
    }
}

/// The tools, of which those are deferred that do not fit.
fn fit(tools: Vec<Arc<ToolEntry>>, bytes_max: usize) -> Vec<Arc<ToolEntry>> {
    // Without the search nobody would find them.
    if !tools.iter().any(|entry| entry.tool.name == tool_search::NAME) {
        return tools;
    }
    let mut bytes = 0;
    let fitted = tools.into_iter().map(|entry| {
        let tool = &entry.tool;
        if tool.defer || tool.name == tool_search::NAME {
            return entry;
        }
        bytes += tool.name.len() + tool.description.len() + tool.parameters.to_string().len();
        if bytes > bytes_max { Arc::new(entry.deferred()) } else { entry }
    });
    fitted.collect()
}

/// The deferred tools that are named in results of searches, in the order in which they were found.
fn found_in(messages: &[Arc<Message>], tools: &[Arc<ToolEntry>]) -> Vec<String> {
    let deferred: HashMap<&str, &Arc<ToolEntry>> = tools
        .iter()
        .filter(|entry| entry.tool.defer)
        .map(|entry| (entry.tool.name.as_str(), entry))
        .collect();
    if deferred.is_empty() {
        return Vec::new();
    }

    let (mut searches, mut known, mut found) = (HashSet::new(), HashSet::new(), Vec::new());
    for message in messages {
        match &**message {
            Message::Assistant(answer) => {
                let calls = answer.calls().filter(|call| call.name == tool_search::NAME);
                searches = calls.map(|call| call.id.as_str()).collect();
            }
            Message::Results { results } => {
                let of_searches =
                    results.iter().filter(|result| searches.contains(result.call_id.as_str()));
                for word in of_searches.flat_map(|result| words(&result.text)) {
                    if deferred.contains_key(word) && known.insert(word) {
                        found.push(word.to_owned());
                    }
                }
            }
            Message::User { .. } => {}
        }
    }
    found
}

/// What may be a name in a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_of_name = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    let words = text.split(move |c: char| !is_of_name(c));
    words.map(|word| word.trim_end_matches(['.', '/', '-'])).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests;
