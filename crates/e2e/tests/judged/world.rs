//! An agent with rules, artifacts and an audit log, before a stub of a bridge.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus::tools::registry::Offer;
use toolbus::{Toolbus, ToolbusBuilder};
use toolbus_artifacts::{ArtifactConfig, Artifacts, NewArtifact, Place, ResolveReferences};
use toolbus_audit::{Audit, AuditConfig, AuditLog, AuditRow, Query};
use toolbus_bus::{Bus, Consumer, MemoryBus};
use toolbus_store::{LazyStore, Location};
use toolbus_tools::call::{Call, CallTime, Invocation, Output};
use toolbus_tools::gate::{Gate, Passage, Verdict};
use toolbus_tools::id::{CallId, SessionId};
use toolbus_tools::policy::PolicyRequest;
use toolbus_tools::scope::{DoorSet, Proof};
use toolbus_tools::{Door, Principal, Scope, Tool};
use toolbus_wire::topic;

use super::bridge::{announce, serve};
use super::calls::{CONTENTS, CallSpec, Entry, write_arguments};
use super::ledger::{self, CheckedCall, Happened, Ledger, Ran};
use super::rules::rules;

/// Limit for anything that has to come.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// The doors by which work comes in that makes calls of its own, the last one last.
pub(crate) const LINEAGES: [&[Door]; 6] = [
    &[Door::Mcp],
    &[Door::Bus, Door::Turn],
    &[Door::Embedded],
    &[Door::CommandLine],
    &[Door::Http],
    &[Door::Mcp, Door::Schedule],
];

/// The tools whose arguments name the tool that a call is about. The last gates make the names
/// exact that an approver has put there.
const NAMING: [&str; 4] =
    ["mcp_invoke_tool", "mcp_get_prompt", "mcp_read_resource", "mcp_list_resources"];

pub(crate) struct World {
    pub(crate) toolbus: Toolbus,
    pub(crate) parts: Parts,
    /// References to [`CONTENTS`] in the session of the world.
    pub(crate) references: Vec<Value>,
    change: Arc<Mutex<Option<Value>>>,
    audit: Audit,
    log: AuditLog,
    _bus: Arc<dyn Bus>,
    _bridge: [Consumer; 2],
    _folder: TempDir,
}

/// What the parts of the agent work with.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) store: LazyStore,
    pub(crate) artifacts: Artifacts,
    pub(crate) bus: MemoryBus,
    pub(crate) ledger: Ledger,
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

impl Parts {
    fn at(folder: &Path) -> Self {
        let location = Location::Sqlite(folder.join("state.db"));
        let migrations = [
            toolbus_a2a::MIGRATIONS,
            toolbus_agent::MIGRATIONS,
            toolbus_artifacts::MIGRATIONS,
            toolbus_audit::MIGRATIONS,
            toolbus_http::tool_api::MIGRATIONS,
            toolbus_memory::MIGRATIONS,
            toolbus_schedule::MIGRATIONS,
            toolbus_subagents::MIGRATIONS,
        ];
        let store = LazyStore::new(location, &migrations);
        let place = Place::folder(&folder.join("artifacts"));
        let artifacts = Artifacts::new(store.clone(), place, ArtifactConfig::default());
        Self { store, artifacts, bus: MemoryBus::new(), ledger: Ledger::default() }
    }
}

impl World {
    pub(crate) async fn open() -> Self {
        Self::open_with(|builder, _| builder).await
    }

    /// The same with more parts.
    pub(crate) async fn open_with(
        add_parts: impl FnOnce(ToolbusBuilder, &Parts) -> ToolbusBuilder,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let parts = Parts::at(folder.path());
        let ledger = &parts.ledger;
        let bus: Arc<dyn Bus> = Arc::new(parts.bus.connect());
        let bridge = [
            serve(&bus, &topic::MCP_MANAGE, ledger).await,
            serve(&bus, &topic::TOOL_INVOKE_MCP, ledger).await,
        ];

        let audit = Audit::start(parts.store.clone(), AuditConfig::default());
        let change = Arc::<Mutex<Option<Value>>>::default();
        let (rules, judged) = (rules(), ledger.clone());
        let policy = move |request: &PolicyRequest<'_>| {
            let decision = rules.decide(request);
            judged.add_decision(request, &decision);
            decision
        };
        let builder = Toolbus::builder()
            .bus(Arc::new(parts.bus.connect()))
            .policy(policy)
            .gate(Change(Arc::clone(&change)))
            .gate(ledger.clone())
            .references(ResolveReferences::new(parts.artifacts.clone()))
            .observe(audit.observer())
            .observe(Arc::new(ledger.clone()))
            .tool(noting(Tool::new("write", "A tool.", "test"), ledger))
            .tool(noting(Tool::new("web_search", "A tool.", "web").read_only(), ledger))
            .tool(noting(Tool::new("web_browse", "A tool.", "web").read_only(), ledger));
        let toolbus = add_parts(builder, &parts).open().await.unwrap();
        announce(&bus, &toolbus).await;
        let directory = toolbus.directory();
        assert!(directory.wait_until(LIMIT, |_| directory.is_settled()).await);
        parts.ledger.open();

        let log = AuditLog::new(parts.store.clone());
        let mut world = Self {
            toolbus,
            parts,
            references: Vec::new(),
            change,
            audit,
            log,
            _bus: bus,
            _bridge: bridge,
            _folder: folder,
        };
        world.references =
            store_contents(&world.parts.artifacts, &world.scope(&[Door::Embedded])).await;
        world
    }

    /// Makes a call, and checks that what ran is what was judged.
    pub(crate) async fn check(&self, spec: &CallSpec) -> Result<CheckedCall, String> {
        let CallSpec { entry, call, change } = spec;
        let scope = Arc::new(self.scope_of(*entry));
        let change = change.as_ref();
        *self.change.lock() =
            change.map(|change| write_arguments(call.tool, change, &self.references));
        let made = Call::by_name(&scope, call.tool, call.arguments(&self.references)).unwrap();
        // What came of it is in the ledger.
        let _outcome = self.toolbus.invoke(made.with_time(CallTime::within(LIMIT))).await;

        let mut checked = ledger::check(&self.parts.ledger.take(), scope.doors)?;
        let (Some(mut only), true) = (checked.pop(), checked.is_empty()) else {
            return Err("one call made others".to_owned());
        };
        if change.is_some() && NAMING.contains(&call.tool) {
            only.arguments = None;
        }
        Ok(only)
    }

    /// All that the audit log has.
    pub(crate) async fn audit_rows(&self) -> Vec<AuditRow> {
        self.audit.close().await;
        assert_eq!(self.audit.dropped(), 0);
        self.log.list(&Query::default(), u32::MAX).await.unwrap()
    }

    /// A scope in the session of the world that came in by these doors, by the last one last.
    pub(crate) fn scope(&self, doors: &[Door]) -> Scope {
        let door = *doors.last().unwrap();
        let session = Some(SessionId::parse("session/a").unwrap());
        let proof = Proof::Token { issuer: "toolbus-keys".into(), id: Some("key_1".into()) };
        let principal = Principal { name: "model".into(), proof };
        let scope = Scope::new(door, principal, self.toolbus.name().clone());
        scope.with_earlier_doors(DoorSet::of(doors)).with_session(session)
    }

    fn scope_of(&self, entry: Entry) -> Scope {
        let doors: &[Door] = match entry {
            Entry::CommandLine => &[Door::CommandLine],
            Entry::Bus => &[Door::Bus],
            Entry::Mcp | Entry::ChainOfMcp => &[Door::Mcp],
            Entry::Http => &[Door::Http],
            Entry::Turn => &[Door::Turn],
            Entry::Schedule => &[Door::Schedule],
            Entry::Embedded => &[Door::Embedded],
            Entry::ChainOfBus => &[Door::Bus, Door::Turn],
        };

        let scope = self.scope(doors);
        match entry {
            Entry::ChainOfMcp | Entry::ChainOfBus => {
                scope.child(Door::Chain, &CallId::random()).unwrap()
            }
            _ => scope,
        }
    }
}

/// Stores [`CONTENTS`] among the artifacts of a scope, and gives the references.
pub(crate) async fn store_contents(artifacts: &Artifacts, scope: &Scope) -> Vec<Value> {
    let mut references = Vec::new();
    for content in CONTENTS {
        let new = NewArtifact::of(scope, "text/plain", "test", "call");
        let stored = artifacts.store(new, content.as_bytes().to_vec()).await.unwrap();
        references.push(stored.reference.to_value());
    }
    references
}

/// A tool that takes whatever it is given, and notes it.
fn noting(tool: Tool, ledger: &Ledger) -> Offer {
    let ledger = ledger.clone();
    let tool = tool.with_parameters(json!({"type": "object"}));
    Offer::new(tool, move |call: Invocation| {
        let subject = call.subject.id.as_str().to_owned();
        let asked = Value::Object(call.arguments);
        ledger.add(Happened::Ran(Ran { subject, asked }));
        std::future::ready(Ok(Output::text("done")))
    })
}
