//! The chart's memory limits are no smaller than what the bounds of each service add up to, and the
//! operator's page says what that is.

use std::fmt::Write as _;
use std::num::NonZeroU16;
use std::path::Path;

use toolbus_bus::limits::{requester_bytes_max, responder_bytes_max, responder_parts};
use toolbus_bus::responder::LARGE_REQUESTS_BYTES;

const MIB: usize = 1 << 20;
/// For everything that has no bound in bytes of its own: code, threads, the lists of tools, and the
/// values of the calls that run. A service that does nothing takes 10 to 30 MiB.
const PROCESS: usize = 128 * MIB;
/// The same for a service that has nothing but calls.
const SMALL_PROCESS: usize = 64 * MIB;

/// A service, the name of its values, and what it holds at most.
struct Service {
    name: &'static str,
    values: &'static str,
    parts: Vec<(String, usize)>,
}

impl Service {
    fn sum(&self) -> usize {
        self.parts.iter().map(|(_, bytes)| bytes).sum()
    }
}

fn responders(concurrencies: &[NonZeroU16], large_bytes: usize) -> (String, usize) {
    let bytes = |&calls| responder_bytes_max(calls, large_bytes);
    let bytes = concurrencies.iter().map(bytes).sum();
    let name = match concurrencies.len() {
        1 => "one responder".to_owned(),
        count => format!("{count} responders"),
    };
    (name, bytes)
}

fn part(name: &str, bytes: usize) -> (String, usize) {
    (name.to_owned(), bytes)
}

fn connection() -> (String, usize) {
    let bytes = toolbus_rabbitmq::connection_bytes_max();
    part("messages that are being published, and frames", bytes)
}

fn process(bytes: usize) -> (String, usize) {
    part("the process itself, and what calls work with", bytes)
}

fn agent_host() -> Service {
    let settings = agent_host::settings::Settings::default();
    let turns_max = settings.agent.turns_max;
    let tasks = toolbus_a2a::HttpServerConfig::default().connections_max();
    let connections_max = toolbus_http::connections_max(turns_max.get().into());
    Service {
        name: "agent-host",
        values: "agentHost",
        parts: vec![
            responders(&[settings.bus.prefetch; 2], LARGE_REQUESTS_BYTES),
            part("replies that are fetched ahead", requester_bytes_max()),
            part(
                "announcements that are fetched ahead",
                toolbus_mcp_agent::ANNOUNCEMENT_FLOW.bytes_max(),
            ),
            part(
                "calls of MCP clients that are away to answer a question",
                toolbus_face::SUSPENDED_BYTES_MAX,
            ),
            part("what users on the bus say", toolbus_agent::bus_users_bytes_max(turns_max)),
            part("what other agents say", toolbus_a2a::bus_bytes_max(settings.a2a.tasks_max)),
            part("requests of turns over HTTP", connections_max * toolbus_http::BODY_BYTES_MAX),
            part("tasks of other agents over HTTP", tasks * toolbus_a2a::HTTP_BODY_BYTES_MAX),
            connection(),
            process(PROCESS),
        ],
    }
}

fn services() -> Vec<Service> {
    let bridge = mcp_bridge::settings::Settings::default();
    let router = openrouter_mcp::settings::Settings::default().openrouter;
    let answers = usize::try_from(router.answer_max.bytes()).unwrap();
    let calls = usize::from(router.concurrency.get());
    let scripts = scripts_manager::settings::Settings::default().concurrency();

    vec![
        agent_host(),
        Service {
            name: "mcp-bridge",
            values: "mcpBridge",
            parts: vec![
                responders(
                    &toolbus_mcp::bridge::responders(bridge.mcp.concurrency),
                    LARGE_REQUESTS_BYTES,
                ),
                part(
                    "refresh requests that are fetched ahead",
                    toolbus_mcp::bridge::REFRESH_FLOW.bytes_max(),
                ),
                connection(),
                process(PROCESS),
            ],
        },
        Service {
            name: "scripts-manager",
            values: "scriptsManager",
            parts: vec![
                responders(&[scripts], toolbus_scripts::LARGE_REQUESTS_BYTES),
                connection(),
                process(PROCESS),
            ],
        },
        Service {
            name: "openrouter-mcp",
            values: "openrouterMcp",
            parts: vec![
                part(&format!("answers of {calls} calls"), calls * answers),
                process(SMALL_PROCESS),
            ],
        },
    ]
}

/// The memory limit in a service's values, in bytes.
fn limit_of(values: &str, service: &str) -> usize {
    let section = values.split(&format!("\n{service}:\n")).nth(1).unwrap();
    let limit = section.split("limits: {memory: ").nth(1).unwrap().split('}').next().unwrap();
    let (number, unit) = limit.split_at(limit.len() - 2);
    let number: usize = number.parse().unwrap();
    match unit {
        "Mi" => number * MIB,
        "Gi" => number * 1_024 * MIB,
        _ => panic!("a limit of {limit}"),
    }
}

#[test]
fn limits_of_memory_are_no_smaller_than_what_a_service_may_hold() {
    let values = include_str!("../../../../helm/toolbus/values.yaml");
    for service in services() {
        let (limit, sum) = (limit_of(values, service.values), service.sum());
        let (name, limit, sum) = (service.name, limit / MIB, sum.div_ceil(MIB));
        assert!(limit >= sum, "{name} may hold {sum} MiB, and is limited to {limit} MiB");
    }
}

#[test]
fn the_operators_page_says_what_the_limits_are_made_of() {
    const BEGIN: &str = "<!-- made by UPDATE_DOCS=1 cargo test -p e2e --test chart memory -->\n";
    const END: &str = "<!-- end -->\n";
    let values = include_str!("../../../../helm/toolbus/values.yaml");

    let mut table = "| service | holds at most | MiB |\n|---|---|---:|\n".to_owned();
    for service in services() {
        for (part, bytes) in &service.parts {
            writeln!(table, "| {} | {part} | {} |", service.name, bytes.div_ceil(MIB)).unwrap();
        }
        let limit = limit_of(values, service.values) / MIB;
        let sum = service.sum().div_ceil(MIB);
        writeln!(table, "| {} | **sum**, of the limit of {limit} | **{sum}** |", service.name)
            .unwrap();
    }
    let handlers = mcp_bridge::settings::Settings::default().mcp.concurrency;
    writeln!(table, "\n| a responder with {handlers} handlers holds at most | MiB |\n|---|---:|")
        .unwrap();
    for (part, bytes) in responder_parts(handlers, LARGE_REQUESTS_BYTES) {
        writeln!(table, "| {part} | {} |", bytes.div_ceil(MIB)).unwrap();
    }

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let fresh = format!("{before}{BEGIN}{table}{END}{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &fresh).unwrap();
        return;
    }
    assert!(page == fresh, "stale: UPDATE_DOCS=1 cargo test -p e2e --test chart memory");
}
