//! Every example of every guide can be called.

use serde_json::Value;
use toolbus_memory::MemoryConfig;

use crate::support::{Bench, call, scope};

/// The calls that a page shows: the name of a tool, a blank and an object.
fn examples(page: &str) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (at, _) in page.match_indices(" {") {
        let words = page[..at].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let tool = words.take(1).collect::<String>();
        let mut values = serde_json::Deserializer::from_str(&page[at + 1..]).into_iter();
        if let Some(Ok(arguments)) = values.next().filter(|_| !tool.is_empty()) {
            found.push((tool, arguments));
        }
    }
    found
}

#[tokio::test]
async fn examples_of_the_guides_can_be_called() {
    let bench = Bench::sqlite(MemoryConfig::default());
    let mut called = 0;
    for guide in toolbus_memory::guides() {
        assert!(guide.document.len() < 2_500, "{} is long", guide.name);
        for (tool, arguments) in examples(&guide.document) {
            let outcome = call(&bench.invoker, &scope("session/s1"), &tool, arguments).await;
            outcome.unwrap_or_else(|error| panic!("{tool}: {error}"));
            called += 1;
        }
    }
    assert_eq!(called, 17);
}

#[tokio::test]
async fn every_tool_has_a_guide() {
    let bench = Bench::sqlite(MemoryConfig::default());
    let guides = toolbus_memory::guides();
    let tools = bench.invoker.registry().snapshot();
    let ours = tools.tools().iter().filter(|entry| entry.tool.source != "test");
    assert_eq!(ours.clone().count(), 17);
    for entry in ours {
        let group = entry.tool.group.as_deref().unwrap();
        let guide = guides.iter().find(|guide| guide.name == group).unwrap();
        assert!(guide.document.contains(&entry.tool.name), "{}", entry.tool.name);
    }
}
