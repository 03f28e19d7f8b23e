//! The client that a server sees: its capabilities, and the answers to the server's requests.
//!
//! A request is forwarded to the caller whose call it belongs to, or refused; it waits no longer
//! than that call, its connection, and the server's own patience.

// The newer era has other ways for what these were for; servers of the older one go on to ask.
#![expect(deprecated, reason = "sampling is deprecated by the newer era of the protocol")]

use std::sync::Arc;

use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestMethod, CreateMessageRequestParams,
    CreateMessageResult, CustomRequest, CustomResult, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability, ElicitationCreateRequestMethod, ErrorCode, ErrorData,
    Extensions, FormElicitationCapability, Implementation, ListRootsRequestMethod, ListRootsResult,
    ProtocolVersion, SamplingCapability, UrlElicitationCapability,
};
use rmcp::service::{InboundStreamOrigin, RequestContext};
use rmcp::{RoleClient, model::ConstString as _};
use serde_json::Value;
use toolbus_wire::message::toolbus::{AskError, AskErrorCode};

use super::caller_questions::{CallerQuestions, refusal_error};
use crate::eraser::Eraser;
use crate::transport::intercept::{CallTag, WireState, Withdrawn};

/// Answers the requests of one server to its client.
pub(super) struct ClientRequestHandler {
    pub(super) server: String,
    pub(super) wire: Arc<WireState>,
    pub(super) eraser: Eraser,
}

/// The capabilities that every connection declares. Whether a call's caller really has them is
/// known with the call: servers of the newer era are told then, see [`CallTag`].
pub(super) fn capabilities() -> ClientCapabilities {
    let elicitation = ElicitationCapability::new()
        .with_form(FormElicitationCapability::new())
        .with_url(UrlElicitationCapability::default());

    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = Some(elicitation);
    capabilities.sampling = Some(SamplingCapability::default());
    capabilities
}

impl ClientRequestHandler {
    /// The call that a request of the server belongs to.
    fn find_call(&self, extensions: &Extensions) -> Result<CallTag, AskError> {
        let origin = extensions.get::<InboundStreamOrigin>();
        self.wire.find_asking_call(origin).ok_or_else(|| {
            tracing::info!(
                server = self.server,
                "refusing request of MCP server that belongs to no single call"
            );
            AskError::new(
                AskErrorCode::UnknownCall,
                "the request belongs to no call in flight, or could belong to several (one that \
                 was cancelled counts until it is answered)",
            )
        })
    }

    async fn elicit(&self, params: Value, context: &RequestContext<RoleClient>) -> ElicitResult {
        let cancel = || ElicitResult::new(ElicitationAction::Cancel);
        let Ok(call) = self.find_call(&context.extensions) else { return cancel() };
        let questions = self.questions_to(&call);

        tokio::select! {
            result = questions.elicit(params) => result,
            () = call.wait_over() => cancel(),
            () = wait_unwanted(context) => cancel(),
        }
    }

    async fn sample(
        &self,
        params: Value,
        context: &RequestContext<RoleClient>,
    ) -> Result<Value, AskError> {
        let call = self.find_call(&context.extensions)?;
        let over = || Err(AskError::new(AskErrorCode::Cancelled, "the call is over"));
        let questions = self.questions_to(&call);

        tokio::select! {
            result = questions.sample(params) => result,
            () = call.wait_over() => over(),
            () = wait_unwanted(context) => over(),
        }
    }

    fn questions_to<'a>(&'a self, call: &'a CallTag) -> CallerQuestions<'a> {
        CallerQuestions {
            server: &self.server,
            eraser: &self.eraser,
            asker: call.asker(),
            round: None,
        }
    }
}

impl ClientHandler for ClientRequestHandler {
    fn get_info(&self) -> ClientConfig {
        let implementation = Implementation::new("toolbus", env!("CARGO_PKG_VERSION"));
        let mut config = ClientConfig::new(capabilities(), implementation);
        config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        config
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(self.elicit(to_json(&request)?, &context).await)
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let completion = self.sample(to_json(&params)?, &context).await;
        let completion = completion.map_err(|error| refusal_error(&error))?;
        serde_json::from_value(completion).map_err(|error| {
            tracing::warn!(server = self.server, %error, "caller's answer is no completion");
            refusal_error(&AskError::new(AskErrorCode::Failed, "the answer is no completion"))
        })
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListRootsRequestMethod>())
    }

    /// Also answers elicitations and samplings of a form that is newer than rmcp.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, params, .. } = request;
        let params = params.unwrap_or_default();
        if method == ElicitationCreateRequestMethod::VALUE {
            to_json(&self.elicit(params, &context).await).map(CustomResult)
        } else if method == CreateMessageRequestMethod::VALUE {
            let completion = self.sample(params, &context).await;
            completion.map(CustomResult).map_err(|error| refusal_error(&error))
        } else {
            Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None))
        }
    }
}

/// Waits until the server takes its request back, or the connection ends.
async fn wait_unwanted(context: &RequestContext<RoleClient>) {
    match context.extensions.get::<Withdrawn>() {
        Some(withdrawn) => {
            tokio::select! {
                () = withdrawn.wait() => {}
                () = context.ct.cancelled() => {}
            }
        }
        None => context.ct.cancelled().await,
    }
}

fn to_json(message: &impl serde::Serialize) -> Result<Value, ErrorData> {
    serde_json::to_value(message)
        .map_err(|error| ErrorData::invalid_params(error.to_string(), None))
}
