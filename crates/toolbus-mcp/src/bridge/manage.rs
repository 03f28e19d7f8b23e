//! The handler of `mcp.manage`: what agents ask of a bridge beside calls of tools.
//!
//! Each request is one file here, which implements [`ManageRequest`], and one line in
//! [`manage_requests`]; how it is read, answered, failed and repeated follows from the trait.

use std::time::Duration;

use futures_util::future::BoxFuture;
use toolbus_bus::responder::{
    Call, Context, Failure, Malformed, NO_ROOM, Received, Repeat, Reply, Service,
};
use toolbus_bus::{Envelope, Topic};
use toolbus_tools::GrantCheck;
use toolbus_tools::id::ToolId;
use toolbus_wire::message::mcp::{
    McpGetPromptRequest, McpGetServiceDetailsRequest, McpListResourcesRequest,
    McpReadResourceRequest, McpRegisterServerRequest, McpResponse, McpUnregisterServerRequest,
    unknown_request_response,
};
use toolbus_wire::message::tool::CallIds;
use toolbus_wire::{ErrorCode, Message, json, message};

use super::elsewhere::Elsewhere;
use super::invoke_service::{caller_of, naming_of, with_headers};
use super::refusal_of;
use crate::call::CallError;
use crate::lookup::Lookup;
use crate::registration_rules::RegistrationRules;
use crate::server_pool::ServerPool;

mod get_prompt;
mod list_resources;
mod read_resource;
mod register_server;
mod service_details;
mod unregister_server;

/// How long a request may take when the caller does not say: as long as a C# agent waits.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(super) struct ManageService {
    pub(super) set: ServerPool,
    pub(super) elsewhere: Elsewhere,
    pub(super) source: String,
    pub(super) registration: RegistrationRules,
    pub(super) grants: GrantCheck,
}

/// A request that the bridge answers at `mcp.manage`.
trait ManageRequest: Message + Send {
    /// What it is answered with, errors included.
    type Response: McpResponse;

    /// Whether it may run again when it is unknown whether it ran.
    const REPEAT: Repeat = Repeat::Harmless;

    /// What it is about, as the gates of an agent see it: what runs, changes or reads something at
    /// a server needs a grant for that. `None`: it tells what is announced anyway, and needs none.
    fn subject(&self) -> Option<ToolId>;

    /// The server that it is about, whichever bridge has it; `None` where any bridge does it.
    fn server(&self) -> Option<&str>;

    /// Does what is requested. A refusal is a response with an error.
    fn handle(
        self,
        service: &ManageService,
        context: Context,
    ) -> impl Future<Output = Self::Response> + Send;
}

/// Lists every request that is answered, and derives reading, dispatch and failing from the list.
macro_rules! manage_requests {
    ($($request:ident),+ $(,)?) => {
        /// A management request. The message type says which one it is.
        pub(super) enum ReceivedRequest {
            $($request($request),)+
            Unknown { message_type: String },
        }

        impl ReceivedRequest {
            fn read(envelope: &Envelope) -> Result<(Self, Repeat), json::Error> {
                $(if message::is::<$request>(envelope) {
                    let request = json::read::<$request>(&envelope.body)?;
                    return Ok((Self::$request(request), <$request as ManageRequest>::REPEAT));
                })+

                let message_type = envelope.message_type.clone();
                Ok((Self::Unknown { message_type }, Repeat::Harmless))
            }

            /// Whether a message of this type is one.
            pub(super) fn is_type(message_type: &str) -> bool {
                [$(<$request as Message>::TYPE),+]
                    .iter()
                    .any(|known| message_type.eq_ignore_ascii_case(known))
            }

            fn subject(&self) -> Option<ToolId> {
                match self {
                    $(Self::$request(request) => ManageRequest::subject(request),)+
                    // Nothing becomes of it.
                    Self::Unknown { .. } => None,
                }
            }

            fn server(&self) -> Option<&str> {
                match self {
                    $(Self::$request(request) => ManageRequest::server(request),)+
                    Self::Unknown { .. } => None,
                }
            }

            async fn handle(self, service: &ManageService, context: Context) -> Reply {
                match self {
                    $(Self::$request(request) => {
                        reply_with(&ManageRequest::handle(request, service, context).await)
                    })+
                    Self::Unknown { message_type } => reply_to_unknown(&message_type, None),
                }
            }
        }

        /// The reply to a request of this type that has no outcome of its own.
        fn failure_reply(message_type: &str, code: ErrorCode, error: String) -> Reply {
            $(if message_type.eq_ignore_ascii_case(<$request as Message>::TYPE) {
                return reply_with(&<$request as ManageRequest>::Response::from_error(code, error));
            })+

            reply_to_unknown(message_type, Some((code, error)))
        }
    };
}

manage_requests![
    McpGetServiceDetailsRequest,
    McpRegisterServerRequest,
    McpUnregisterServerRequest,
    McpGetPromptRequest,
    McpListResourcesRequest,
    McpReadResourceRequest,
];

impl Service for ManageService {
    type Request = ReceivedRequest;

    fn parse(&self, envelope: &Envelope) -> Result<Call<ReceivedRequest>, Malformed> {
        // These requests have no ids of their own; the message's id takes the call's place, and the
        // type the tool's, so that a failure can be reported as the matching response.
        let ids = CallIds {
            tool_call_id: envelope.message_id.clone(),
            tool_name: envelope.message_type.clone(),
        };

        match ReceivedRequest::read(envelope) {
            Ok((request, repeat)) => {
                Ok(Call { ids, request, default_budget: DEFAULT_TIMEOUT, repeat })
            }
            Err(error) => Err(Malformed { ids, reason: error.to_string() }),
        }
    }

    fn authorize(&self, call: &Call<ReceivedRequest>, received: Received<'_>) -> Result<(), Reply> {
        self.check(&call.ids, &call.request, received)
    }

    fn forward_to(&self, request: &ReceivedRequest, _: Received<'_>) -> Option<Topic> {
        self.elsewhere.topic_of_server(&self.set, request.server()?)
    }

    fn serve(&self, request: ReceivedRequest, context: Context) -> BoxFuture<'_, Reply> {
        Box::pin(async move { with_headers(request.handle(self, context).await) })
    }

    fn fail(&self, ids: &CallIds, failure: Failure) -> Reply {
        let (code, error) = match failure {
            Failure::Malformed(reason) => (ErrorCode::InvalidArguments, reason),
            Failure::Timeout { asked, .. } => {
                (ErrorCode::Timeout, format!("timed out after {}ms", asked.as_millis()))
            }
            Failure::Cancelled { .. } => (ErrorCode::Cancelled, "cancelled".to_owned()),
            Failure::Busy => (ErrorCode::Busy, NO_ROOM.to_owned()),
            Failure::OutcomeUnknown => (
                ErrorCode::OutcomeUnknown,
                "the bridge that had started the request was lost".to_owned(),
            ),
            Failure::Crashed => {
                (ErrorCode::ExecutionFailed, "the bridge failed on the request".to_owned())
            }
            Failure::TooLarge { bytes } => (
                ErrorCode::ExecutionFailed,
                format!("the answer has {bytes} bytes, too many for one message"),
            ),
        };

        with_headers(failure_reply(&ids.tool_name, code, error))
    }

    fn default_reply_topic(&self) -> Option<Topic> {
        None
    }

    fn source(&self) -> &str {
        &self.source
    }
}

impl ManageService {
    /// Whether a request may be made.
    pub(super) fn check(
        &self,
        ids: &CallIds,
        request: &ReceivedRequest,
        received: Received<'_>,
    ) -> Result<(), Reply> {
        let Some(subject) = request.subject() else { return Ok(()) };

        let checked = self.grants.check(received, || subject);
        checked.map_err(|error| {
            let (code, text) = refusal_of(error);
            with_headers(failure_reply(&ids.tool_name, code, text))
        })
    }
}

/// The reply that carries a response, marked as failed when the response has an error.
fn reply_with<R: McpResponse>(response: &R) -> Reply {
    let reply = Reply::of(response);
    match response.error_code() {
        Some(code) => reply.failing(code.label()),
        None => reply,
    }
}

/// The reply to a request that the bridge does not know, with this error instead of saying so.
fn reply_to_unknown(message_type: &str, failure: Option<(ErrorCode, String)>) -> Reply {
    let (response_type, mut response) = unknown_request_response(message_type);
    if let Some((code, error)) = failure {
        response = McpResponse::from_error(code, error);
    }

    Reply { message_type: response_type.into(), ..reply_with(&response) }
}

/// The lookup at a server, within the limits of the request.
fn lookup(service: &ManageService, server_name: &str, context: Context) -> Lookup {
    let naming = naming_of(context.headers(), &service.grants);
    let caller = caller_of(&context, None);
    Lookup { server: server_name.to_owned(), naming, caller, context: context.call }
}

/// The server's answer, or a response with the error.
fn response_of<R: McpResponse>(answer: Result<R, CallError>) -> R {
    answer.unwrap_or_else(|error| {
        let response = R::from_error(error.code(), error.to_string());
        response.with_server_error(error.server_error().cloned())
    })
}
