//! An agent registers a server: the bridge connects to it and keeps the registration.

use serde_json::{Map, Value, json};
use toolbus_bus::responder::{Context, Repeat};
use toolbus_config::on_one_line;
use toolbus_mcp_agent::{REGISTER_SERVER, management_id};
use toolbus_tools::call::CallError;
use toolbus_tools::id::ToolId;
use toolbus_wire::ErrorCode;
use toolbus_wire::message::mcp::{
    McpRegisterServerRequest, McpRegisterServerResponse, McpResponse as _,
};

use super::{ManageRequest, ManageService};
use crate::config::{Entry, REGISTERED_BY, Variables};
use crate::registration_rules::RegistrationRefusal;
use crate::server_name;
use crate::server_pool::{AddError, Registered};

/// Longest name of an agent that is remembered, in bytes.
const AGENT_BYTES_MAX: usize = 128;
/// Longest registration, in bytes of its JSON: the file of all that may be stays one that is read.
const REGISTRATION_BYTES_MAX: usize = 16 << 10;
/// What an agent without a usable name is remembered as. No name of an agent has a bracket.
const UNNAMED_AGENT: &str = "[unnamed]";
/// The error of every registration whose server could not be reached, as the C# bridge words it.
const CONNECTION_FAILED: &str = "Connection failed";

impl ManageRequest for McpRegisterServerRequest {
    type Response = McpRegisterServerResponse;

    /// It starts a program or connects somewhere, so it runs once at most.
    const REPEAT: Repeat = Repeat::Never;

    fn subject(&self) -> Option<ToolId> {
        Some(management_id(REGISTER_SERVER))
    }

    fn server(&self) -> Option<&str> {
        None
    }

    async fn handle(self, service: &ManageService, context: Context) -> Self::Response {
        let server_name = self.server_name.clone();
        let response = match register(service, self, context.source()).await {
            Ok(summary) => McpRegisterServerResponse {
                success: true,
                summary: Some(summary),
                ..McpRegisterServerResponse::default()
            },
            Err(CallError { code, message, .. }) => Self::Response::from_error(code, message),
        };

        McpRegisterServerResponse { server_name, ..response }
    }
}

/// Registers the server for an agent and returns a line about it for the agent.
async fn register(
    service: &ManageService,
    request: McpRegisterServerRequest,
    agent: &str,
) -> Result<String, CallError> {
    let name = request.server_name.clone();
    if service.registration.is_off() {
        return Err(refusal(&name, RegistrationRefusal::Off));
    }

    check_name(&name)?;
    if service.elsewhere.has_server(&service.set, &name) {
        let text = format!("there is an MCP server '{name}' at another bridge already");
        return Err(CallError::new(ErrorCode::Denied, text));
    }

    let mut members = entry_members(request);
    // One that names itself in no usable way owns what it registers together with its like.
    let is_name = (1..=AGENT_BYTES_MAX).contains(&agent.trim().len());
    let agent = if is_name { agent } else { UNNAMED_AGENT };
    members.insert(REGISTERED_BY.to_owned(), json!(agent));
    check_length(&members)?;
    let entry = Entry::parse(&name, members.clone(), Variables::Refused).map_err(|mistakes| {
        let mistakes: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
        let mistakes = mistakes.join("; ");
        tracing::info!(server = name, mistakes, "refused to register a server with mistakes");
        CallError::execution_failed(CONNECTION_FAILED)
    })?;

    let checked = service.registration.check_resolved(&entry).await;
    checked.map_err(|reason| refusal(&name, reason))?;

    let registered = service.set.register(entry, members).await;
    let Registered { summary, not_kept } =
        registered.map_err(|error| registration_error(&name, &error))?;
    let mut text = format!("{} tool(s) available.", summary.tool_count);
    if let Some(error) = not_kept {
        let error = on_one_line(&error);
        tracing::warn!(server = name, error, "registration not saved");
        text.push_str(" It is forgotten when the bridge is started again.");
    }

    Ok(text)
}

/// Refuses a name that is the agent's own, with words that the agent is told.
fn check_name(name: &str) -> Result<(), CallError> {
    if !server_name::is_reserved(name) {
        return Ok(());
    }
    tracing::info!(server = name, "refused to register a server by a name that is reserved");
    Err(CallError::new(ErrorCode::InvalidArguments, server_name::Error::Reserved.to_string()))
}

/// Refuses a registration that is too long to be kept with the others, in the form in which it is.
fn check_length(members: &Map<String, Value>) -> Result<(), CallError> {
    let bytes = serde_json::to_vec_pretty(members).map_or(usize::MAX, |text| text.len());
    if bytes <= REGISTRATION_BYTES_MAX {
        return Ok(());
    }
    let text = format!("the registration has more than {REGISTRATION_BYTES_MAX} bytes");
    Err(CallError::new(ErrorCode::InvalidArguments, text))
}

/// The error for the agent whose server the operator does not want.
fn refusal(name: &str, reason: RegistrationRefusal) -> CallError {
    tracing::warn!(server = name, %reason, "refused to register a server");
    CallError::new(ErrorCode::Denied, reason.to_string())
}

/// The error for the agent whose server was not registered. Why it could not be reached is for
/// the operator alone.
fn registration_error(name: &str, error: &AddError) -> CallError {
    match error {
        AddError::Operators(_) => {
            tracing::warn!(
                server = name,
                "refused an agent's request to replace a server of the operator"
            );

            let error = format!("{error}, and agents cannot replace it");
            CallError::new(ErrorCode::Denied, error)
        }
        AddError::OtherAgents(_) => {
            tracing::warn!(
                server = name,
                "refused an agent's request to replace a server of another agent"
            );

            let error = format!("{error}, and only that agent can replace it");
            CallError::new(ErrorCode::Denied, error)
        }
        AddError::Exists(_) | AddError::LooksLike(_) | AddError::TooMany => {
            CallError::execution_failed(error.to_string())
        }
        _ => {
            tracing::info!(server = name, %error, "could not connect to a new server");
            CallError::execution_failed(CONNECTION_FAILED)
        }
    }
}

/// The request as the members of an entry of `mcp.json`.
fn entry_members(request: McpRegisterServerRequest) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("type".to_owned(), json!(request.kind));
    if let Some(url) = request.url {
        members.insert("url".to_owned(), json!(url));
    }
    if let Some(command) = request.command {
        members.insert("command".to_owned(), json!(command));
    }
    if !request.args.is_empty() {
        members.insert("args".to_owned(), json!(request.args));
    }
    if !request.env.is_empty() {
        let env = request.env.iter().map(|(name, value)| (name.clone(), json!(value.expose())));
        members.insert("env".to_owned(), Value::Object(env.collect()));
    }

    members
}

#[cfg(test)]
mod tests;
