//! A stub of a bridge: it notes what each request asks for, and answers it.

use std::num::NonZeroU16;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolbus::Toolbus;
use toolbus_bus::{Bus, Consumer, Delivery, Disposition, Flow, Subscription};
use toolbus_mcp_agent::nearest::loose_form;
use toolbus_mcp_agent::{
    REGISTER_SERVER, UNREGISTER_SERVER, is_method_name, management_id, provider_of, read_id,
    subject_of,
};
use toolbus_tools::id::ToolId;
use toolbus_wire::message::mcp::{
    McpGetPromptRequest, McpGetPromptResponse, McpGetServiceDetailsRequest,
    McpGetServiceDetailsResponse, McpListResourcesRequest, McpListResourcesResponse,
    McpReadResourceRequest, McpReadResourceResponse, McpRegisterServerRequest,
    McpRegisterServerResponse, McpServerSummary, McpServersIndexed, McpToolDetails,
    McpUnregisterServerRequest, McpUnregisterServerResponse,
};
use toolbus_wire::message::tool::{CallIds, ToolInvokeRequest, ToolInvokeResponse};
use toolbus_wire::name::AgentName;
use toolbus_wire::{Envelope, Message, Topic, header, json, message, topic};

use super::ledger::{Happened, Ledger, Ran};
use super::world::LIMIT;

/// The tool that tells the details of a server.
const GET_DETAILS: &str = "mcp_get_service_details";

/// The servers with their tools and their read-only tools. The last tool of the first server has
/// the name of a protocol method, which a bridge of Toolbus would withhold.
const SERVERS: [(&str, &[&str], &[&str]); 2] = [
    ("GitHub", &["create_issue", "delete_repo", "list_issues", "resources/read"], &["list_issues"]),
    ("my-notes", &["add"], &[]),
];

/// Announces the servers to the agent.
pub(crate) async fn announce(bus: &Arc<dyn Bus>, toolbus: &Toolbus) {
    let server = |(name, tools, read_only): (&str, &[&str], &[&str])| McpServerSummary {
        server_name: name.to_owned(),
        tool_count: u32::try_from(tools.len()).unwrap(),
        tool_names: tools.iter().map(|tool| (*tool).to_owned()).collect(),
        operator_added: true,
        read_only_tools: Some(read_only.iter().map(|tool| (*tool).to_owned()).collect()),
        prompt_count: Some(1),
        prompt_names: Some(vec!["review".to_owned()]),
        resource_count: Some(1),
        ..McpServerSummary::default()
    };
    let servers = SERVERS.into_iter().map(server).collect();
    let indexed = McpServersIndexed { servers, ..McpServersIndexed::default() };

    let envelope = Envelope::of(&indexed, "bridge");
    bus.publish(&topic::tool_meta_mcp(&AgentName::standard()), envelope).await.unwrap();
    for tool in ["mcp_invoke_tool", REGISTER_SERVER, "mcp_get_prompt", "mcp_read_resource"] {
        assert!(toolbus.agent().wait_for_tool(tool, LIMIT).await, "{tool}");
    }
    let knows_both = |servers: &[McpServerSummary]| servers.len() == 2;
    assert!(toolbus.directory().wait_until(LIMIT, knows_both).await);
}

/// Answers requests for this topic, and notes what they ask for.
pub(crate) async fn serve(bus: &Arc<dyn Bus>, topic: &Topic, ledger: &Ledger) -> Consumer {
    let (replies, ledger) = (Arc::downgrade(bus), ledger.clone());
    let handle = move |delivery: Delivery| {
        let (replies, ledger) = (replies.clone(), ledger.clone());
        async move {
            let request = delivery.envelope;
            let reply = match ledger.is_open() {
                true => {
                    let (ran, reply) = answer(&request);
                    ledger.add(Happened::Ran(ran));
                    reply
                }
                false => describe_server(&request),
            };
            if let (Some(bus), Some(reply_to)) = (replies.upgrade(), request.reply_to) {
                let reply = reply.with_correlation_id(request.correlation_id.unwrap());
                bus.publish(&reply_to, reply).await.unwrap();
            }
            Disposition::Ack
        }
    };
    let flow = Flow::Ordered { prefetch: NonZeroU16::MIN };
    let subscription = Subscription::private(format!("bridge.{topic}"), topic.clone().into(), flow);
    bus.subscribe(subscription, Arc::new(handle)).await.unwrap()
}

/// What the request of a call of this tool asks for beside the server, where the tool was judged
/// with these arguments. The names of servers in it are as alike as the agent takes them to be.
pub(crate) fn asked_by(tool: &str, arguments: &Value) -> Value {
    let text = |name: &str| arguments[name].as_str();
    let required = |name: &str| text(name).unwrap_or_default();
    let object = |name: &str| arguments[name].as_object().cloned().unwrap_or_default();

    match tool {
        "mcp_invoke_tool" => arguments.get("arguments").cloned().unwrap_or_else(|| json!({})),
        "mcp_get_prompt" => json!([required("prompt_name"), object("arguments")]),
        "mcp_read_resource" => json!(required("uri")),
        "mcp_list_resources" => json!(text("cursor").filter(|cursor| !cursor.is_empty())),
        GET_DETAILS => json!(loose_form(required("server_name"))),
        UNREGISTER_SERVER => json!(required("server_name").to_lowercase()),
        REGISTER_SERVER => {
            let args = arguments["args"].as_array().into_iter().flatten();
            json!({
                "name": required("name"),
                "type": required("type"),
                "url": text("url"),
                "command": text("command"),
                "args": args.filter_map(Value::as_str).collect::<Vec<_>>(),
                "env": object("env"),
            })
        }
        _ => arguments.clone(),
    }
}

/// What a request asks for, by its contents alone, and the answer. Questions about a server are
/// answered as if it were away.
fn answer(request: &Envelope) -> (Ran, Envelope) {
    if message::is::<ToolInvokeRequest>(request) {
        return answer_call(request);
    }
    if message::is::<McpRegisterServerRequest>(request) {
        return answer_registration(request);
    }
    if message::is::<McpUnregisterServerRequest>(request) {
        let McpUnregisterServerRequest { server_name } = json::read(&request.body).unwrap();
        let asked = json!(server_name);
        let success = true;
        let reply = McpUnregisterServerResponse { server_name, success, ..Default::default() };
        return ran(management_id(UNREGISTER_SERVER), asked, &reply);
    }
    if message::is::<McpGetPromptRequest>(request) {
        let asked: McpGetPromptRequest = json::read(&request.body).unwrap();
        let subject = read_id(&asked.server_name, "prompts/get");
        let asked = json!([asked.prompt_name, asked.arguments]);
        return ran(subject, asked, &McpGetPromptResponse::default());
    }
    if message::is::<McpReadResourceRequest>(request) {
        let asked: McpReadResourceRequest = json::read(&request.body).unwrap();
        let subject = read_id(&asked.server_name, "resources/read");
        return ran(subject, json!(asked.uri), &McpReadResourceResponse::default());
    }
    if message::is::<McpListResourcesRequest>(request) {
        let asked: McpListResourcesRequest = json::read(&request.body).unwrap();
        let subject = read_id(&asked.server_name, "resources/list");
        return ran(subject, json!(asked.cursor), &McpListResourcesResponse::default());
    }

    let is_known = message::is::<McpGetServiceDetailsRequest>(request);
    assert!(is_known, "the bridge was sent a {}", request.message_type);
    let asked: McpGetServiceDetailsRequest = json::read(&request.body).unwrap();
    let error = Some("the server is away".to_owned());
    let away = McpGetServiceDetailsResponse { error, ..McpGetServiceDetailsResponse::default() };
    ran(management_id(GET_DETAILS), json!(loose_form(&asked.server_name)), &away)
}

/// Returns the answer to an agent that offers the tools of a server directly and asks for the list.
fn describe_server(request: &Envelope) -> Envelope {
    let asked: McpGetServiceDetailsRequest = json::read(&request.body).unwrap();
    let known = SERVERS.iter().find(|(name, ..)| *name == asked.server_name);
    let (name, tools, _) = *known.unwrap();
    let tools = tools.iter().map(|tool| McpToolDetails {
        name: (*tool).to_owned(),
        description: "A tool.".to_owned(),
        parameters_schema: Some(r#"{"type": "object"}"#.to_owned()),
        ..McpToolDetails::default()
    });

    let tools = tools.collect();
    let server_name = name.to_owned();
    let details = McpGetServiceDetailsResponse { server_name, tools, ..Default::default() };
    Envelope::of(&details, "bridge")
}

fn answer_call(request: &Envelope) -> (Ran, Envelope) {
    let server = request.headers.get(header::MCP_SERVER).unwrap();
    let asked: ToolInvokeRequest = json::read(&request.body).unwrap();
    assert!(!is_method_name(&asked.tool_name), "a tool is called by the subject of a read");
    let subject = subject_of(None, server, &asked.tool_name);
    assert!(subject.id.as_str().starts_with(&provider_of(server)));
    let arguments = asked.arguments.as_deref().unwrap_or("{}");
    let arguments: Value = serde_json::from_str(arguments).unwrap();

    let CallIds { tool_call_id, tool_name } = CallIds::from(&asked);
    let content = Some("ran".to_owned());
    let reply =
        ToolInvokeResponse { tool_call_id, tool_name, content, ..ToolInvokeResponse::default() };
    ran(subject.id, arguments, &reply)
}

fn answer_registration(request: &Envelope) -> (Ran, Envelope) {
    let asked: McpRegisterServerRequest = json::read(&request.body).unwrap();
    let secrets = asked.env.iter().map(|(name, secret)| (name.clone(), json!(secret.expose())));
    let env: Map<String, Value> = secrets.collect();
    let shown = json!({
        "name": asked.server_name,
        "type": asked.kind,
        "url": asked.url,
        "command": asked.command,
        "args": asked.args,
        "env": env,
    });

    let server_name = asked.server_name;
    let reply = McpRegisterServerResponse { server_name, success: true, ..Default::default() };
    ran(management_id(REGISTER_SERVER), shown, &reply)
}

fn ran<A: Message>(subject: ToolId, asked: Value, reply: &A) -> (Ran, Envelope) {
    let subject = subject.as_str().to_owned();
    (Ran { subject, asked }, Envelope::of(reply, "bridge"))
}
