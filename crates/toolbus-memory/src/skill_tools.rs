//! The tools of skills: `save_skill`, `get_skill`, `list_skills` and `delete_skill`.

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolbus_store::LazyStore;
use toolbus_tools::arguments::text;
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::registry::{self, Registry};
use toolbus_tools::{Executor, Guide, Tool};

use crate::arguments;
use crate::long_term_tools::with_change_annotations;
use crate::skills::{SKILL_BYTES_MAX, SkillSummary, Skills};
use crate::summaries::Summaries;
use crate::{Error, MemoryOwner, texts};

const SOURCE: &str = "skills";
/// Most skills that a search shows.
const RECALLED_MAX: usize = 10;

#[derive(Debug, Clone, Copy)]
enum Operation {
    Save,
    Get,
    List,
    Delete,
}

struct SkillTool {
    operation: Operation,
    skills: Skills,
    summaries: Summaries,
}

/// The guide to skills.
pub(crate) fn guide() -> Guide {
    Guide {
        name: SOURCE.to_owned(),
        summary: "Write down how something is done, and find it again in later sessions".to_owned(),
        document: include_str!("guides/skills.md").to_owned(),
    }
}

pub(crate) fn register(
    registry: &Registry,
    store: &LazyStore,
    summaries: &Summaries,
) -> Result<(), registry::Error> {
    for operation in [Operation::Save, Operation::Get, Operation::List, Operation::Delete] {
        let (skills, summaries) = (Skills::new(store.clone()), summaries.clone());
        let tool = SkillTool { operation, skills, summaries };
        registry.register(operation.definition(), tool)?;
    }
    Ok(())
}

impl Operation {
    fn definition(self) -> Tool {
        let name = json!({"type": "string", "description": "The name of the skill, such as weekly-report"});
        let tool = |name: &str, alias: &str, description: &str| {
            Tool::new(name, description, SOURCE).in_group(SOURCE).with_alias(alias)
        };

        match self {
            Self::Save => {
                let description = format!(
                    "Writes down how something is done, as a page of markdown for later sessions. A \
                     skill of that name is written anew. At most {SKILL_BYTES_MAX} bytes."
                );
                let content = json!({"type": "string", "description": "The page, in markdown"});
                with_change_annotations(tool("save_skill", "SaveSkill", &description), true)
                    .with_parameters(json!({
                        "type": "object",
                        "properties": {"name": name, "content": content},
                        "required": ["name", "content"]
                    }))
            }
            Self::Get => tool("get_skill", "GetSkill", "Returns a skill in full.")
                .read_only()
                .with_parameters(json!({
                    "type": "object", "properties": {"name": name}, "required": ["name"]
                })),
            Self::List => {
                let query = json!({
                    "type": "string",
                    "description": "Words of a task: only skills that fit it, best first"
                });
                tool(
                    "list_skills",
                    "ListSkills",
                    "Lists the skills there are, or those that fit a task.",
                )
                .read_only()
                .with_parameters(json!({"type": "object", "properties": {"query": query}}))
            }
            Self::Delete => with_change_annotations(
                tool("delete_skill", "DeleteSkill", "Forgets a skill.").destructive(),
                true,
            )
            .with_parameters(json!({
                "type": "object", "properties": {"name": name}, "required": ["name"]
            })),
        }
    }
}

impl Executor for SkillTool {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move {
            let owner = MemoryOwner::of(&call.scope);
            Ok(Output::text(self.answer(&owner, &call.arguments).await?))
        })
    }

    fn coerce(&self, arguments: &mut Map<String, Value>) {
        arguments::coerce(arguments);
    }
}

impl SkillTool {
    async fn answer(
        &self,
        owner: &MemoryOwner,
        arguments: &Map<String, Value>,
    ) -> Result<String, Error> {
        let name = text(arguments, "name").unwrap_or_default();

        match self.operation {
            Operation::Save => {
                let content = text(arguments, "content").unwrap_or_default();
                let name = self.skills.save(owner, name, content).await?;
                self.summaries.begin(&self.skills, owner, &name, content);
                let index = describe(&self.skills.list(owner).await?);
                Ok(format!("Skill '{name}' saved. Summary is being generated.\n\n{index}"))
            }
            Operation::Get => {
                let found = self.skills.find(owner, name).await?;
                Ok(found.unwrap_or_else(|| not_found(name)))
            }
            Operation::List => {
                let query = text(arguments, "query").map(str::trim);
                match query.filter(|query| !query.is_empty()) {
                    Some(query) => self.recall(owner, query).await,
                    None => Ok(describe(&self.skills.list(owner).await?)),
                }
            }
            Operation::Delete => {
                let Some(name) = self.skills.delete(owner, name).await? else {
                    return Ok(not_found(name));
                };
                let index = describe(&self.skills.list(owner).await?);
                Ok(format!("Skill '{name}' deleted.\n\n{index}"))
            }
        }
    }

    async fn recall(&self, owner: &MemoryOwner, query: &str) -> Result<String, Error> {
        let found = self.skills.recall(owner, query, RECALLED_MAX).await?;
        let query = texts::make_preview(query);
        if found.is_empty() {
            return Ok(format!(
                "No skills fit '{query}'. Call list_skills without a query to see all of them."
            ));
        }
        let mut answer = format!("Skills that fit '{query}' ({}):", found.len());
        write_lines(&mut answer, &found);
        Ok(answer)
    }
}

fn not_found(name: &str) -> String {
    let name = texts::make_preview(name);
    format!("Skill '{name}' not found. Call list_skills to see available skills.")
}

fn describe(skills: &[SkillSummary]) -> String {
    if skills.is_empty() {
        return "No skills saved yet.".to_owned();
    }
    let mut index = format!("Available skills ({}):", skills.len());
    write_lines(&mut index, skills);
    index
}

fn write_lines(text: &mut String, skills: &[SkillSummary]) {
    for SkillSummary { name, summary } in skills {
        text.push_str(&format!("\n- {name}: {summary}"));
    }
}
