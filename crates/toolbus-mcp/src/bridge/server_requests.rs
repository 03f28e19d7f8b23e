//! The handler of the topics of servers: everything that agents ask of one server, at the bridge
//! that has it. The message type says which kind of request it is.

use futures_util::future::BoxFuture;
use toolbus_bus::responder::{Call, Context, Failure, Malformed, Received, Reply, Service};
use toolbus_bus::{Envelope, Topic};
use toolbus_tools::GrantCheck;
use toolbus_wire::message::mcp::{McpRelayRequest, McpSubscribeRequest};
use toolbus_wire::message::tool::{CallIds, ToolInvokeRequest};
use toolbus_wire::{Message, message};

use super::elsewhere::Elsewhere;
use super::invoke_service::InvokeService;
use super::manage::{ManageService, ReceivedRequest};
use super::relay_service::{RelayService, RelayedRequest};
use super::subscribe_service::SubscribeService;
use crate::registration_rules::RegistrationRules;
use crate::server_pool::ServerPool;

/// The services that answer them.
pub(super) struct ServerRequests {
    pub(super) invoke: InvokeService,
    pub(super) relay: RelayService,
    pub(super) manage: ManageService,
    pub(super) subscribe: SubscribeService,
}

impl ServerRequests {
    pub(super) fn new(
        set: &ServerPool,
        elsewhere: &Elsewhere,
        source: &str,
        registration: RegistrationRules,
        grants: &GrantCheck,
    ) -> Self {
        let (set, source, grants) = (|| set.clone(), || source.to_owned(), || grants.clone());
        let agent = elsewhere.agent.clone();
        let elsewhere = || elsewhere.clone();

        Self {
            invoke: InvokeService {
                set: set(),
                elsewhere: elsewhere(),
                agent,
                source: source(),
                grants: grants(),
            },
            relay: RelayService { set: set(), source: source(), grants: grants() },
            manage: ManageService {
                set: set(),
                elsewhere: elsewhere(),
                source: source(),
                registration,
                grants: grants(),
            },
            subscribe: SubscribeService { set: set(), source: source(), grants: grants() },
        }
    }
}

/// A request to a server.
pub(super) enum ServerRequest {
    Invoke(ToolInvokeRequest),
    Relay(RelayedRequest),
    Manage(ReceivedRequest),
    Subscribe(McpSubscribeRequest),
}

impl Service for ServerRequests {
    type Request = ServerRequest;

    fn parse(&self, envelope: &Envelope) -> Result<Call<ServerRequest>, Malformed> {
        if message::is::<McpRelayRequest>(envelope) {
            return self.relay.parse(envelope).map(|call| map(call, ServerRequest::Relay));
        }
        if message::is::<ToolInvokeRequest>(envelope) {
            return self.invoke.parse(envelope).map(|call| map(call, ServerRequest::Invoke));
        }
        if message::is::<McpSubscribeRequest>(envelope) {
            return self.subscribe.parse(envelope).map(|call| map(call, ServerRequest::Subscribe));
        }
        self.manage.parse(envelope).map(|call| map(call, ServerRequest::Manage))
    }

    fn authorize(&self, call: &Call<ServerRequest>, received: Received<'_>) -> Result<(), Reply> {
        match &call.request {
            ServerRequest::Invoke(request) => self.invoke.check(&call.ids, request, received),
            ServerRequest::Relay(request) => self.relay.check(&call.ids, request, received),
            ServerRequest::Manage(request) => self.manage.check(&call.ids, request, received),
            ServerRequest::Subscribe(request) => self.subscribe.check(request, received),
        }
    }

    fn serve(&self, request: ServerRequest, context: Context) -> BoxFuture<'_, Reply> {
        match request {
            ServerRequest::Invoke(request) => self.invoke.serve(request, context),
            ServerRequest::Relay(request) => self.relay.serve(request, context),
            ServerRequest::Manage(request) => self.manage.serve(request, context),
            ServerRequest::Subscribe(request) => self.subscribe.serve(request, context),
        }
    }

    /// The requests that are no calls of tools have their message types for the tool's name. A tool
    /// that is called so gets a reply that its caller cannot read, which is an error too.
    fn fail(&self, ids: &CallIds, failure: Failure) -> Reply {
        match ids.tool_name.as_str() {
            McpSubscribeRequest::TYPE => self.subscribe.fail(ids, failure),
            name if ReceivedRequest::is_type(name) => self.manage.fail(ids, failure),
            _ => self.relay.fail(ids, failure),
        }
    }

    fn default_reply_topic(&self) -> Option<Topic> {
        self.invoke.default_reply_topic()
    }

    fn source(&self) -> &str {
        self.invoke.source()
    }
}

fn map<R>(call: Call<R>, request_of: impl FnOnce(R) -> ServerRequest) -> Call<ServerRequest> {
    let Call { ids, request, default_budget, repeat } = call;
    Call { ids, request: request_of(request), default_budget, repeat }
}
