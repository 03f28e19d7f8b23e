//! Names of tools and of their servers.

use toolbus_discovery::DiscoveryDeps;
use toolbus_policy::{PolicySettings, RuleBook};
use toolbus_search::ToolIndex;
use toolbus_tools::call::{Invocation, Output};
use toolbus_tools::id::ToolId;
use toolbus_tools::registry::Offer;
use toolbus_tools::{Door, Principal, Tool};
use toolbus_wire::name::AgentName;

use super::*;

/// A server's name has no `/`, and a tool's may.
#[tokio::test]
async fn a_tool_with_a_slash_in_its_name_is_of_its_server() {
    let registry = Arc::new(Registry::new());
    let provider = registry.provider("mcp:files".to_owned());
    let id = ToolId::parse("mcp:files/read/all").expect("an id");
    let run = |_: Invocation| std::future::ready(Ok(Output::text("read")));
    let offer = Offer::new(Tool::new("files__read_all", "Reads all.", "mcp:files"), run);
    assert!(provider.publish(vec![offer.with_identity(id, None)]).is_empty());

    let book = RuleBook::new(&PolicySettings::default()).expect("no rules");
    let policy = LivePolicy::new(book);
    let discovery = Discovery::start(DiscoveryDeps {
        registry: Arc::clone(&registry),
        policy: Arc::new(policy.clone()),
        index: ToolIndex::new(),
        store: None,
        splitter: None,
    });
    let catalogue = Catalogue { registry, policy, discovery };
    let scope = Scope::new(Door::Http, Principal::local(), AgentName::standard());

    let servers = catalogue.servers(&scope);
    assert_eq!(servers.iter().map(|server| &*server.name).collect::<Vec<_>>(), ["files"]);
    let found = catalogue.find_for_call(&scope, "files/read/all");
    assert!(matches!(found, Named::Tool(entry) if entry.tool.name == "files__read_all"));
    assert!(matches!(catalogue.find_for_call(&scope, "other/read"), Named::NoServer(_)));
}
