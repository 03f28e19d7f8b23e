//! The tools of long-term memory, rules and the time zone.

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolbus_store::LazyStore;
use toolbus_tools::arguments::text;
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::registry::{self, Registry};
use toolbus_tools::tool::{Annotations, Risk};
use toolbus_tools::{Executor, Guide, Tool};

use crate::arguments;
use crate::long_term::{LongTermMemory, MEMORY_BYTES_MAX, Memory};
use crate::rules::{Preferences, RULE_CHARS_MAX, Rules};
use crate::{Error, MemoryOwner, texts};

const SOURCE: &str = "memory";
/// How much of a memory is repeated when it is deleted, in characters.
const DELETED_CHARS_MAX: usize = 200;

#[derive(Debug, Clone, Copy)]
enum Operation {
    SaveMemory,
    SearchMemory,
    DeleteMemory,
    ListCategories,
    AddRule,
    RemoveRule,
    ListRules,
    SetTimezone,
}

#[derive(Clone)]
struct LongTermTool {
    operation: Operation,
    memory: LongTermMemory,
    rules: Rules,
    preferences: Preferences,
}

/// The guide to long-term memory and rules.
pub(crate) fn guide() -> Guide {
    Guide {
        name: SOURCE.to_owned(),
        summary: "Remember facts, rules and the time zone of a person across sessions".to_owned(),
        document: include_str!("guides/memory.md").to_owned(),
    }
}

pub(crate) fn register(registry: &Registry, store: &LazyStore) -> Result<(), registry::Error> {
    use Operation::{
        AddRule, DeleteMemory, ListCategories, ListRules, RemoveRule, SaveMemory, SearchMemory,
        SetTimezone,
    };
    let all = [
        SaveMemory,
        SearchMemory,
        DeleteMemory,
        ListCategories,
        AddRule,
        RemoveRule,
        ListRules,
        SetTimezone,
    ];

    for operation in all {
        let tool = LongTermTool {
            operation,
            memory: LongTermMemory::new(store.clone()),
            rules: Rules::new(store.clone()),
            preferences: Preferences::new(store.clone()),
        };
        registry.register(operation.definition(), tool)?;
    }
    Ok(())
}

impl Operation {
    /// The tool's name, its other name, and what it is described as.
    fn words(self) -> (&'static str, &'static str, String) {
        let (name, alias, description) = match self {
            Self::SaveMemory => {
                let text = format!(
                    "Remembers a fact across sessions, in at most {MEMORY_BYTES_MAX} bytes: what a \
                     person prefers, has decided, or wants to be known."
                );
                return ("save_memory", "SaveMemory", text);
            }
            Self::SearchMemory => (
                "search_memory",
                "SearchMemory",
                "Finds what is remembered: at most 20 memories, best first, or the newest without a \
                 query.",
            ),
            Self::DeleteMemory => (
                "delete_memory",
                "DeleteMemory",
                "Forgets one memory, by the id that search_memory shows.",
            ),
            Self::ListCategories => (
                "list_categories",
                "ListCategories",
                "Lists the categories of memories, with how many each has.",
            ),

            Self::AddRule => {
                let text = format!(
                    "Adds a rule that this agent keeps in every session, in at most \
                     {RULE_CHARS_MAX} characters. Add one only when a person asks for it."
                );
                return ("add_rule", "AddRule", text);
            }
            Self::RemoveRule => {
                ("remove_rule", "RemoveRule", "Removes a rule, by its text as list_rules shows it.")
            }
            Self::ListRules => ("list_rules", "ListRules", "Lists the rules that are kept."),
            Self::SetTimezone => (
                "set_timezone",
                "SetTimezone",
                "Sets the time zone that times are told in, by its IANA name.",
            ),
        };
        (name, alias, description.to_owned())
    }

    fn definition(self) -> Tool {
        let (name, alias, description) = self.words();
        let tool = Tool::new(name, description, SOURCE).in_group(SOURCE).with_alias(alias);
        let described = |text: &str| json!({"type": "string", "description": text});
        let object = |properties: Value, required: &[&str]| json!({"type": "object", "properties": properties, "required": required});

        match self {
            Self::SaveMemory => with_change_annotations(tool, false).with_parameters(object(
                json!({
                    "content": described("What to remember, so that it can be understood alone"),
                    "category": described("A category, such as preferences/food"),
                    "tags": described("Tags, with commas between them"),
                }),
                &["content"],
            )),
            Self::SearchMemory => tool.read_only().with_parameters(object(
                json!({
                    "query": described("Words to look for"),
                    "category": described("Only of categories that begin with this"),
                }),
                &[],
            )),
            Self::DeleteMemory => with_change_annotations(tool.destructive(), true)
                .with_parameters(object(json!({"id": described("The id of the memory")}), &["id"])),
            Self::ListCategories | Self::ListRules => tool.read_only(),
            Self::AddRule => with_change_annotations(tool, true)
                .with_parameters(object(json!({"rule": described("The rule")}), &["rule"])),
            Self::RemoveRule => with_change_annotations(tool.destructive(), true)
                .with_parameters(object(json!({"rule": described("The rule")}), &["rule"])),
            Self::SetTimezone => {
                let id = described("The name of the zone, such as America/Chicago");
                with_change_annotations(tool, true)
                    .with_parameters(object(json!({"timezoneId": id}), &["timezoneId"]))
            }
        }
    }
}

/// What a tool changes can be changed back.
pub(crate) fn with_change_annotations(tool: Tool, is_idempotent: bool) -> Tool {
    let annotations = Annotations { idempotent: is_idempotent, ..tool.annotations };
    Tool { annotations, ..tool.with_risk(Risk::Medium) }
}

impl Executor for LongTermTool {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move {
            let owner = MemoryOwner::of(&call.scope);
            Ok(Output::text(self.answer(&owner, &call.arguments).await?))
        })
    }

    fn coerce(&self, arguments: &mut Map<String, Value>) {
        arguments::coerce(arguments);
        if let Some(id) = arguments.remove("timezone_id").or_else(|| arguments.remove("timezone")) {
            arguments.entry("timezoneId").or_insert(id);
        }
    }
}

impl LongTermTool {
    async fn answer(
        &self,
        owner: &MemoryOwner,
        arguments: &Map<String, Value>,
    ) -> Result<String, Error> {
        let given = |name: &str| text(arguments, name).unwrap_or_default();
        match self.operation {
            Operation::SaveMemory => {
                let (category, tags) = (text(arguments, "category"), text(arguments, "tags"));
                let id = self.memory.save(owner, given("content"), category, tags).await?;
                Ok(format!("Memory saved with id '{id}'."))
            }
            Operation::SearchMemory => {
                let (query, category) = (text(arguments, "query"), text(arguments, "category"));
                Ok(describe_found(&self.memory.search(owner, query, category).await?))
            }
            Operation::DeleteMemory => {
                let id = given("id").trim();
                let deleted = self.memory.delete(owner, id).await?;
                Ok(describe_deleted(id, deleted.as_ref()))
            }
            Operation::ListCategories => {
                Ok(describe_categories(&self.memory.categories(owner).await?))
            }

            Operation::AddRule => {
                let rule = self.rules.add(owner, given("rule")).await?;
                Ok(format!("Rule added: \"{rule}\""))
            }
            Operation::RemoveRule => Ok(match self.rules.remove(owner, given("rule")).await? {
                Some(rule) => format!("Rule removed: \"{rule}\""),
                None => {
                    let rule = texts::single_line(given("rule"));
                    format!("No rule found: \"{rule}\". Use list_rules to see the active rules.")
                }
            }),
            Operation::ListRules => Ok(describe_rules(&self.rules.list(owner).await?)),
            Operation::SetTimezone => {
                let asked = given("timezoneId");
                Ok(match self.preferences.set_timezone(owner, asked).await? {
                    Some(zone) => format!("Timezone updated to {zone}."),
                    None => format!(
                        "Unknown timezone '{}'. Use an IANA timezone ID such as 'America/Chicago' \
                         or 'Europe/London'.",
                        texts::make_preview(asked)
                    ),
                })
            }
        }
    }
}

fn describe_found(found: &[Memory]) -> String {
    if found.is_empty() {
        return "No memories found matching the search criteria.".to_owned();
    }
    let mut answer = format!("Found {} memory entries:", found.len());
    for memory in found {
        let category = memory.category.as_deref().unwrap_or("uncategorized");
        let age = texts::format_age(memory.age_ms);
        let content = memory.content.trim().replace('\n', "\n  ");
        answer.push_str(&format!("\n- [{}] ({category}, remembered {age}): {content}", memory.id));
    }
    answer
}

fn describe_deleted(id: &str, deleted: Option<&Memory>) -> String {
    match deleted {
        Some(memory) => {
            let content =
                texts::truncate_chars(&texts::single_line(&memory.content), DELETED_CHARS_MAX);
            format!("Deleted memory entry '{}': \"{content}\"", memory.id)
        }
        None => format!(
            "No memory entry found with id '{}'. Use SearchMemory to find the correct ID.",
            texts::make_preview(id)
        ),
    }
}

fn describe_categories(categories: &[(String, usize)]) -> String {
    if categories.is_empty() {
        return "No categories yet. A memory that is saved with a category makes one.".to_owned();
    }
    let mut answer = format!("Categories ({}):", categories.len());
    for (category, count) in categories {
        let noun = if *count == 1 { "memory" } else { "memories" };
        answer.push_str(&format!("\n- {category} ({count} {noun})"));
    }
    answer
}

fn describe_rules(rules: &[String]) -> String {
    if rules.is_empty() {
        return "No active rules. Use add_rule to add one.".to_owned();
    }
    let mut answer = format!("Active rules ({}):", rules.len());
    for rule in rules {
        answer.push_str(&format!("\n- {rule}"));
    }
    answer
}
