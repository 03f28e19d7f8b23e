//! The handler of `mcp.manage`.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolbus_bus::responder::{Call, Context, Failure, Malformed, Repeat, Reply, Service};
use toolbus_bus::{Envelope, Topic};
use toolbus_wire::message::mcp::{
    DENIED_PREFIX, McpCompleteRequest, McpGetPromptRequest, McpGetServiceDetailsRequest,
    McpGetServiceDetailsResponse, McpListResourcesRequest, McpReadResourceRequest,
    McpRegisterServerRequest, McpRegisterServerResponse, McpUnregisterServerRequest,
    McpUnregisterServerResponse, unknown_request_response,
};
use toolbus_wire::message::tool::CallIds;
use toolbus_wire::{ErrorCode, Message, json as body, message};

use super::invoke::with_headers;
use super::lookup;
use crate::config::{Entry, Variables};
use crate::servers::{AddError, Registered, Set, UnregisterError};

/// How long a request may take when the caller does not say: what a C# agent waits.
const BUDGET: Duration = Duration::from_secs(30);
/// What callers know a failed registration by.
const CONNECTION_FAILED: &str = "Connection failed";

/// Whether agents may register servers that are programs to start on the bridge's machine. That is
/// running code of the agent's choice, so the operator decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StdioRegistration {
    /// They may not.
    #[default]
    Denied,
    /// They may.
    Allowed,
}

pub(super) struct ManageService {
    pub(super) set: Set,
    pub(super) source: String,
    pub(super) stdio_registration: StdioRegistration,
}

/// A management request. The message type says which one it is.
pub(super) enum Request {
    Details(McpGetServiceDetailsRequest),
    Register(McpRegisterServerRequest),
    Unregister(McpUnregisterServerRequest),
    Prompt(McpGetPromptRequest),
    Resources(McpListResourcesRequest),
    Resource(McpReadResourceRequest),
    Complete(McpCompleteRequest),
    Unknown { message_type: String },
}

impl Service for ManageService {
    type Request = Request;

    fn parse(&self, envelope: &Envelope) -> Result<Call<Request>, Malformed> {
        // These requests have no ids of their own; the message's id takes the call's place, and the
        // type the tool's, so that a failure can be told in its family.
        let ids = CallIds {
            tool_call_id: envelope.message_id.clone(),
            tool_name: envelope.message_type.clone(),
        };
        let (request, repeat) = match read(envelope) {
            Ok(request) => request,
            Err(error) => return Err(Malformed { ids, reason: error.to_string() }),
        };
        Ok(Call { ids, request, default_budget: BUDGET, repeat })
    }

    fn serve(&self, request: Request, context: Context) -> BoxFuture<'_, Reply> {
        Box::pin(async move {
            with_headers(match request {
                Request::Details(request) => {
                    let response = self.details(request);
                    told(&response, response.error.as_ref())
                }
                Request::Register(request) => {
                    let response = self.register(request).await;
                    told(&response, response.error.as_ref())
                }
                Request::Unregister(request) => {
                    let response = self.unregister(request).await;
                    told(&response, response.error.as_ref())
                }
                Request::Prompt(request) => {
                    let response = lookup::prompt(&self.set, request, context).await;
                    told(&response, response.error.as_ref())
                }
                Request::Resources(request) => {
                    let response = lookup::resources(&self.set, request, context).await;
                    told(&response, response.error.as_ref())
                }
                Request::Resource(request) => {
                    let response = lookup::resource(&self.set, request, context).await;
                    told(&response, response.error.as_ref())
                }
                Request::Complete(request) => {
                    Reply::of(&lookup::completion(&self.set, request, context).await)
                }
                Request::Unknown { message_type } => {
                    let (response_type, response) = unknown_request_response(&message_type);
                    let reply = told(&response, response.error.as_ref());
                    Reply { message_type: response_type.into(), ..reply }
                }
            })
        })
    }

    fn fail(&self, ids: &CallIds, failure: Failure) -> Reply {
        let error = match failure {
            Failure::Malformed(reason) => reason,
            Failure::Timeout { asked } => format!("timed out after {}ms", asked.as_millis()),
            Failure::Cancelled => "cancelled".to_owned(),
            Failure::OutcomeUnknown => {
                "the bridge that had started the request was lost".to_owned()
            }
            Failure::Crashed => "the bridge failed on the request".to_owned(),
            Failure::TooLarge { bytes } => {
                format!("the answer has {bytes} bytes, too many for one message")
            }
        };
        let is = |name: &str| ids.tool_name.eq_ignore_ascii_case(name);
        with_headers(if is(McpRegisterServerRequest::TYPE) {
            Reply::of(&McpRegisterServerResponse {
                error: Some(error),
                ..McpRegisterServerResponse::default()
            })
        } else if is(McpUnregisterServerRequest::TYPE) {
            Reply::of(&McpUnregisterServerResponse {
                error: Some(error),
                ..McpUnregisterServerResponse::default()
            })
        } else {
            let (response_type, mut response) = unknown_request_response(&ids.tool_name);
            response.error = Some(error);
            Reply { message_type: response_type.into(), ..Reply::of(&response) }
        })
    }

    fn default_reply_topic(&self) -> Option<Topic> {
        None
    }

    fn source(&self) -> &str {
        &self.source
    }
}

/// The reply that carries a response, which tells of this error if of any.
fn told<M: Message>(response: &M, error: Option<&String>) -> Reply {
    let reply = Reply::of(response);
    if error.is_some() { reply.failing(ErrorCode::ExecutionFailed.label()) } else { reply }
}

fn read(envelope: &Envelope) -> Result<(Request, Repeat), body::Error> {
    let body = &envelope.body;
    Ok(if message::is::<McpGetServiceDetailsRequest>(envelope) {
        (Request::Details(body::read(body)?), Repeat::Harmless)
    } else if message::is::<McpRegisterServerRequest>(envelope) {
        (Request::Register(body::read(body)?), Repeat::Never)
    } else if message::is::<McpUnregisterServerRequest>(envelope) {
        (Request::Unregister(body::read(body)?), Repeat::Harmless)
    } else if message::is::<McpGetPromptRequest>(envelope) {
        (Request::Prompt(body::read(body)?), Repeat::Harmless)
    } else if message::is::<McpListResourcesRequest>(envelope) {
        (Request::Resources(body::read(body)?), Repeat::Harmless)
    } else if message::is::<McpReadResourceRequest>(envelope) {
        (Request::Resource(body::read(body)?), Repeat::Harmless)
    } else if message::is::<McpCompleteRequest>(envelope) {
        (Request::Complete(body::read(body)?), Repeat::Harmless)
    } else {
        (Request::Unknown { message_type: envelope.message_type.clone() }, Repeat::Harmless)
    })
}

impl ManageService {
    fn details(&self, request: McpGetServiceDetailsRequest) -> McpGetServiceDetailsResponse {
        self.set.details(&request.server_name).unwrap_or_else(|| McpGetServiceDetailsResponse {
            error: Some(format!("Server '{}' is not connected", request.server_name)),
            server_name: request.server_name,
            ..McpGetServiceDetailsResponse::default()
        })
    }

    async fn register(&self, request: McpRegisterServerRequest) -> McpRegisterServerResponse {
        let server_name = request.server_name.clone();
        match self.connect(request).await {
            Ok(summary) => McpRegisterServerResponse {
                server_name,
                success: true,
                summary: Some(summary),
                error: None,
            },
            Err(error) => McpRegisterServerResponse {
                server_name,
                success: false,
                summary: None,
                error: Some(error),
            },
        }
    }

    /// Answers with what the caller is told of a success.
    async fn connect(&self, request: McpRegisterServerRequest) -> Result<String, String> {
        let name = request.server_name.clone();
        if request.command.is_some() && self.stdio_registration == StdioRegistration::Denied {
            tracing::warn!(server = name, "denied the registration of a server that is a program");
            return Err(format!(
                "{DENIED_PREFIX}servers that are programs are the operator's to add"
            ));
        }
        let members = members(request);
        let entry =
            Entry::parse(&name, members.clone(), Variables::Refused).map_err(|mistakes| {
                let mistakes: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
                tracing::info!(server = name, mistakes = mistakes.join("; "), "refused a server");
                CONNECTION_FAILED.to_owned()
            })?;
        match self.set.register(entry, members).await {
            Ok(Registered { summary, not_kept: None }) => Ok(available(summary.tool_count)),
            Ok(Registered { summary, not_kept: Some(error) }) => {
                let error = toolbus_runtime::service::on_one_line(&error);
                tracing::warn!(server = name, error, "a registration will not last");
                let available = available(summary.tool_count);
                Ok(format!("{available} It is forgotten when the bridge is started again."))
            }
            Err(error @ AddError::Operators(_)) => {
                tracing::warn!(server = name, "denied an agent to replace a server");
                Err(format!("{DENIED_PREFIX}{error}, and agents cannot replace it"))
            }
            Err(error @ (AddError::Exists(_) | AddError::LooksLike(_) | AddError::TooMany)) => {
                Err(error.to_string())
            }
            Err(error) => {
                tracing::info!(server = name, %error, "could not connect a new server");
                Err(CONNECTION_FAILED.to_owned())
            }
        }
    }

    async fn unregister(&self, request: McpUnregisterServerRequest) -> McpUnregisterServerResponse {
        let server_name = request.server_name;
        // To remove what is not there is a success too, as it is for the C# bridge.
        let error = match self.set.unregister(&server_name).await {
            Ok(()) => None,
            Err(error @ UnregisterError::Operators(_)) => {
                tracing::warn!(server = server_name, "denied an agent to remove a server");
                Some(format!("{DENIED_PREFIX}{error}, and agents cannot remove it"))
            }
            Err(error @ UnregisterError::Kept(_)) => {
                let chain = toolbus_runtime::service::on_one_line(&error);
                tracing::warn!(server = server_name, error = chain, "a registration stays");
                Some(error.to_string())
            }
        };
        McpUnregisterServerResponse { server_name, success: error.is_none(), error }
    }
}

fn available(tools: u32) -> String {
    format!("{tools} tool(s) available.")
}

/// The request as an entry of `mcp.json`.
fn members(request: McpRegisterServerRequest) -> Map<String, Value> {
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
