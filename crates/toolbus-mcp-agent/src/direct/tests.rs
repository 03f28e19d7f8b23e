//! Names that tools get, and keep.

use toolbus_bus::requester::Requester;
use toolbus_bus::{Bus, MemoryBus};
use toolbus_wire::name::{AgentName, InstanceId};

use super::*;

/// The one tool is called what is made of the name of the other.
#[tokio::test]
async fn a_tool_keeps_its_name_beside_one_that_would_get_the_same() {
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let instance = InstanceId::random();
    let requester = Requester::start(bus, AgentName::standard(), &instance).await.unwrap();
    let (registry, index) = (Arc::new(Registry::new()), Arc::new(Index::default()));
    let gateway = InvokeTool { requester, index: Arc::clone(&index) };
    let direct = DirectTools::new(gateway, Arc::clone(&registry), index);
    let server = ServerName::parse("todo").unwrap();
    let provider = registry.provider(provider_of("todo"));
    let mut offered = OfferedServer { provider, announced: NEVER, names: HashMap::new() };

    let (known, new) = ("______7fce107e01", "поиск");
    assert_eq!(direct_name(&server, known), direct_name(&server, new));
    let details_of = |tools: &[&str]| {
        let details = |tool: &&str| {
            let name = (*tool).to_owned();
            McpToolDetails { name, ..McpToolDetails::default() }
        };
        tools.iter().map(details).collect::<Vec<_>>()
    };
    assert_eq!(direct.publish(&server, details_of(&[known]), TOOLS_MAX, &mut offered), 0);
    assert_eq!(direct.publish(&server, details_of(&[new, known]), TOOLS_MAX, &mut offered), 0);

    let names = [known, new].map(|tool| offered.names[tool].clone());
    assert_eq!(names, [direct_name(&server, known), marked_name(&server, new, 1)]);
    assert!(names.iter().all(|name| registry.find(name).is_some()));
    assert_eq!(registry.snapshot().tools().len(), 2);
}
