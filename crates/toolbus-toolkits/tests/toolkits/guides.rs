//! Every example of the guides can be called, and every tool is in its guide.

use serde_json::Value;
use toolbus_sandbox::settings::ScriptsSettings;
use toolbus_toolkits::files;
use toolbus_toolkits::shell::{self, BashSettings, Isolation, Shell};
use toolbus_tools::Guide;

use crate::support::Bench;

/// The calls that a page shows: lines with the name of a tool, a blank and an object.
fn examples(page: &str) -> Vec<(String, Value)> {
    let calls = page.lines().filter_map(|line| line.split_once(" {"));
    let calls = calls.filter(|(tool, _)| tool.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    calls
        .map(|(tool, rest)| {
            let arguments = serde_json::from_str(&format!("{{{rest}"));
            (tool.to_owned(), arguments.unwrap_or_else(|error| panic!("{tool}: {error}")))
        })
        .collect()
}

async fn check(bench: &Bench, guide: &Guide, count: usize) {
    assert!(guide.document.len() < 2_500, "{} is long", guide.name);
    assert!(!guide.document.contains("{place}") && !guide.document.contains("{timeout}"));
    let examples = examples(&guide.document);
    assert_eq!(examples.len(), count);
    for (tool, arguments) in examples {
        bench.say(&tool, arguments).await;
    }
}

#[tokio::test]
async fn examples_can_be_called() {
    let Some(bench) = Bench::shell().await else { return };
    bench.put("work/src/main.rs", "fn main() {\n    println!(\"old\");\n}\n");
    check(&bench, &files::guide(), 6).await;
    assert_eq!(bench.content("work/notes/today.md"), "# Today\nOne more line\n");
    assert!(bench.content("work/src/main.rs").contains("\"new\""));

    let isolation = Isolation::None;
    let settings = BashSettings { isolation, ..BashSettings::default() };
    let bare = Shell::start(&settings, &ScriptsSettings::default(), &bench.path("work")).await;
    let guide = shell::guide(&bare.expect("there is nothing to probe"));
    assert!(guide.document.contains("No sandbox") && guide.document.contains("30 s is killed"));
    check(&bench, &guide, 3).await;
}

#[tokio::test]
async fn every_tool_is_in_its_guide() {
    let Some(bench) = Bench::shell().await else { return };
    let settings = BashSettings::default();
    let shell = Shell::start(&settings, &ScriptsSettings::default(), &bench.path("work")).await;
    let guides = [files::guide(), shell::guide(&shell.expect("it works"))];
    let snapshot = bench.invoker.registry().snapshot();
    assert_eq!(snapshot.tools().len(), 7);
    for entry in snapshot.tools() {
        let guide =
            guides.iter().find(|guide| Some(guide.name.as_str()) == entry.tool.group.as_deref());
        assert!(guide.expect("a guide").document.contains(&entry.tool.name), "{}", entry.tool.name);
    }
}
