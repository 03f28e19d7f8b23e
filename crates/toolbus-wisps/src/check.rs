//! The check of definitions: the whole graph, before anything runs, with all mistakes at once.
//!
//! Steps refer to earlier steps only and skip to later ones only, so there are no cycles, and every
//! step runs at most once.

mod step;

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::WispsConfig;
use crate::definition::{AllowedTool, Wisp};
use crate::error::Error;
use crate::measure::measure;
use crate::mistake::{Mistake, Mistakes};
use crate::texts;
use step::StepCheck;

/// Longest description, in characters.
const DESCRIPTION_CHARS_MAX: usize = 500;
/// Most names in `tools`.
const TOOLS_MAX: usize = 100;
/// Longest id of a step, and longest name of a server, tool, agent or skill, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// The members of a definition.
const MEMBERS: [&str; 3] = ["description", "tools", "steps"];

/// What definitions are checked against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CheckContext<'a> {
    pub(crate) config: &'a WispsConfig,
    /// Whether there is a model for `Llm` steps.
    pub(crate) has_model: bool,
    /// Whether other agents can be waited for.
    pub(crate) has_agents: bool,
}

/// Why definitions are not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// They are not looked at.
    Whole(Error),
    Mistakes(Mistakes),
}

impl From<Rejected> for toolbus_tools::CallError {
    fn from(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Whole(error) => error.into(),
            Rejected::Mistakes(mistakes) => mistakes.into(),
        }
    }
}

/// The wisps of these definitions.
pub(crate) fn check(of: CheckContext<'_>, definitions: &Value) -> Result<Vec<Wisp>, Rejected> {
    check_size(of.config, definitions).map_err(Rejected::Whole)?;
    let mut mistakes = Mistakes::default();
    let Some(items) = definitions.as_array().filter(|items| !items.is_empty()) else {
        mistakes.add(Mistake {
            wisp: 1,
            step: None,
            member: "definitions".to_owned(),
            problem: "there is no wisp".to_owned(),
            instead: "Write a list of objects with `description` and `steps`".to_owned(),
        });
        return Err(Rejected::Mistakes(mistakes));
    };

    let mut output_keys = HashMap::new();
    let mut wisps = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let mut check =
            WispCheck { of, wisp: at + 1, mistakes: &mut mistakes, output_keys: &mut output_keys };
        wisps.extend(check.read(item));
    }
    if mistakes.is_empty() { Ok(wisps) } else { Err(Rejected::Mistakes(mistakes)) }
}

/// Refuses what is too large to be looked at.
fn check_size(config: &WispsConfig, definitions: &Value) -> Result<(), Error> {
    let size = measure(definitions);
    let wisps = definitions.as_array().map_or(1, Vec::len);
    let steps =
        |definition: &Value| definition.get("steps").and_then(Value::as_array).map_or(0, Vec::len);
    let steps = definitions.as_array().into_iter().flatten().map(steps).max().unwrap_or_default();

    let limits = [
        (wisps, config.wisps_max, "wisps", "Run them in several calls"),
        (steps, config.steps_max, "steps in one wisp", "Make several wisps of it, or a script"),
        (size.bytes, config.definitions_bytes_max, "bytes", "Pass what is long by reference"),
        (size.depth, config.definitions_depth_max, "levels", "Nest them less deep"),
        (size.values, config.definitions_values_max, "values", "Pass what is long by reference"),
    ];
    let exceeded = limits.into_iter().find(|(found, max, ..)| found > max);
    match exceeded {
        Some((found, max, what, instead)) => Err(Error::TooLarge { what, found, max, instead }),
        None => Ok(()),
    }
}

/// The check of one definition.
struct WispCheck<'a> {
    of: CheckContext<'a>,
    /// Its number, from 1.
    wisp: usize,
    mistakes: &'a mut Mistakes,
    /// Which step puts its output under which key, in lower case, of all wisps.
    output_keys: &'a mut HashMap<String, String>,
}

impl WispCheck<'_> {
    fn read(&mut self, item: &Value) -> Option<Wisp> {
        let Value::Object(definition) = item else {
            let problem = "it is not an object, nor JSON text of one";
            self.mistake("definitions", problem, "Write an object with `description` and `steps`");
            return None;
        };
        for member in definition.keys().filter(|member| !MEMBERS.contains(&member.as_str())) {
            self.mistake(
                member,
                "there is no such member",
                &format!("There are {}", texts::list(MEMBERS)),
            );
        }

        let description = self.read_description(definition);
        let tools = self.read_tools(definition);
        let steps = match definition.get("steps") {
            Some(Value::Array(steps)) if !steps.is_empty() => steps.as_slice(),
            _ => {
                let instead = "Write a list of objects with `id`, `mode` and what the step does";
                self.mistake("steps", "there are none", instead);
                &[]
            }
        };

        let heads = step::read_heads(steps);
        let mut read = Vec::with_capacity(steps.len());
        for (at, item) in steps.iter().enumerate() {
            let mut check = StepCheck {
                of: self.of,
                wisp: self.wisp,
                at,
                heads: &heads,
                tools: tools.as_deref(),
                mistakes: self.mistakes,
                output_keys: self.output_keys,
            };
            read.extend(check.read(item));
        }
        Some(Wisp { description: description?, tools, steps: read })
    }

    fn read_description(&mut self, definition: &Map<String, Value>) -> Option<String> {
        match definition.get("description") {
            Some(Value::String(text)) if text.chars().nth(DESCRIPTION_CHARS_MAX).is_none() => {
                Some(text.clone())
            }
            Some(Value::String(_)) => {
                let problem = format!("it has more than {DESCRIPTION_CHARS_MAX} characters");
                self.mistake("description", &problem, "Say in a few words what the wisp does");
                None
            }
            other => {
                let problem = if other.is_none() { "it is missing" } else { "it is not a text" };
                self.mistake("description", problem, "Say in a few words what the wisp does");
                None
            }
        }
    }

    /// What the definition allows its steps.
    fn read_tools(&mut self, definition: &Map<String, Value>) -> Option<Vec<AllowedTool>> {
        let tools = definition.get("tools")?;
        let instead = "Write a list of names, such as [\"web_search\", \"github/search_issues\"], or \
                       leave it out";
        let names = tools.as_array().and_then(|names| {
            let names = names.iter().map(|name| name.as_str().map(str::trim));
            names.collect::<Option<Vec<_>>>()
        });
        let Some(names) = names else {
            self.mistake("tools", "it is not a list of names", instead);
            return Some(Vec::new());
        };
        let is_name = |name: &&str| (1..=2 * NAME_BYTES_MAX).contains(&name.len());
        if names.len() > TOOLS_MAX || !names.iter().all(is_name) {
            let problem = format!("it has more than {TOOLS_MAX} names, or one that is none");
            self.mistake("tools", &problem, instead);
            return Some(Vec::new());
        }
        Some(names.into_iter().map(AllowedTool::parse).collect())
    }

    fn mistake(&mut self, member: &str, problem: &str, instead: &str) {
        self.mistakes.add(Mistake {
            wisp: self.wisp,
            step: None,
            member: member.to_owned(),
            problem: problem.to_owned(),
            instead: instead.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests;
