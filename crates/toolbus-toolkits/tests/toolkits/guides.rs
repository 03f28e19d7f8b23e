//! Every example of the guides can be called, and every tool is in its guide.

use serde_json::{Value, json};
use toolbus_sandbox::settings::ScriptsSettings;
use toolbus_testkit::scripted_server::{Asked, Reply};
use toolbus_toolkits::rest::{self, Rest, RestDeps, RestEndpoint, RestSettings};
use toolbus_toolkits::shell::{self, BashSettings, Isolation, Shell};
use toolbus_toolkits::web::WebSettings;
use toolbus_toolkits::{anthropic_usage, files, linkedin, web};
use toolbus_tools::Guide;

use crate::support::Bench;
use crate::web::{WebBench, html};

/// The calls that a page shows: lines with the name of a tool, a blank and an object.
pub(crate) fn examples(page: &str) -> Vec<(String, Value)> {
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

#[tokio::test]
async fn examples_of_the_web_can_be_called() {
    let answer = |asked: &Asked| match asked.path.starts_with("/res/") {
        true => Reply::json(200, &json!({})),
        false => html("<title>T</title><p>x"),
    };
    let at = |settings: &mut WebSettings, base: &str| {
        settings.search_url = Some(base.parse().expect("a URL"));
    };
    let bench = WebBench::start(answer, at).await;
    let guide = web::guide();
    assert!(guide.document.len() < 2_500);
    let examples = examples(&guide.document);
    assert_eq!(examples.len(), 3);
    for (tool, mut arguments) in examples {
        if let Some(url) = arguments.get_mut("url") {
            *url = bench.base.clone().into();
        }
        bench.say(&tool, arguments).await;
    }
    for tool in ["web_search", "web_browse", "web_fetch"] {
        assert!(guide.document.contains(tool), "{tool}");
    }
}

#[test]
fn other_guides_show_calls_of_their_tools() {
    for (guide, tools) in [
        (linkedin::guide(), &["linkedin_jobs", "linkedin_job_detail"][..]),
        (anthropic_usage::guide(), &["anthropic_usage"]),
    ] {
        let examples = examples(&guide.document);
        for tool in tools {
            assert!(examples.iter().any(|(called, _)| called == tool), "{tool}");
        }
        assert!(examples.iter().all(|(called, _)| tools.contains(&called.as_str())));
    }
}

#[test]
fn the_guide_to_endpoints_names_them_and_shows_calls() {
    let endpoint = |name: &str, schema: Value| RestEndpoint {
        name: name.to_owned(),
        description: "Get current weather\nfor a city".to_owned(),
        url_template: "https://api.weather.example/v1{?city}".into(),
        parameters_schema: Some(schema.to_string()),
        ..RestEndpoint::default()
    };
    let string = json!({"type": "string"});
    let endpoints = vec![
        endpoint("get_weather", json!({"type": "object", "properties": {"city": string}})),
        endpoint(
            "get_days",
            json!({
                "type": "object", "required": ["days", "unit", "body"],
                "properties": {
                    "city": string, "days": {"type": "integer", "minimum": 3}, "unit": {"enum": ["C", "F"]},
                    "body": {"type": "object", "required": ["a"], "properties": {
                        "a": {"type": "array", "items": {"type": ["boolean", "null"]}}, "b": string
                    }}
                }
            }),
        ),
        // Nothing can be made up for it.
        endpoint(
            "get_code",
            json!({
                "type": "object", "required": ["code"],
                "properties": {"code": {"type": "string", "pattern": "^[0-9]{9}$"}}
            }),
        ),
    ];
    let settings = RestSettings { endpoints, ..RestSettings::default() };
    let guide = rest::guide(&Rest::new(&settings, RestDeps::default()).expect("it can be used"));
    assert!(guide.document.contains("- `get_weather`: Get current weather for a city"));
    assert!(!guide.document.contains("{endpoints}") && !guide.document.contains("{examples}"));
    assert_eq!(
        examples(&guide.document),
        [
            ("get_weather".to_owned(), json!({"city": "text"})),
            ("get_days".to_owned(), json!({"days": 3, "unit": "C", "body": {"a": [true]}})),
        ]
    );
}
