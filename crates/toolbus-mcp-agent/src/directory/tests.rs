//! What an agent's models are told and let do, with a bridge that answers by a script.

use std::num::NonZeroU16;

use parking_lot::Mutex;
use serde_json::{Map, Value, json as object};
use toolbus_bus::{MemoryBus, Topic};
use toolbus_tools::call::{Call, CallTime, Outcome};
use toolbus_tools::policy::{Decision, PolicyRequest};
use toolbus_tools::{Door, Invoker, Principal, Scope, View};
use toolbus_wire::Message;
use toolbus_wire::json::RawJson;
use toolbus_wire::message::mcp::{
    McpGetPromptRequest, McpGetPromptResponse, McpGetServiceDetailsRequest,
    McpListResourcesRequest, McpListResourcesResponse, McpNearestNames, McpReadResourceRequest,
    McpReadResourceResponse, McpToolDetails,
};
use toolbus_wire::message::tool::{CallIds, ToolError, ToolInvokeRequest, ToolInvokeResponse};
use toolbus_wire::name::AgentName;
use toolbus_wire::{ErrorCode, Execution, header};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A tool whose schema nobody here takes.
const OVERSIZED: &str = "huge";

/// Servers whose tools would pass for the agent's own, or take their places.
const IMITATIONS: [&str; 4] = ["Management", "offers", "man-age.ment", "management/x"];

/// An agent before a bridge with the servers `GitHub` and `notes`, which remembers what it is asked.
struct Stage {
    bus: Arc<dyn Bus>,
    directory: McpDirectory,
    invoker: Invoker,
    asked: Arc<Mutex<Vec<Envelope>>>,
    _bridge: [Consumer; 2],
}

impl Stage {
    async fn start() -> Self {
        Self::with_policy(|_: &PolicyRequest<'_>| Decision::Allow).await
    }

    async fn with_policy(policy: impl toolbus_tools::policy::Policy) -> Self {
        let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
        let asked = Arc::default();
        let bridge = [
            serve(&bus, &topic::MCP_MANAGE, &asked).await,
            serve(&bus, &topic::TOOL_INVOKE_MCP, &asked).await,
        ];
        let (agent, instance) = (AgentName::standard(), InstanceId::random());
        let requester = Requester::start(Arc::clone(&bus), agent, &instance).await.unwrap();
        let registry = Arc::new(Registry::new());
        let guides = Guides::default();
        let directory =
            McpDirectory::start(&bus, requester, &instance, Arc::clone(&registry), guides);
        let directory = directory.await.unwrap();

        let invoker = Invoker::builder(registry).policy(policy).build();
        let stage = Self { bus, directory, invoker, asked, _bridge: bridge };
        stage.announce().await;
        stage
    }

    /// Has the bridge announce what it has, and waits until that is known.
    async fn announce(&self) {
        self.announce_servers(vec![github(), notes()]).await;
    }

    async fn announce_servers(&self, servers: Vec<McpServerSummary>) {
        let known = self.directory.inner.index.revision();
        let indexed = McpServersIndexed { servers, ..McpServersIndexed::default() };
        let envelope = Envelope::of(&indexed, "bridge");
        self.bus.publish(&topic::tool_meta_mcp(&AgentName::standard()), envelope).await.unwrap();
        let is_known = |_: &[McpServerSummary]| {
            self.directory.inner.index.revision() > known && self.directory.is_settled()
        };
        let is_known = self.directory.wait_until(60 * SECOND, is_known).await;
        assert!(is_known, "the announcement has no effect");
    }

    /// Has the bridge be away from now on.
    fn lose_bridge(&self) {
        self.directory.inner.index.begin_generation();
        self.directory.inner.index.sweep_unconfirmed();
    }

    async fn call_in(&self, view: View, tool: &str, arguments: Value) -> Outcome {
        let scope = Scope::new(Door::Embedded, Principal::local(), AgentName::standard());
        let call = Call::by_name(&Arc::new(scope.with_view(view)), tool, arguments).unwrap();
        self.invoker.invoke(call.with_time(CallTime::within(5 * SECOND))).await
    }

    async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.call_in(View::all(), tool, arguments).await
    }

    /// What a tool answers in a view, as JSON.
    async fn told(&self, view: View, tool: &str, arguments: Value) -> Value {
        let output = self.call_in(view, tool, arguments).await.unwrap();
        let text = output.content.unwrap();
        serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text))
    }

    /// The last request of this type, if there was one.
    fn last<M: Message>(&self) -> Option<(M, Envelope)> {
        let asked = self.asked.lock();
        let last = asked.iter().rev().find(|envelope| message::is::<M>(envelope))?;
        Some((json::read(&last.body).unwrap(), last.clone()))
    }

    fn count<M: Message>(&self) -> usize {
        self.asked.lock().iter().filter(|envelope| message::is::<M>(envelope)).count()
    }

    fn tools(&self) -> Vec<String> {
        let tools = self.invoker.registry().snapshot();
        tools.tools().iter().map(|entry| entry.tool.name.clone()).collect()
    }
}

fn github() -> McpServerSummary {
    let digests = ["create_issue", OVERSIZED, "delete_repo"];
    McpServerSummary {
        server_name: "GitHub".to_owned(),
        tool_count: 3,
        tool_names: digests.map(str::to_owned).to_vec(),
        tool_fingerprints: Some(
            digests.map(|tool| (tool.to_owned(), format!("digest of {tool}"))).into(),
        ),
        prompt_count: Some(1),
        prompt_names: Some(vec!["review".to_owned()]),
        resource_count: Some(1),
        ..McpServerSummary::default()
    }
}

fn notes() -> McpServerSummary {
    McpServerSummary {
        server_name: "my-notes".to_owned(),
        tool_count: 1,
        tool_names: vec!["add".to_owned()],
        ..McpServerSummary::default()
    }
}

fn imitation(name: &str) -> McpServerSummary {
    McpServerSummary {
        server_name: name.to_owned(),
        tool_count: 1,
        tool_names: vec!["mcp_register_server".to_owned()],
        ..McpServerSummary::default()
    }
}

/// What the bridge says of a server.
fn details_of(server: &str) -> McpGetServiceDetailsResponse {
    let summary = [github(), notes()].into_iter().chain(IMITATIONS.map(imitation));
    let mut summary = summary.filter(|known| known.server_name.eq_ignore_ascii_case(server));
    let Some(summary) = summary.next() else {
        let error = Some(format!("Server '{server}' is not connected"));
        return McpGetServiceDetailsResponse { error, ..Default::default() };
    };

    let tool = |name: String| McpToolDetails {
        parameters_schema: Some(match &*name {
            OVERSIZED => format!(r#"{{"type":"object","title":"{}"}}"#, "x".repeat(100_000)),
            _ => r#"{"type":"object"}"#.to_owned(),
        }),
        name,
        ..McpToolDetails::default()
    };
    McpGetServiceDetailsResponse {
        server_name: summary.server_name,
        title: Some("GitHub MCP Server".to_owned()),
        tools: summary.tool_names.into_iter().map(tool).collect(),
        prompts: Some(vec![RawJson::of(&object!({"name": "review"}))]),
        notices: Some(vec!["tool 'delete_repo' has changed".to_owned()]),
        ..McpGetServiceDetailsResponse::default()
    }
}

/// Answers requests for this topic, and remembers them.
async fn serve(bus: &Arc<dyn Bus>, topic: &Topic, asked: &Arc<Mutex<Vec<Envelope>>>) -> Consumer {
    let (replies, log) = (Arc::downgrade(bus), Arc::clone(asked));
    let handle = move |delivery: Delivery| {
        let (replies, log) = (replies.clone(), Arc::clone(&log));
        async move {
            let request = delivery.envelope;
            let reply =
                answer(&request).with_correlation_id(request.correlation_id.clone().unwrap());
            let reply_to = request.reply_to.clone().unwrap();
            log.lock().push(request);
            // Whoever asked may have gone.
            if let Some(bus) = replies.upgrade() {
                let _ = bus.publish(&reply_to, reply).await;
            }
            Disposition::Ack
        }
    };
    let flow = Flow::Ordered { prefetch: NonZeroU16::MIN };
    let subscription = Subscription::private(format!("bridge.{topic}"), topic.clone().into(), flow);
    bus.subscribe(subscription, Arc::new(handle)).await.unwrap()
}

fn answer(request: &Envelope) -> Envelope {
    if message::is::<McpGetServiceDetailsRequest>(request) {
        let request: McpGetServiceDetailsRequest = json::read(&request.body).unwrap();
        return Envelope::of(&details_of(&request.server_name), "bridge");
    }
    if message::is::<ToolInvokeRequest>(request) {
        let request: ToolInvokeRequest = json::read(&request.body).unwrap();
        let ids = CallIds::from(&request);
        if request.tool_name == "elsewhere" {
            let text = "MCP server 'gitlab' is not connected. Servers: GitHub";
            let details = McpNearestNames(vec!["GitHub".to_owned()]).to_details();
            let error = ToolError::new(ids, ErrorCode::ToolNotFound, text);
            return Envelope::of(&ToolError { details: Some(details), ..error }, "bridge");
        }
        if request.tool_name == "nothing" {
            let text = "Tool 'nothing' not found on MCP server 'github'. Tools: delete_repo";
            return Envelope::of(&ToolError::new(ids, ErrorCode::ToolNotFound, text), "bridge");
        }
        let CallIds { tool_call_id, tool_name } = ids;
        let response = ToolInvokeResponse {
            tool_call_id,
            tool_name,
            content: Some("ran".to_owned()),
            is_error: false,
            content_blocks: None,
            structured_content: None,
        };
        return Envelope::of(&response, "bridge");
    }
    if message::is::<McpReadResourceRequest>(request) {
        return Envelope::of(&McpReadResourceResponse::default(), "bridge");
    }
    if message::is::<McpListResourcesRequest>(request) {
        return Envelope::of(&McpListResourcesResponse::default(), "bridge");
    }
    Envelope::of(&McpGetPromptResponse::default(), "bridge")
}

fn invoke(server: &str, tool: &str) -> Value {
    object!({"server_name": server, "tool_name": tool})
}

fn without_deleting() -> View {
    View::all().without(["mcp:github/delete_repo"])
}

fn without_github() -> View {
    View::all().without(["mcp:github/*"])
}

fn nothing() -> Value {
    Value::Object(Map::new())
}

#[tokio::test]
async fn servers_are_listed_as_a_view_sees_them() {
    let stage = Stage::start().await;
    let all = stage.told(View::all(), "mcp_list_services", nothing()).await;
    assert_eq!(all[0]["toolCount"], 3, "{all}");
    let some = stage.told(without_deleting(), "mcp_list_services", nothing()).await;
    assert_eq!(some[0]["toolNames"], object!(["create_issue", OVERSIZED]), "{some}");
    let other = stage.told(without_github(), "mcp_list_services", nothing()).await;
    assert_eq!(other.as_array().map(Vec::len), Some(1), "{other}");
    assert_eq!(other[0]["serverName"], "my-notes");
}

#[tokio::test]
async fn details_are_told_as_a_view_sees_them() {
    let stage = Stage::start().await;
    let details =
        async |view, arguments| stage.told(view, "mcp_get_service_details", arguments).await;
    let whole = || object!({"server_name": "git hub"});
    let names = |told: &Value| -> Vec<String> {
        let tools = told["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };

    let all = details(View::all(), whole()).await;
    assert_eq!(names(&all), ["create_issue", OVERSIZED, "delete_repo"]);
    assert_eq!(
        (&all["prompts"][0]["name"], all["notices"][0].is_string()),
        (&"review".into(), true)
    );
    let some = details(without_deleting(), whole()).await;
    assert_eq!(names(&some), ["create_issue", OVERSIZED]);
    assert_eq!((&some["prompts"][0]["name"], some.get("notices")), (&"review".into(), None));
    let no_prompts = View::all().without(["mcp:github/prompts/*"]);
    assert_eq!(details(no_prompts, whole()).await["prompts"], object!([]));

    // What is hidden is told of as what is not there.
    let one = |tool: &str| object!({"server_name": "github", "tool_name": tool});
    let hidden = details(without_deleting(), one("delete_repo")).await;
    let absent = details(without_deleting(), one("delete_rope")).await;
    assert_eq!(hidden.as_str().unwrap().replace("delete_repo", "delete_rope"), absent);
    let of = |server: &str| object!({"server_name": server});
    let hidden = details(without_github(), of("GitHub")).await;
    let absent = details(without_github(), of("GitLab")).await;
    assert_eq!(hidden, "Server 'github' is not connected");
    assert_eq!(absent, "Server 'gitlab' is not connected");
    assert_eq!(details(View::all(), of("GitLab")).await, absent);
}

/// The members that RockBot gives, in its order. A schema is JSON, and not text in JSON.
#[tokio::test]
async fn details_have_the_members_of_the_contract() {
    let stage = Stage::start().await;
    let text = async |view, tool, arguments| {
        stage.call_in(view, tool, arguments).await.unwrap().content.unwrap()
    };
    let one = object!({"server_name": "GitHub", "tool_name": "CREATE_ISSUE"});
    let details = text(View::all(), "mcp_get_service_details", one).await;
    let expected = concat!(
        r#"{"server":{"name":"GitHub","implementationName":null,"title":"GitHub MCP Server","#,
        r#""version":null,"description":null,"instructions":null},"#,
        r#""tools":[{"name":"create_issue","description":"","parametersSchema":{"type":"object"}}],"#,
        r#""prompts":[{"name":"review"}],"notices":["tool 'delete_repo' has changed"]}"#,
    );
    assert_eq!(details, expected);

    let none = View::all().without(["mcp:github/*", "mcp:my-notes/*"]);
    assert_eq!(text(none, "mcp_list_services", nothing()).await, "[]");
}

#[tokio::test]
async fn nobody_can_tell_a_hidden_tool_from_one_that_is_not_there() {
    let stage = Stage::start().await;
    let error = async |view, server, tool| {
        let error = stage.call_in(view, "mcp_invoke_tool", invoke(server, tool)).await.unwrap_err();
        assert_eq!((error.execution, error.details.clone()), (Execution::NotStarted, None));
        (error.code, error.message)
    };
    let not_found = |id: &str| (ErrorCode::ToolNotFound, format!("Tool '{id}' is not registered."));

    let hidden = error(without_deleting(), "github", "delete_repo").await;
    assert_eq!(hidden, not_found("mcp:github/delete_repo"));
    let absent = error(without_deleting(), "github", "nothing").await;
    assert_eq!(absent, not_found("mcp:github/nothing"));
    let hidden = error(without_github(), "github", "create_issue").await;
    assert_eq!(hidden, not_found("mcp:github/create_issue"));
    let absent = error(without_github(), "gitlab", "create_issue").await;
    assert_eq!(absent, not_found("mcp:gitlab/create_issue"));
    assert_eq!(stage.count::<ToolInvokeRequest>(), 0, "the bridge was not asked");

    // Whoever sees everything is told what there is.
    let absent = error(View::all(), "github", "nothing").await;
    assert!(absent.1.ends_with(". Tools: delete_repo"), "{absent:?}");
    let absent = error(View::all(), "gitlab", "nothing").await;
    assert!(absent.1.ends_with(". Servers: GitHub, my-notes."), "{absent:?}");
    // Once, where the bridge says that it has named them.
    let named = stage.call("mcp_invoke_tool", invoke("gitlab", "elsewhere")).await.unwrap_err();
    assert_eq!(named.message, "MCP server 'gitlab' is not connected. Servers: GitHub");
}

#[tokio::test]
async fn reads_in_a_view_name_no_server_that_is_hidden() {
    let stage = Stage::start().await;
    for (server, id) in [("github", "mcp:github"), ("gitlab", "mcp:gitlab")] {
        let wanted = object!({"server_name": server, "uri": "a://1"});
        let outcome = stage.call_in(without_github(), "mcp_read_resource", wanted).await;
        let expected = CallError::not_registered(&format!("{id}/resources/read"));
        assert_eq!(outcome.unwrap_err(), expected);
    }
    assert_eq!(stage.count::<McpReadResourceRequest>(), 0);
}

/// The rules see the server that is read, and so does the bridge.
#[tokio::test]
async fn a_read_is_about_the_server_that_is_meant() {
    let deny = |about: &PolicyRequest<'_>| match about.subject.id.as_str() {
        "mcp:github/resources/read" => Decision::Deny("secret".into()),
        _ => Decision::Allow,
    };
    let strict = Stage::with_policy(deny).await;
    let open = Stage::start().await;
    let read = |server: &str| object!({"server_name": server, "uri": "a://1"});

    for spelling in ["GitHub", "github", "git-hub", "Git Hub"] {
        let denied = strict.call("mcp_read_resource", read(spelling)).await.unwrap_err();
        assert_eq!(denied.code, ErrorCode::Denied, "{spelling}");

        open.call("mcp_read_resource", read(spelling)).await.unwrap();
        let (request, envelope) = open.last::<McpReadResourceRequest>().unwrap();
        assert_eq!(request.server_name, "github", "{spelling}");
        assert_eq!(envelope.headers.get(header::EXACT), Some("1"));
    }
    assert_eq!(strict.count::<McpReadResourceRequest>(), 0);

    // Its title is the server's own word: it is no name.
    strict.call("mcp_read_resource", read("GitHub MCP Server")).await.unwrap();
    let (request, envelope) = strict.last::<McpReadResourceRequest>().unwrap();
    assert_eq!(request.server_name, "github mcp server");
    assert_eq!(envelope.headers.get(header::EXACT), Some("1"), "no bridge guesses");

    for (tool, arguments) in [
        ("mcp_list_resources", object!({"server_name": "git-hub"})),
        ("mcp_get_prompt", object!({"server_name": "git-hub", "prompt_name": "review"})),
    ] {
        open.call(tool, arguments).await.unwrap();
    }
    let (listed, _) = open.last::<McpListResourcesRequest>().unwrap();
    let (prompt, _) = open.last::<McpGetPromptRequest>().unwrap();
    assert_eq!((&*listed.server_name, &*prompt.server_name), ("github", "github"));
}

#[tokio::test]
async fn what_is_away_is_refused_and_waits_in_no_queue() {
    let stage = Stage::start().await;
    stage.call("mcp_invoke_tool", invoke("github", "create_issue")).await.unwrap();
    stage.lose_bridge();

    let read = object!({"server_name": "github", "uri": "a://1"});
    let calls =
        [("mcp_invoke_tool", invoke("git-hub", "create_issue")), ("mcp_read_resource", read)];
    for (tool, arguments) in calls {
        let error = stage.call(tool, arguments).await.unwrap_err();
        assert_eq!((&error.code, error.execution), (&ErrorCode::Unroutable, Execution::NotStarted));
        assert!(error.is_retryable);
        let text = "MCP server 'GitHub' cannot be reached for now: its bridge is away";
        assert_eq!(error.message.to_lowercase(), text.to_lowercase());
    }
    assert_eq!(stage.count::<ToolInvokeRequest>(), 1);
    assert_eq!(stage.count::<McpReadResourceRequest>(), 0);

    stage.announce().await;
    stage.call("mcp_invoke_tool", invoke("github", "create_issue")).await.unwrap();
}

#[tokio::test]
async fn a_direct_tool_is_the_tool_of_its_server() {
    let stage = Stage::start().await;
    stage.directory.offer_directly();
    stage.announce().await;

    let entry = stage.invoker.registry().find("GitHub__delete_repo").unwrap();
    assert_eq!(entry.id.as_str(), "mcp:github/delete_repo");
    assert_eq!(entry.definition.to_string(), "digest of delete_repo");
    let hidden = stage.call_in(without_deleting(), "GitHub__delete_repo", nothing()).await;
    assert_eq!(hidden.unwrap_err(), CallError::not_registered("GitHub__delete_repo"));

    let only = View::all().only(["mcp:github/create_issue"]);
    let tools = stage.invoker.registry().snapshot();
    let scope = Scope::new(Door::Turn, Principal::local(), AgentName::standard());
    let scope = scope.with_view(only.clone());
    let seen: Vec<_> = tools.seen_by(&scope).map(|entry| entry.tool.name.as_str()).collect();
    assert_eq!(seen, ["GitHub__create_issue"]);
    let output = stage.call_in(only, "GitHub__create_issue", nothing()).await.unwrap();
    assert_eq!(output.content.as_deref(), Some("ran"));
}

/// Whoever is on the bus can announce a server of any name, and have one.
#[tokio::test]
async fn no_server_has_the_ids_or_the_places_of_the_agents_own_tools() {
    let stage = Stage::start().await;
    stage.directory.offer_directly();
    stage.announce().await;
    let tools = stage.tools();
    assert!(tools.iter().any(|tool| tool == "mcp_register_server"));

    let imitations = IMITATIONS.map(imitation);
    stage.announce_servers([github(), notes()].into_iter().chain(imitations).collect()).await;
    assert_eq!(stage.tools(), tools);
    assert_eq!(stage.directory.servers().len(), 2);

    for server in IMITATIONS {
        let call = invoke(server, "mcp_register_server");
        let error = stage.call("mcp_invoke_tool", call).await.unwrap_err();
        let text = format!("MCP server '{server}' is not connected. Servers: ");
        assert!(error.message.starts_with(&text), "{}", error.message);
        assert_eq!(error.execution, Execution::NotStarted);

        let read = object!({"server_name": server, "uri": "a://1"});
        let error = stage.call("mcp_read_resource", read).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ToolNotFound);
    }
    assert_eq!(stage.count::<ToolInvokeRequest>(), 0, "no bridge was asked");
    assert_eq!(stage.count::<McpReadResourceRequest>(), 0);
}

#[tokio::test]
async fn a_tool_whose_schema_is_too_large_keeps_its_place() {
    let stage = Stage::start().await;
    stage.directory.offer_directly();
    stage.announce().await;
    let tools = stage.tools();
    let direct: Vec<_> = tools.iter().filter(|name| name.contains("__")).collect();
    let expected = ["GitHub__create_issue", "GitHub__huge", "GitHub__delete_repo", "my-notes__add"];
    assert_eq!(direct, expected);
    let any = object!({"type": "object"});
    assert_eq!(stage.invoker.registry().find("GitHub__huge").unwrap().tool.parameters, any);

    let revision = stage.invoker.registry().snapshot().revision();
    for announcement in 2..=3 {
        stage.announce().await;
        assert_eq!(stage.tools(), tools, "{announcement}");
        assert_eq!(stage.invoker.registry().snapshot().revision(), revision, "{announcement}");
    }
}
