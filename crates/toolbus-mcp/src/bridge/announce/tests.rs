use std::future::ready;
use std::num::NonZeroU16;
use std::time::Duration;

use toolbus_bus::{Delivery, Flow, MemoryBus, Subscription, TopicPattern};
use toolbus_testkit::eventually;

use super::*;
use crate::config::{self, Variables};
use crate::server_pool::PoolConfig;

/// A server whose summary is longer on the wire than in memory.
fn server(name: &str, quotes: usize) -> McpServerSummary {
    McpServerSummary {
        server_name: name.to_owned(),
        summary: Some("\"".repeat(quotes)),
        ..McpServerSummary::default()
    }
}

fn names(announcement: &McpServersIndexed) -> Vec<&str> {
    announcement.servers.iter().map(|server| server.server_name.as_str()).collect()
}

fn bytes(announcement: &McpServersIndexed) -> usize {
    json::write(announcement).len()
}

#[test]
fn no_announcement_is_over_the_limit_and_no_server_is_left_out() {
    let expected: Vec<String> = (0..10).map(|number| format!("s{number}")).collect();
    let servers: Vec<_> = expected.iter().map(|name| server(name, 1_000)).collect();
    let one = bytes(&split_announcements(servers[..1].to_vec(), usize::MAX)[0]);
    assert!(one > 2_000);
    for (bytes_max, count) in [(one, 10), (2 * one, 5), (10 * one, 1)] {
        let told = split_announcements(servers.clone(), bytes_max);
        assert_eq!(told.len(), count);
        assert!(told.iter().all(|announcement| bytes(announcement) <= bytes_max));
        assert_eq!(told.iter().flat_map(names).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn one_that_is_too_long_keeps_back_no_other() {
    let told = split_announcements(vec![server("a", 1), server("b", 1_000), server("c", 1)], 1_000);
    assert_eq!(told.iter().map(names).collect::<Vec<_>>(), [["a"], ["b"], ["c"]]);
}

#[test]
fn that_there_is_no_server_is_told() {
    assert_eq!(split_announcements(Vec::new(), 0), [McpServersIndexed::default()]);
}

#[test]
fn what_came_last_of_a_server_is_announced() {
    let listed = |name, quotes| Change::Listed(server(name, quotes));
    let removed = |name: &str| Change::Removed(name.to_owned());
    let changes = vec![listed("a", 1), listed("b", 1), removed("a"), removed("c"), listed("c", 2)];
    let announcements = announcements_of(changes, 10_000);
    let expected = [
        McpServersIndexed { removed_servers: vec!["a".to_owned()], ..McpServersIndexed::default() },
        McpServersIndexed {
            servers: vec![server("b", 1), server("c", 2)],
            ..McpServersIndexed::default()
        },
    ];
    assert_eq!(announcements, expected);
    assert_eq!(announcements_of(Vec::new(), 10_000), []);
}

#[tokio::test]
async fn an_agent_that_asks_hears_everything_in_parts() {
    let (bus, agent) = (MemoryBus::new(), AgentName::parse("Ada").unwrap());
    let heard: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let kept = Arc::clone(&heard);
    let hear = move |delivery: Delivery| {
        kept.lock().push(delivery.envelope.body.to_vec());
        ready(Disposition::Ack)
    };
    let pattern = TopicPattern::from(topic::tool_meta_mcp(&agent));
    let flow = Flow::Ordered { prefetch: NonZeroU16::MIN };
    let subscription = Subscription::private("test", pattern, flow);
    let _consumer = bus.subscribe(subscription, Arc::new(hear)).await.unwrap();

    // What cannot be started is told of as well.
    let text = r#"{"mcpServers": {
        "a": {"command": "/nowhere/a"}, "b": {"command": "/nowhere/b"}, "c": {"command": "/nowhere/c"}
    }}"#;
    let servers = config::parse(text, Variables::Refused).unwrap().servers;
    let set = ServerPool::start(servers, PoolConfig::new([])).unwrap();
    set.wait_settled().await;
    let by = AnnouncerNames {
        source: "bridge".to_owned(),
        agent: agent.clone(),
        instance: InstanceId::random(),
        agents: Vec::new(),
    };
    let announcer = Announcer::new(Arc::new(bus), set.clone(), by);
    let mut announcer = Arc::into_inner(announcer).unwrap();
    announcer.bytes_max = 800;
    let announcer = Arc::new(announcer);
    announcer.follow_changes();
    let request = Envelope::of(&McpMetadataRefreshRequest::default(), "Ada");
    assert_eq!(Arc::clone(&announcer).handle_refresh(request).await, Disposition::Ack);

    eventually(Duration::from_secs(30), async || {
        let bodies = heard.lock().clone();
        let told: Vec<McpServersIndexed> =
            bodies.iter().map(|body| json::read(body).unwrap()).collect();
        let mut names: Vec<_> = told.iter().flat_map(names).collect();
        // What was there at the beginning may be announced to it as well.
        names.sort_unstable();
        names.dedup();
        assert!(bodies.iter().all(|body| body.len() <= 800 + SIGNATURE_BYTES_MAX), "{told:?}");
        if names == ["a", "b", "c"] && told.len() > 1 { Ok(()) } else { Err(format!("{told:?}")) }
    })
    .await;
    announcer.stop().await;
    set.close(Duration::ZERO).await;
}
