//! What a step does, by its mode and gateway, and what each of them needs.

use serde_json::{Map, Value};

use super::{MEMBERS, StepCheck};
use crate::definition::{
    AGENT_TOOL, AllowedTool, MCP_TOOL, SCRIPT_SOURCE, SCRIPT_TOOL, WEB_TOOLS, Work,
};
use crate::texts;

const MODES: &str = "Write \"Direct\" for a call of a tool, or \"Llm\" for a question to a model";
const GATEWAYS: &str = "Write \"Mcp\", \"A2A\", \"Script\" or \"Web\"";
/// Other names that models give the source of a script.
const SOURCE_ALIASES: [&str; 3] = ["code", "source", "python"];
/// What `language` may be.
const LANGUAGES: [&str; 3] = ["python", "python3", "py"];

impl StepCheck<'_> {
    pub(super) fn read_work(&mut self, step: &Map<String, Value>) -> Option<Work> {
        let mode = self.required_text(step, "mode", MODES)?;
        if mode.eq_ignore_ascii_case("llm") {
            return self.read_completion(step);
        }
        if !mode.eq_ignore_ascii_case("direct") {
            let problem = format!("there is no mode {}", texts::quote(mode));
            self.mistake("mode", &problem, MODES);
            return None;
        }

        let gateway = self.required_text(step, "gateway", GATEWAYS)?;
        match gateway.to_ascii_lowercase().as_str() {
            "mcp" => self.read_mcp(step),
            "script" => self.read_script(step),
            "web" => self.read_web(step),
            "a2a" => self.read_agent(step),
            _ => {
                let problem = format!("there is no gateway {}", texts::quote(gateway));
                self.mistake("gateway", &problem, GATEWAYS);
                None
            }
        }
    }

    fn read_completion(&mut self, step: &Map<String, Value>) -> Option<Work> {
        self.check_members(step, "mode Llm", &["prompt"]);
        if !self.of.has_model {
            self.mistake("mode", "this agent has no model for Llm steps", "Write \"Direct\"");
        }
        let instead = "Write what the model is to do with the earlier results";
        let prompt = self.required_text(step, "prompt", instead)?;
        self.check_templates("prompt", prompt);
        Some(Work::Complete { prompt: prompt.to_owned() })
    }

    fn read_mcp(&mut self, step: &Map<String, Value>) -> Option<Work> {
        self.check_members(step, "gateway Mcp", &["gateway", "server", "tool", "params"]);
        let server =
            self.required_name(step, "server", "Write the server as mcp_list_services has it");
        let tool = self.required_name(step, "tool", "Write the server's tool");
        let params = self.read_params(step)?;
        Some(Work::Mcp { server: server?, tool: tool?, params })
    }

    fn read_script(&mut self, step: &Map<String, Value>) -> Option<Work> {
        self.check_members(step, "gateway Script", &["gateway", "language", "params"]);
        if let Some(language) = self.text(step, "language")
            && !LANGUAGES.iter().any(|known| language.eq_ignore_ascii_case(known))
        {
            let problem = format!("there is no language {}", texts::quote(language));
            self.mistake("language", &problem, "Write \"python\", or leave it out");
        }

        let mut params = self.read_params(step)?;
        for alias in SOURCE_ALIASES {
            if !params.contains_key(SCRIPT_SOURCE)
                && let Some(source) = params.remove(alias)
            {
                params.insert(SCRIPT_SOURCE.to_owned(), source);
            }
        }
        let source = params.get(SCRIPT_SOURCE).and_then(Value::as_str);
        let Some(source) = source.filter(|source| !source.trim().is_empty()) else {
            let instead = "Write {\"script\": \"Python source code\"}";
            self.mistake("params.script", "there is no script", instead);
            return None;
        };
        // What a stranger's page says would run.
        if contains_template(source) {
            let instead = "Put the template into params.input_data, or name the step in \
                           `input_from`; the script reads it with os.environ[\"ROCKBOT_INPUT\"]";
            self.mistake("params.script", "results do not become code", instead);
            return None;
        }
        Some(Work::Script { params })
    }

    fn read_web(&mut self, step: &Map<String, Value>) -> Option<Work> {
        self.check_members(step, "gateway Web", &["gateway", "tool", "params"]);
        let instead = "Write \"web_search\" or \"web_browse\": the gateway has no others";
        let tool = self.required_text(step, "tool", instead)?;
        let Some((tool, main)) = WEB_TOOLS.into_iter().find(|(name, _)| *name == tool) else {
            let problem = format!("the gateway Web has no tool {}", texts::quote(tool));
            self.mistake("tool", &problem, instead);
            return None;
        };

        let params = self.read_params(step)?;
        let is_given = params.get(main).is_some_and(|value| !value.is_null());
        if !is_given && !step.contains_key("input_from") {
            let instead = format!("Write {{\"{main}\": \"…\"}}, or name a step in `input_from`");
            self.mistake(&format!("params.{main}"), "it is missing", &instead);
            return None;
        }
        Some(Work::Web { tool, main, params })
    }

    fn read_agent(&mut self, step: &Map<String, Value>) -> Option<Work> {
        self.check_members(step, "gateway A2A", &["gateway", "agent", "skill", "message"]);
        if !self.of.has_agents {
            self.mistake(
                "gateway",
                "this agent cannot wait for other agents",
                "Use another gateway",
            );
        }
        let agent =
            self.required_name(step, "agent", "Write the agent as list_known_agents has it");
        let skill = self.required_name(step, "skill", "Write the id of one of the agent's skills");
        let message = self.required_text(step, "message", "Write what the agent is to do")?;
        self.check_templates("message", message);
        Some(Work::Agent { agent: agent?, skill: skill?, message: message.to_owned() })
    }

    fn read_params(&mut self, step: &Map<String, Value>) -> Option<Map<String, Value>> {
        match step.get("params") {
            None => Some(Map::new()),
            Some(Value::Object(params)) => {
                for (name, value) in params {
                    if name != SCRIPT_SOURCE && !SOURCE_ALIASES.contains(&name.as_str()) {
                        self.check_templates_within(&format!("params.{name}"), value);
                    }
                }
                Some(params.clone())
            }
            Some(_) => {
                let problem = "it is not an object, nor JSON text of one";
                self.mistake("params", problem, "Write an object with the tool's arguments");
                None
            }
        }
    }

    /// That the step has no members that mean nothing where it is used.
    fn check_members(&mut self, step: &Map<String, Value>, what: &str, own: &[&str]) {
        let is_known = |member: &str| MEMBERS.contains(&member) || own.contains(&member);
        for member in step.keys().filter(|member| !is_known(member)) {
            let known = texts::list(MEMBERS.into_iter().chain(own.iter().copied()));
            let problem = format!("a step with {what} has no such member");
            self.mistake(member, &problem, &format!("It has {known}"));
        }
    }
}

fn contains_template(source: &str) -> bool {
    let pieces = crate::template::parse(source);
    pieces.map_or(true, |pieces| {
        pieces.iter().any(|piece| matches!(piece, crate::template::Piece::Reference(_)))
    })
}

impl AllowedTool {
    /// What a name of `tools` means: a tool of a gateway, `SERVER/TOOL`, `SERVER/*`, or a tool of
    /// any server.
    pub(crate) fn parse(name: &str) -> Self {
        let gateways = [SCRIPT_TOOL, AGENT_TOOL, WEB_TOOLS[0].0, WEB_TOOLS[1].0];
        if name == MCP_TOOL {
            return Self::Mcp("mcp:*".to_owned());
        }
        if let Some(gateway) = gateways.into_iter().find(|gateway| *gateway == name) {
            return Self::Gateway(gateway);
        }
        match name.split_once('/').or_else(|| name.split_once("__")) {
            Some((server, tool)) => Self::Mcp(mcp_id(server, tool)),
            None => Self::Mcp(format!("mcp:*/{name}")),
        }
    }

    /// Whether it allows what a step does.
    pub(crate) fn allows(&self, work: &Work) -> bool {
        match (self, work) {
            (Self::Mcp(pattern), Work::Mcp { server, tool, .. }) => {
                toolbus_tools::view::matches_pattern(pattern, &mcp_id(server, tool))
            }
            (Self::Gateway(tool), work) => work.gateway_tool() == Some(tool),
            (Self::Mcp(_), _) => false,
        }
    }
}

/// The id of a server's tool: servers are alike without regard to case.
fn mcp_id(server: &str, tool: &str) -> String {
    format!("{}{}/{tool}", toolbus_tools::id::SERVER_PROVIDER_PREFIX, server.to_lowercase())
}
