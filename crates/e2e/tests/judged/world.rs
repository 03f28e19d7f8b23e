//! An agent before a stub of a bridge, which notes what runs.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use toolbus::Toolbus;
use toolbus::tools::registry::Offer;
use toolbus_artifacts::{ArtifactConfig, Artifacts, NewArtifact, Place, ResolveReferences};
use toolbus_audit::{Audit, AuditConfig, AuditLog, AuditRow, Query};
use toolbus_bus::{Bus, Consumer, Delivery, Disposition, Flow, MemoryBus, Subscription};
use toolbus_mcp_agent::{provider_of, read_subject, subject_of};
use toolbus_store::{LazyStore, Location};
use toolbus_tools::call::{Call, CallTime, Invocation, Output};
use toolbus_tools::gate::{Gate, Passage, Verdict};
use toolbus_tools::id::{CallId, SessionId, ToolId};
use toolbus_tools::policy::{Decision, PolicyRequest};
use toolbus_tools::scope::DoorSet;
use toolbus_tools::{Door, Principal, Scope, Tool};
use toolbus_wire::message::mcp::{
    McpGetPromptRequest, McpGetPromptResponse, McpGetServiceDetailsResponse,
    McpReadResourceRequest, McpReadResourceResponse, McpServerSummary, McpServersIndexed,
};
use toolbus_wire::message::tool::{CallIds, ToolInvokeRequest, ToolInvokeResponse};
use toolbus_wire::name::AgentName;
use toolbus_wire::{Envelope, Topic, header, json, message, topic};

use super::calls::{CONTENTS, CallSpec, Entry, Part};

/// Limit for anything that has to come.
const LIMIT: Duration = Duration::from_secs(60);

/// The outcome of a call.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The id of the tool that ran.
    pub(crate) ran: Option<String>,
    pub(crate) was_judged: bool,
    pub(crate) has_reference: bool,
}

pub(crate) struct World {
    toolbus: Toolbus,
    references: Vec<Value>,
    /// The subjects that the policy was asked about, with its answers.
    judged: Arc<Mutex<Vec<(String, bool)>>>,
    ran: Arc<Mutex<Vec<String>>>,
    change: Arc<Mutex<Option<Value>>>,
    audit: Audit,
    log: AuditLog,
    _bus: Arc<dyn Bus>,
    _bridge: [Consumer; 2],
    _folder: TempDir,
}

/// An approver who changes the arguments of a call, once.
struct Change(Arc<Mutex<Option<Value>>>);

impl Gate for Change {
    fn name(&self) -> &'static str {
        "change"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        if let Some(arguments) = self.0.lock().take() {
            passage.replace_arguments(arguments);
        }
        Verdict::Now(Ok(()))
    }
}

/// The operator's rules: nothing that deletes, and no notes for MCP clients, whatever is
/// between them and the call.
fn allows(subject: &str, doors: DoorSet) -> bool {
    let is_deleting = subject.to_ascii_lowercase().contains("delete");
    let is_note_of_client = subject.starts_with("mcp:my-notes/") && doors.contains(Door::Mcp);
    !is_deleting && !is_note_of_client
}

impl World {
    pub(crate) async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("state.db"));
        let migrations = [toolbus_artifacts::MIGRATIONS, toolbus_audit::MIGRATIONS];
        let store = LazyStore::new(location, &migrations);
        let kept_in = Place::folder(&folder.path().join("artifacts"));
        let artifacts = Artifacts::new(store.clone(), kept_in, ArtifactConfig::default());
        let audit = Audit::start(store.clone(), AuditConfig::default());

        let memory = MemoryBus::new();
        let bus: Arc<dyn Bus> = Arc::new(memory.connect());
        let (judged, ran, change) =
            (Arc::<Mutex<Vec<(String, bool)>>>::default(), Arc::default(), Arc::default());
        let bridge = [
            serve(&bus, &topic::MCP_MANAGE, &ran).await,
            serve(&bus, &topic::TOOL_INVOKE_MCP, &ran).await,
        ];
        let asked = Arc::clone(&judged);
        let policy = move |request: &PolicyRequest<'_>| {
            let subject = request.subject.id.as_str();
            let is_allowed = allows(subject, request.scope.doors);
            asked.lock().push((subject.to_owned(), is_allowed));
            if is_allowed { Decision::Allow } else { Decision::Deny("never".into()) }
        };
        let toolbus = Toolbus::builder()
            .bus(Arc::new(memory.connect()))
            .policy(policy)
            .gate(Change(Arc::clone(&change)))
            .references(ResolveReferences::new(artifacts.clone()))
            .observe(audit.observer())
            .tool(write(&ran))
            .open()
            .await
            .unwrap();
        announce(&bus, &toolbus).await;

        let mut world = Self {
            toolbus,
            references: Vec::new(),
            judged,
            ran,
            change,
            audit,
            log: AuditLog::new(store),
            _bus: bus,
            _bridge: bridge,
            _folder: folder,
        };
        let owner = world.scope(Entry::Embedded);
        for content in CONTENTS {
            let new = NewArtifact::of(&owner, "text/plain", "test", "call");
            let stored = artifacts.store(new, content.as_bytes().to_vec()).await.unwrap();
            world.references.push(stored.reference.to_value());
        }
        world
    }

    /// Makes a call, and compares what ran with what was judged.
    pub(crate) async fn check(&self, spec: &CallSpec) -> Result<(String, Checked), String> {
        self.judged.lock().clear();
        self.ran.lock().clear();
        let arguments = self.arguments(spec.tool, &spec.arguments);
        let arguments = match spec.is_wrapped {
            true => json!({
                "server_name": "github", "tool_name": spec.tool, "arguments": arguments,
            }),
            false => arguments,
        };
        let change = spec.change.as_ref().map(|change| self.arguments(spec.tool, change));
        *self.change.lock() = change;

        let scope = Arc::new(self.scope(spec.entry));
        let call = Call::by_name(&scope, spec.tool, arguments).unwrap();
        let id = call.id.to_string();
        let outcome = self.toolbus.invoke(call.with_time(CallTime::within(LIMIT))).await;
        let ran = std::mem::take(&mut *self.ran.lock());
        let judged = self.judged.lock().clone();

        if let [subject] = &ran[..] {
            match judged.last() {
                Some((last, true)) if last == subject => {}
                other => return Err(format!("{subject} ran, and {other:?} was judged")),
            }
            if !allows(subject, scope.doors) {
                return Err(format!("{subject} ran, which is not allowed"));
            }
        } else if !ran.is_empty() {
            return Err(format!("one call ran {ran:?}"));
        } else if outcome.is_ok() {
            return Err("nothing ran, and the call succeeded".to_owned());
        }

        let parts = spec.arguments.iter().chain(spec.change.iter().flatten());
        let checked = Checked {
            ran: ran.into_iter().next(),
            was_judged: !judged.is_empty(),
            has_reference: parts.into_iter().any(|(_, part)| part.is_reference()),
        };
        Ok((id, checked))
    }

    /// All that the audit log has of so many calls.
    pub(crate) async fn audit_rows(&self, calls: u32) -> Vec<AuditRow> {
        self.audit.close().await;
        assert_eq!(self.audit.dropped(), 0);
        self.log.list(&Query::default(), calls).await.unwrap()
    }

    fn arguments(&self, tool: &str, parts: &[(&'static str, Part)]) -> Value {
        let mut arguments = Map::new();
        for (name, part) in parts {
            let value = match part {
                Part::Text(text) => Value::from(text.as_str()),
                Part::Reference(at) => self.references[*at].clone(),
                Part::Unknown => json!({"$artifact": "art_000000000000000000000000"}),
                Part::Other(value) => value.clone(),
            };
            let name = match (tool, *name) {
                ("mcp_get_prompt", "tool_name") => "prompt_name",
                ("mcp_read_resource", "tool_name") => "resource_uri",
                (_, name) => name,
            };
            arguments.insert(name.to_owned(), value);
        }
        // Its arguments are what the tool that it stands for gets.
        if tool == "mcp_invoke_tool"
            && let Some(text) = arguments.remove("text")
        {
            arguments.insert("arguments".to_owned(), json!({"text": text}));
        }
        Value::Object(arguments)
    }

    fn scope(&self, entry: Entry) -> Scope {
        let door = match entry {
            Entry::CommandLine => Door::CommandLine,
            Entry::Bus | Entry::ChainOfBus => Door::Bus,
            Entry::Mcp | Entry::ChainOfMcp => Door::Mcp,
            Entry::Http => Door::Http,
            Entry::Turn => Door::Turn,
            Entry::Schedule => Door::Schedule,
            Entry::Embedded => Door::Embedded,
        };
        let session = Some(SessionId::parse("session/a").unwrap());
        let scope = Scope::new(door, Principal::claimed("model"), self.toolbus.name().clone());
        let scope = scope.with_session(session);
        match entry {
            Entry::ChainOfMcp => scope.child(Door::Chain, &CallId::random()).unwrap(),
            Entry::ChainOfBus => scope
                .through(DoorSet::of(&[Door::Turn]))
                .child(Door::Chain, &CallId::random())
                .unwrap(),
            _ => scope,
        }
    }
}

/// A tool that takes whatever it is given.
fn write(ran: &Arc<Mutex<Vec<String>>>) -> Offer {
    let ran = Arc::clone(ran);
    let tool = Tool::new("write", "A tool.", "test").with_parameters(json!({"type": "object"}));
    Offer::new(tool, move |call: Invocation| {
        ran.lock().push(call.subject.id.as_str().to_owned());
        std::future::ready(Ok(Output::text("written")))
    })
}

/// Has the agent know two servers.
async fn announce(bus: &Arc<dyn Bus>, toolbus: &Toolbus) {
    let server = |name: &str, tools: &[&str]| McpServerSummary {
        server_name: name.to_owned(),
        tool_count: u32::try_from(tools.len()).unwrap(),
        tool_names: tools.iter().map(|tool| (*tool).to_owned()).collect(),
        prompt_count: Some(1),
        prompt_names: Some(vec!["review".to_owned()]),
        resource_count: Some(1),
        ..McpServerSummary::default()
    };
    let servers =
        vec![server("GitHub", &["create_issue", "delete_repo"]), server("my-notes", &["add"])];
    let indexed = McpServersIndexed { servers, ..McpServersIndexed::default() };
    let envelope = Envelope::of(&indexed, "bridge");
    bus.publish(&topic::tool_meta_mcp(&AgentName::standard()), envelope).await.unwrap();
    for tool in ["mcp_invoke_tool", "mcp_get_prompt", "mcp_read_resource"] {
        assert!(toolbus.agent().wait_for_tool(tool, LIMIT).await, "{tool}");
    }
    let knows_both = |servers: &[McpServerSummary]| servers.len() == 2;
    assert!(toolbus.directory().wait_until(LIMIT, knows_both).await);
}

/// Answers requests for this topic, and notes what they have run.
async fn serve(bus: &Arc<dyn Bus>, topic: &Topic, ran: &Arc<Mutex<Vec<String>>>) -> Consumer {
    let (replies, ran) = (Arc::downgrade(bus), Arc::clone(ran));
    let handle = move |delivery: Delivery| {
        let (replies, ran) = (replies.clone(), Arc::clone(&ran));
        async move {
            let request = delivery.envelope;
            let (subject, reply) = answer(&request);
            ran.lock().extend(subject.map(|subject| subject.as_str().to_owned()));
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

/// The tool that a request runs, by its contents alone, and the answer. Questions about a server are
/// answered as if it were away.
fn answer(request: &Envelope) -> (Option<ToolId>, Envelope) {
    if message::is::<ToolInvokeRequest>(request) {
        let server = request.headers.get(header::MCP_SERVER).unwrap();
        let asked: ToolInvokeRequest = json::read(&request.body).unwrap();
        let subject = subject_of(None, server, &asked.tool_name);
        assert!(subject.id.as_str().starts_with(&provider_of(server)));
        let CallIds { tool_call_id, tool_name } = CallIds::from(&asked);
        let content = Some("ran".to_owned());
        let reply = ToolInvokeResponse {
            tool_call_id,
            tool_name,
            content,
            ..ToolInvokeResponse::default()
        };
        return (Some(subject.id), Envelope::of(&reply, "bridge"));
    }
    if message::is::<McpGetPromptRequest>(request) {
        let asked: McpGetPromptRequest = json::read(&request.body).unwrap();
        let reply = Envelope::of(&McpGetPromptResponse::default(), "bridge");
        return (Some(read_subject(&asked.server_name, "prompts/get").id), reply);
    }
    if message::is::<McpReadResourceRequest>(request) {
        let asked: McpReadResourceRequest = json::read(&request.body).unwrap();
        let reply = Envelope::of(&McpReadResourceResponse::default(), "bridge");
        return (Some(read_subject(&asked.server_name, "resources/read").id), reply);
    }
    let error = Some("the server is away".to_owned());
    let away = McpGetServiceDetailsResponse { error, ..McpGetServiceDetailsResponse::default() };
    (None, Envelope::of(&away, "bridge"))
}
