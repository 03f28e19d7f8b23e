//! What `/v1/retrieve_tools` costs beside the search that it does: HTTP on a kept connection, the
//! count of requests, permissions, and ranking by all that is known of tools.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::bench::{Goal, Latencies, Report, Rounds, Row};
use serde_json::{Value, json};
use toolbus_discovery::{Discovery, DiscoveryDeps};
use toolbus_http::ApiSettings;
use toolbus_http::tool_api::{MIGRATIONS, Plan, ToolApi, ToolApiConfig, ToolApiDeps};
use toolbus_policy::{LivePolicy, RuleBook};
use toolbus_runtime::http;
use toolbus_search::{Embed, EmbeddingConfig, ToolIndex};
use toolbus_store::{LazyStore, Location};
use toolbus_tools::call::{Invocation, Output};
use toolbus_tools::registry::{Offer, Provider};
use toolbus_tools::{Invoker, Registry, Tool, View};
use toolbus_wire::name::AgentName;

use super::catalogue;

const TOOLS: usize = 2_000;
const ROUNDS: usize = 5;
const REQUESTS_A_ROUND: usize = 200;
const RESULTS: usize = 50;
const TOKEN: &str = "the token of the bench";
const CONNECTIONS_MAX: usize = 4;
const GRACE: Duration = Duration::from_secs(5);
const WORDS: [&str; 8] =
    ["invoice", "branch", "channel", "ticket", "report", "calendar", "payment", "container"];

/// What answers, and the index that it searches.
struct Served {
    index: ToolIndex,
    api: ToolApi,
    discovery: Discovery,
    server: http::Server,
    _provider: Provider,
    _folder: tempfile::TempDir,
}

pub(super) async fn measure(report: &mut Report, model: &Arc<dyn Embed>) -> anyhow::Result<()> {
    let served = serve(model).await?;
    let url = format!("http://{}/v1/retrieve_tools", served.server.address());
    // reqwest panics without a process-wide provider. Another's stays if there is one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = toolbus_testkit::http_client_builder().pool_max_idle_per_host(1).build()?;

    let (mut over_http, mut bare) = (Rounds::new(), Rounds::new());
    for round in 0..=ROUNDS {
        let (mut answered, mut found) = (Latencies::default(), Latencies::default());
        for at in 0..REQUESTS_A_ROUND {
            // Each query is another, so that no answer is one that was kept.
            let query = format!("update the {} {round} {at}", WORDS[at % WORDS.len()]);
            answered.add(ask(&client, &url, &query).await?);
            let began = Instant::now();
            let hits = served.index.search(&query, RESULTS, &|_| true).await;
            found.add(began.elapsed());
            ensure!(hits.found.len() == RESULTS && !hits.by_words_alone, "found {hits:?}");
        }
        // The first round warms up.
        if round > 0 {
            over_http.add_latencies(answered, Duration::from_millis(1));
            bare.add_latencies(found, Duration::from_millis(1));
        }
    }

    let row = Row::new("/v1/retrieve_tools over HTTP, 2,000 tools", "ms", over_http).beside(bare);
    report.add(row.with_goal(Goal::ExcessAtMost(1.0)));
    report.note("The peer of /v1/retrieve_tools is the search of the index that it does itself.");
    served.close().await;
    Ok(())
}

/// Asks over HTTP, and says how long the whole answer took.
async fn ask(client: &reqwest::Client, url: &str, query: &str) -> anyhow::Result<Duration> {
    let body = json!({"query": query, "top_k": 10}).to_string();
    let began = Instant::now();
    let request = client.post(url).bearer_auth(TOKEN).header("content-type", "application/json");
    let answer = request.body(body).send().await?;
    let status = answer.status();
    let bytes = answer.bytes().await?;
    let took = began.elapsed();

    let answer: Value = serde_json::from_slice(&bytes)?;
    let tools = answer["data"]["tools"].as_array().map_or(0, Vec::len);
    ensure!(status.is_success() && tools > 0, "answered {status}: {answer}");
    ensure!(answer["data"]["keyword_only"] == false, "searched by words alone");
    Ok(took)
}

async fn serve(model: &Arc<dyn Embed>) -> anyhow::Result<Served> {
    let folder = tempfile::tempdir()?;
    let store = LazyStore::new(Location::Sqlite(folder.path().join("state.db")), &[MIGRATIONS]);
    let registry = Arc::new(Registry::new());
    let provider = registry.provider("bench");
    let refused = provider.publish((0..TOOLS).map(offer).collect());
    ensure!(refused.is_empty(), "not published: {refused:?}");

    let policy = LivePolicy::new(RuleBook::new(&serde_json::from_value(json!({"rules": []}))?)?);
    let invoker = Invoker::builder(Arc::clone(&registry)).policy(policy.clone()).build();
    let (index, embedding) = ToolIndex::with_model(Arc::clone(model), EmbeddingConfig::default());
    let discovery = Discovery::start(DiscoveryDeps {
        registry,
        policy: Arc::new(policy.clone()),
        index: index.clone(),
        store: None,
        splitter: None,
    });
    ensure!(discovery.state().discoverable == TOOLS, "{:?}", discovery.state());
    catalogue::wait_for_vectors(&index, embedding).await?;

    let plan = Plan { per_minute: 1_000_000, per_month: 1_000_000_000 };
    let config = ToolApiConfig {
        plans: [("bench".to_owned(), plan)].into(),
        default_plan: "bench".to_owned(),
        token_plan: "bench".to_owned(),
        ..ToolApiConfig::default()
    };
    let tokens = vec![("bench".to_owned(), TOKEN.to_owned())];
    let deps = ToolApiDeps {
        name: AgentName::standard(),
        invoker,
        policy,
        discovery: discovery.clone(),
        store,
        view: View::all(),
        webhooks: None,
        vault: None,
    };
    let api = ToolApi::start(ApiSettings { tokens, ..ApiSettings::default() }, config, deps);
    let limits = http::Limits { connections_max: CONNECTIONS_MAX, lifetime: None };
    let address = serde_json::from_value(json!("127.0.0.1:0")).context("an address")?;
    let server = http::serve(&address, api.router(), limits).await?;
    Ok(Served { index, api, discovery, server, _provider: provider, _folder: folder })
}

fn offer(number: usize) -> Offer {
    let document = catalogue::synthetic(number);
    let source = format!("mcp:{}", document.server);
    let thing = json!({"type": "string", "description": "Which one."});
    let mut tool = Tool::new(document.name, document.description, source).with_parameters(json!({
        "type": "object",
        "properties": {"id": thing},
        "required": ["id"],
    }));
    tool.tags = document.tags;
    let offer = Offer::new(tool, |_: Invocation| std::future::ready(Ok(Output::text("done"))));
    offer.with_identity(document.id, None)
}

impl Served {
    async fn close(self) {
        self.api.drain(GRACE).await;
        self.server.drain(GRACE).await;
        self.discovery.close().await;
    }
}
