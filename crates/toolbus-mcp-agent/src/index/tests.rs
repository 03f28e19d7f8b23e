use std::time::Duration;

use super::*;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(120);

fn announcement(servers: &[&str], removed: &[&str]) -> McpServersIndexed {
    let summary = |name: &&str| McpServerSummary {
        server_name: (*name).to_owned(),
        ..McpServerSummary::default()
    };
    McpServersIndexed {
        servers: servers.iter().map(summary).collect(),
        removed_servers: removed.iter().map(|&name| name.to_owned()).collect(),
        bridge: None,
    }
}

fn names(index: &Index) -> Vec<(String, bool)> {
    let (servers, _) = index.list_indexed();
    servers.into_iter().map(|server| (server.name, server.is_away)).collect()
}

fn check(index: &Index, expected: &[(&str, bool)]) {
    let expected: Vec<_> =
        expected.iter().map(|(name, away)| ((*name).to_owned(), *away)).collect();
    assert_eq!(names(index), expected);
}

#[test]
fn servers_are_alike_without_regard_to_case_and_keep_their_places() {
    let index = Index::default();
    index.apply(announcement(&["b", "a"], &[]), |_| {});
    index.apply(announcement(&["B", "c"], &["A"]), |servers| assert_eq!(servers.len(), 2));
    check(&index, &[("B", false), ("c", false)]);
}

/// A bridge of another agent that is about to stop may still announce servers, and then no bridge
/// takes the requests.
#[test]
fn the_bridges_of_the_agent_go_before_those_of_others() {
    let named = |agent: &str| {
        let agent = AgentName::parse(agent).unwrap();
        let topic = topic::mcp_server(&agent, &McpServerSegment::of("files"));
        let mut announced = announcement(&["files"], &[]);
        announced.servers[0].request_topic = Some(topic.clone());
        (agent, topic, announced)
    };
    let ((agent, own_topic, own), (_, other_topic, other)) = (named("Rocky"), named("RockBot"));
    let index = Index::of(agent);

    index.apply(other.clone(), |_| {});
    assert_eq!(index.request_topic("files"), Some(other_topic.clone()));
    index.apply(own, |_| {});
    index.apply(other.clone(), |_| {});
    assert_eq!(index.request_topic("files"), Some(own_topic));

    // The agent's own bridges are gone.
    index.begin_generation();
    index.sweep_unconfirmed();
    index.apply(other, |_| {});
    assert_eq!(index.request_topic("files"), Some(other_topic));
    check(&index, &[("files", false)]);
}

/// A bridge of another agent stops, and says that its server of the same name is gone.
#[test]
fn a_bridge_of_another_agent_removes_no_server_of_the_agent() {
    let announced = |agent: &str, bridge: &str, removed: &[&str]| {
        let agent = AgentName::parse(agent).unwrap();
        let names: &[&str] = if removed.is_empty() { &["files"] } else { &[] };
        let mut announced = announcement(names, removed);
        for server in &mut announced.servers {
            let segment = McpServerSegment::of(&server.server_name);
            server.request_topic = Some(topic::mcp_server(&agent, &segment));
        }
        McpServersIndexed { bridge: Some(bridge.to_owned()), ..announced }
    };
    let index = Index::of(AgentName::parse("Rocky").unwrap());
    index.apply(announced("Rocky", "own", &[]), |_| {});
    index.apply(announced("RockBot", "other", &[]), |_| {});
    index.apply(announced("RockBot", "other", &["Files"]), |_| {});
    check(&index, &[("files", false)]);

    // The agent's own bridge was started again, with another id.
    index.apply(announced("Rocky", "own again", &["Files"]), |_| {});
    check(&index, &[]);
    index.apply(announced("RockBot", "other", &[]), |_| {});
    index.apply(announced("RockBot", "other", &["files"]), |_| {});
    check(&index, &[]);

    for number in 0..2 * FOREIGN_BRIDGES_MAX {
        index.apply(announced("RockBot", &format!("other {number}"), &[]), |_| {});
    }
    assert_eq!(index.known.lock().foreign_bridges.len(), FOREIGN_BRIDGES_MAX);
}

/// Whoever is on the bus can announce any name.
#[test]
fn servers_whose_tools_would_pass_for_others_are_not_known() {
    let index = Index::default();
    let names =
        ["a", "Management", "of_fers", "rnanagement", "management/x", "git\u{0}hub", "manage"];
    index.apply(announcement(&names, &[]), |servers| assert_eq!(servers.len(), 2));
    check(&index, &[("a", false), ("manage", false)]);
    assert!(index.has_heard() && index.request_topic("management").is_none());
}

/// A rule for reads of resources must not apply to a tool, nor the reverse.
#[test]
fn tools_with_the_names_of_protocol_methods_are_not_known() {
    let index = Index::default();
    let mut listing = announcement(&["a", "b"], &[]);
    let names = ["resources/read", "read", "Tools/List", "prompts/\u{1}get", "resources/x"];
    listing.servers[0].tool_names = names.map(str::to_owned).to_vec();
    listing.servers[0].tool_count = 5;
    listing.servers[1].tool_names = vec!["read".to_owned()];
    listing.servers[1].tool_count = 1;

    index.apply(listing, |_| {});
    let servers = index.servers();
    assert_eq!(servers[0].tool_names, ["read", "resources/x"]);
    assert_eq!(servers[1].tool_names, ["read"]);
    assert_eq!([0, 1].map(|at: usize| servers[at].tool_count), [2, 1]);
}

/// A bridge decides how many names it announces as gone, and everybody waits meanwhile.
#[test]
fn removals_are_looked_up_once_for_all_servers() {
    let names: Vec<_> = (0..100_000).map(|number| format!("server-{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let index = Index::default();
    index.apply(announcement(&names[..SERVERS_MAX], &[]), |_| {});
    // First those that nobody knows.
    let removed: Vec<_> = names[2..].iter().rev().copied().collect();
    index.apply(announcement(&[], &removed), |_| {});
    check(&index, &[("server-0", false), ("server-1", false)]);
}

#[test]
fn only_so_many_servers_are_known() {
    let names: Vec<_> = (0..20_000).map(|number| format!("server-{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let index = Index::default();
    index.apply(announcement(&names, &[]), |_| {});
    assert_eq!(index.servers().len(), SERVERS_MAX);
    assert_eq!(index.known.lock().announced.len(), SERVERS_MAX);
}

#[test]
fn what_all_servers_list_has_a_limit() {
    let index = Index::default();
    let apply = |name: &str, tools: Vec<String>| {
        let mut listing = announcement(&[name], &[]);
        listing.servers[0].tool_names = tools;
        index.apply(listing, |_| {});
    };
    let half = || vec!["x".repeat(SUMMARIES_BYTES_MAX / 2)];
    apply("a", half());
    apply("b", half());
    check(&index, &[("a", false)]);

    // What a server had before leaves its place to what it has now.
    apply("A", half());
    apply("c", vec!["small".to_owned()]);
    check(&index, &[("A", false), ("c", false)]);
    // Names without a character take a place as well.
    apply("c", vec![String::new(); SUMMARIES_BYTES_MAX / 2 / size_of::<String>()]);
    assert_eq!(index.servers()[1].tool_names, ["small"]);

    index.apply(announcement(&[], &["a"]), |_| {});
    apply("b", half());
    check(&index, &[("c", false), ("b", false)]);
}

/// Nothing that runs is told that a tool is not there because the broker was away for a moment.
#[test]
fn an_outage_empties_nothing() {
    let index = Index::default();
    index.apply(announcement(&["back", "gone", "removed"], &[]), |_| {});
    let (_, before) = index.list_indexed();

    index.begin_generation();
    check(&index, &[("back", false), ("gone", false), ("removed", false)]);
    assert_eq!(index.revision(), before);

    index.apply(announcement(&["back"], &["removed"]), |_| {});
    index.sweep_unconfirmed();
    check(&index, &[("back", false), ("gone", true)]);
    let servers = index.servers();
    assert_eq!(servers[0].unavailable, None);
    assert_eq!(servers[1].unavailable.as_deref(), Some(BRIDGE_AWAY));

    let revision = index.revision();
    index.sweep_unconfirmed();
    assert_eq!(index.revision(), revision, "it is said once");

    index.apply(announcement(&["gone"], &[]), |_| {});
    check(&index, &[("back", false), ("gone", false)]);
    assert_eq!(index.servers()[1].unavailable, None);
}

/// Whoever waits may ask the index, whose lock is not held meanwhile.
#[tokio::test]
async fn a_condition_may_look_into_the_index() {
    let index = Index::default();
    index.apply(announcement(&["a"], &[]), |_| {});
    index.wait_until(|servers| servers.len() == index.list_indexed().0.len()).await;
}

/// What somebody waits for is never missed, and whoever reads sees servers and revision of one moment,
/// however the announcements and the looks fall.
#[test]
fn a_change_is_seen_with_its_revision() {
    const ANNOUNCERS: u64 = 2;
    const ANNOUNCEMENTS: u64 = 20_000;

    let index = Arc::new(Index::default());
    index.apply(announcement(&["a"], &[]), |_| {});
    let last = 1 + ANNOUNCERS * ANNOUNCEMENTS;

    std::thread::scope(|threads| {
        for _ in 0..ANNOUNCERS {
            threads.spawn(|| {
                for _ in 0..ANNOUNCEMENTS {
                    index.apply(announcement(&["a"], &[]), |_| {});
                }
            });
        }

        let follower = async {
            let mut known = 1;
            while known < last {
                index.wait_for_revision_after(known).await;
                let (servers, revision) = index.list_indexed();
                assert_eq!(servers[0].announced, revision, "the revision is of these servers");
                assert!(revision > known, "what was waited for is there");
                known = revision;
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let followed = runtime.block_on(async { tokio::time::timeout(PATIENCE, follower).await });
        followed.expect("a change was missed");
    });
}

/// A bridge that is started again has not lost what its servers offer.
#[test]
fn a_server_that_is_being_connected_keeps_what_it_listed() {
    let index = Index::default();
    let connecting = |name: &str| McpServerSummary {
        server_name: name.to_owned(),
        unavailable: Some("it is being connected".to_owned()),
        connecting: true,
        ..McpServerSummary::default()
    };
    let mut known = announcement(&["known"], &[]);
    known.servers[0].tool_names = vec!["echo".to_owned()];
    known.servers[0].operator_added = true;
    index.apply(known, |_| {});

    let servers = vec![connecting("KNOWN"), connecting("new")];
    index.apply(McpServersIndexed { servers, ..announcement(&[], &[]) }, |_| {});
    let servers = index.servers();
    assert_eq!(servers[0].tool_names, ["echo"]);
    // An agent may have registered another server with the name of one of the operator.
    assert!(!servers[0].operator_added);
    assert!(servers.iter().all(|server| server.connecting && server.unavailable.is_some()));
    assert_eq!(servers.len(), 2);

    index.apply(announcement(&["known"], &[]), |_| {});
    assert!(!index.servers()[0].connecting && index.servers()[0].tool_names.is_empty());
}
