//! Calls of jobs that one host of the HTTP API queues and another host runs.

use std::sync::Arc;

use axum::Extension;
use serde_json::json;
use tokio::net::TcpListener;
use toolbus_discovery::{Discovery, DiscoveryDeps};
use toolbus_http::ApiSettings;
use toolbus_http::tool_api::{JobConfig, Plan, ToolApi, ToolApiConfig, ToolApiDeps};
use toolbus_policy::LivePolicy;
use toolbus_search::ToolIndex;
use toolbus_store::sqlx;
use toolbus_testkit::eventually;
use toolbus_tools::scope::DoorSet;
use toolbus_tools::{Door, Registry, View};

use super::begin::draw_calls;
use super::chains::NamedCall;
use super::draws::Draws;
use super::ledger;
use super::rows::compare_with_rows;
use super::rules::rules;
use super::world::{LIMIT, World};

/// Number of generated calls.
const CALLS: usize = 80;
/// Number of jobs that a host runs at a time.
const RUNNING_MAX: usize = 4;
const TOKEN: &str = "the token of a client";

/// Opens a host of the API that runs this many jobs at a time.
fn open_api(world: &World, registry: &Arc<Registry>, running_max: usize) -> ToolApi {
    let policy = LivePolicy::new(rules());
    let discovery = Discovery::start(DiscoveryDeps {
        registry: Arc::clone(registry),
        policy: Arc::new(policy.clone()),
        index: ToolIndex::new(),
        store: None,
        splitter: None,
    });
    let plan = Plan { per_minute: 1_000_000, per_month: 1_000_000 };
    let config = ToolApiConfig {
        plans: [("all".to_owned(), plan)].into(),
        default_plan: "all".to_owned(),
        token_plan: "all".to_owned(),
        jobs: JobConfig { running_max, open_max: 1_000, ..JobConfig::default() },
        ..ToolApiConfig::default()
    };

    let tokens = vec![("model".to_owned(), TOKEN.to_owned())];
    let settings = ApiSettings { tokens, ..ApiSettings::default() };
    let deps = ToolApiDeps {
        name: world.toolbus.name().clone(),
        invoker: world.toolbus.invoker().clone(),
        policy,
        discovery,
        store: world.parts.store.clone(),
        view: View::all(),
        webhooks: None,
        vault: None,
    };
    ToolApi::start(settings, config, deps)
}

/// Queues these calls at a host.
async fn queue(api: &ToolApi, calls: &[NamedCall]) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // As the HTTP server of an agent passes it.
    let router = api.router().layer(Extension(address));
    let client = toolbus_testkit::http_client_builder().build().unwrap();
    let queuing = async {
        for (tool, arguments) in calls {
            let body = json!({"tool_name": tool, "params": arguments});
            let request = client.post(format!("http://{address}/v1/jobs")).bearer_auth(TOKEN);
            let response = request.json(&body).send().await.unwrap();
            assert_eq!(response.status().as_u16(), 202, "{tool} {arguments}");
        }
    };

    tokio::select! {
        () = queuing => {}
        ended = async { axum::serve(listener, router).await } => panic!("{ended:?}"),
    }
}

/// Returns the number of jobs that have not ended.
async fn count_open(world: &World) -> i64 {
    let count = "SELECT COUNT(*) FROM http_jobs WHERE ended_ms IS NULL";
    let store = world.parts.store.open().await.unwrap();
    sqlx::query_scalar(count).fetch_one(store.readers()).await.unwrap()
}

#[tokio::test]
async fn calls_of_jobs_that_another_host_runs_run_as_they_were_judged() {
    let mut draws = Draws::new();
    let mut opened = None;
    let world = World::open_with(|builder, _| {
        opened = Some(Arc::clone(builder.registry()));
        builder
    });
    let world = world.await;
    let registry = opened.unwrap();
    let calls = draw_calls(&mut draws, CALLS);
    let named = calls.iter().map(|call| {
        let arguments = call.arguments(&world.references);
        (call.tool.to_owned(), arguments)
    });
    let named: Vec<NamedCall> = named.collect();

    let queuing = open_api(&world, &registry, 0);
    queue(&queuing, &named).await;
    queuing.drain(LIMIT).await;
    assert!(world.parts.ledger.take().is_empty(), "it has run nothing");
    let running = open_api(&world, &registry, RUNNING_MAX);
    eventually(LIMIT, async || match count_open(&world).await {
        0 => Ok(()),
        open => Err(format!("{open} jobs have not ended")),
    })
    .await;
    running.drain(LIMIT).await;

    let doors = DoorSet::of(&[Door::Http]);
    let checked = ledger::check(&world.parts.ledger.take(), doors);
    let checked = checked.unwrap_or_else(|what| panic!("{what}\n{calls:#?}"));
    assert_eq!(checked.len(), named.len(), "each job is a call");
    assert!(checked.iter().all(|call| call.owner == "token:http/model"), "{checked:#?}");
    ledger::check_probes(&checked, doors, |_| true);
    compare_with_rows(&checked, &world.audit_rows().await);
}
