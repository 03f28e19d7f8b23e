//! What a turn is told beside what the user says.

use std::future::{pending, ready};

use futures_util::future::BoxFuture;
use toolbus_search::{Service, ServiceKind};
use toolbus_tools::call::Output;
use toolbus_tools::registry::{Offer, Registry, ToolEntry};
use toolbus_tools::{Door, Principal, Tool};
use toolbus_wire::name::AgentName;

use super::*;

/// Finds these tools, or never ends.
struct Found(Option<Vec<Arc<ToolEntry>>>);

impl FindTools for Found {
    fn find<'a>(&'a self, _: &'a Scope, _: &'a str) -> BoxFuture<'a, Vec<Arc<ToolEntry>>> {
        match &self.0 {
            Some(tools) => Box::pin(ready(tools.clone())),
            None => Box::pin(pending()),
        }
    }
}

fn finder(tools: &[(&str, String)]) -> Arc<dyn FindTools> {
    let registry = Arc::new(Registry::new());
    let provider = registry.provider("test");
    let offer = |(name, description): &(&str, String)| {
        let tool = Tool::new(*name, description.clone(), "test");
        Offer::new(tool, |_| ready(Ok(Output::default())))
    };
    assert!(provider.publish(tools.iter().map(offer).collect()).is_empty());
    Arc::new(Found(Some(registry.snapshot().tools().to_vec())))
}

async fn hint(finder: Option<Arc<dyn FindTools>>, services: Vec<Service>) -> Option<String> {
    let services = KnownServices::new(services);
    let context = ContextBuilder::new("x").with_services(services).with_tool_finder(finder);
    let scope = Scope::new(Door::Turn, Principal::local(), AgentName::standard());
    context.hint(&scope, "what is the weather").await.map(ForeignText::into_string)
}

#[tokio::test]
async fn tools_that_fit_stand_behind_the_services() {
    let weather = || {
        let summary = Some("Weather of the world".to_owned());
        Service { summary, ..Service::new(ServiceKind::McpServer, "sky") }
    };
    let tools =
        [("forecast", "Tells the\n\u{1b}[31m weather.".to_owned()), ("plain", String::new())];
    let found = hint(Some(finder(&tools)), vec![weather()]).await.expect("a hint");
    let services = hint(None, vec![weather()]).await.expect("a hint");
    let expected = format!("{services}\n\n{TOOLS_HINT}\n- forecast: Tells the weather.\n- plain");
    assert_eq!(found, expected);
    assert_eq!(hint(Some(finder(&[])), Vec::new()).await, None);
    assert_eq!(hint(None, Vec::new()).await, None);
}

#[tokio::test]
async fn a_hint_is_bounded() {
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let tools = names.map(|name| (name, "\u{20ac}".repeat(10_000)));
    let found = hint(Some(finder(&tools)), Vec::new()).await.expect("a hint");
    assert!(found.len() <= TOOLS_HINT.len() + HINT_TOOLS_BYTES_MAX, "{}", found.len());
    assert!((2..=1 + HINT_TOOLS_MAX).contains(&found.lines().count()), "{found}");
    let short = names.map(|name| (name, "short".to_owned()));
    let found = hint(Some(finder(&short)), Vec::new()).await.expect("a hint");
    assert_eq!(found.lines().count(), 1 + HINT_TOOLS_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_search_that_does_not_end_holds_no_turn_up() {
    assert_eq!(hint(Some(Arc::new(Found(None))), Vec::new()).await, None);
}
