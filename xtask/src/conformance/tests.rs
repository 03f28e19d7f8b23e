use super::differences::Differences;
use super::not_run::NotRunList;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::bus_watch::{Delivery, routing_key};
use super::suite::{OfferedScenario, ScenarioResults, count_checks};
use super::{ERAS, ResultColumn, SuiteRun, SuiteTarget, report};

const LISTED: &str =
    "Server scenarios:\n  - ping [2025-11-25]\n  - auth/var1 [2025-11-25]\n  - gone [x]\n";
const LOG: &str = "=== SUMMARY ===\n✓ ping: 1 passed, 0 failed\n✗ auth/var1: 0 passed, 1 failed\n";

fn column(place: SuiteTarget, log: &str) -> ResultColumn {
    ResultColumn { era: ERAS[0], place, results: ScenarioResults::read(LISTED, log) }
}

fn columns(log: &str) -> Vec<ResultColumn> {
    vec![column(SuiteTarget::Hop, log)]
}

fn ran(columns: Vec<ResultColumn>) -> SuiteRun {
    SuiteRun { columns, offered: Vec::new(), delivered: Vec::new() }
}

/// Checks with these statuses, of a scenario that began on this day at 00:00:01 and so many
/// milliseconds.
fn check(column: &mut ResultColumn, scenario: &str, ms: u32, statuses: &[&str]) {
    let checks: Vec<_> = statuses.iter().map(|status| json!({"status": status})).collect();
    let folder = format!("{scenario}-2026-11-25T00-00-01-{ms:03}Z");
    count_checks(&folder, &checks, &mut column.results);
}

fn differences(scenarios: &str) -> Differences {
    let text = format!(
        r#"[{{"cause": "of a reason", "era": "2025-11-25", "place": "hop", "scenarios": {scenarios}}}]"#
    );
    Differences::parse(&text).unwrap()
}

fn surprises(scenarios: &str) -> Vec<String> {
    let found = differences(scenarios).find_surprises(&columns(LOG));
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn only_what_the_summary_says_has_passed_passes() {
    let results = ScenarioResults::read(LISTED, LOG);
    let passes: Vec<_> = results.iter().map(|s| (s.name.as_str(), s.passes)).collect();
    assert_eq!(passes, [("ping", true), ("auth/var1", false), ("gone", false)]);
    assert_eq!((results.passed(), results.len()), (1, 3));
}

#[test]
fn what_is_listed_is_no_surprise() {
    assert_eq!(surprises(r#"["auth/var1", "gone"]"#), [""; 0]);
}

#[test]
fn worse_better_and_unknown_are_surprises() {
    assert_eq!(
        surprises(r#"["ping", "gone", "never was"]"#),
        [
            "2025-11-25 hop: ping passes, and is listed as one that does not",
            "2025-11-25 hop: auth/var1 does not pass",
            "2025-11-25 hop: there is no scenario never was",
        ]
    );
}

#[test]
fn a_list_for_another_place_does_not_count() {
    let text = r#"[{"cause": "c", "era": "2025-11-25", "place": "direct", "scenarios": ["gone"]}]"#;
    let found = Differences::parse(text).unwrap().find_surprises(&columns(LOG));
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn a_scenario_without_a_check_that_passed_does_not_pass() {
    let mut column = column(SuiteTarget::Hop, &LOG.replace('✗', "✓"));
    check(&mut column, "server-ping", 0, &["SUCCESS", "WARNING"]);
    check(&mut column, "auth/var1", 100, &["SKIPPED", "INFO"]);
    column.results.fail_unchecked();
    let passes = column.results.iter().map(|scenario| scenario.passes);
    assert_eq!(passes.collect::<Vec<_>>(), [true, false, false]);
}

#[test]
fn a_list_without_an_era_is_about_each() {
    let text = r#"[{"cause": "c", "place": "hop", "scenarios": ["auth/var1", "gone"]}]"#;
    let differences = Differences::parse(text).unwrap();
    let mut both = columns(LOG);
    both.push(ResultColumn { era: ERAS[1], ..column(SuiteTarget::Hop, LOG) });
    assert_eq!(differences.find_surprises(&both), []);
    both[1].results = ScenarioResults::read(LISTED, &LOG.replace('✗', "✓"));
    let found = differences.find_surprises(&both);
    let expected = "2026-07-28 hop: auth/var1 passes, and is listed as one that does not";
    assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}

#[test]
fn the_document_tells_what_and_why() {
    let mut direct = column(SuiteTarget::Direct, &LOG.replace('✗', "✓"));
    check(&mut direct, "server-ping", 0, &["SUCCESS"]);
    check(&mut direct, "auth/var1", 100, &["SUCCESS", "SUCCESS", "SKIPPED"]);
    let mut hop = column(SuiteTarget::Hop, LOG);
    check(&mut hop, "server-ping", 200, &["SUCCESS", "INFO"]);
    check(&mut hop, "auth/var1", 300, &["FAILURE"]);
    let mut stdio = column(SuiteTarget::Stdio, LOG);
    check(&mut stdio, "server-ping", 400, &["SUCCESS", "WARNING"]);

    let text = r#"[
        {"cause": "of a reason", "era": "2025-11-25", "place": "hop", "scenarios": ["auth/var1"]},
        {"cause": "it has none", "place": "stdio", "lacks": true, "scenarios": ["auth/var1"]}
    ]"#;
    let differences = Differences::parse(text).unwrap();
    let mut ran = ran(vec![direct, hop, stdio]);
    // In the time of both scenarios behind the hop, and after it.
    for (ms, topic) in [(1_210, "tool.cancel"), (1_310, "mcp.relay"), (1_500, "mcp.relay")] {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        ran.delivered.push(Delivery { at, routing_key: topic.to_owned() });
    }

    let text = report::document(&ran, &differences, &left_out(r#"["auth/old", "auth/x"]"#));
    for line in [
        "| scenario | bus | direct | behind the hop | stdio |",
        "| `ping` | no | 1 check | 1 check | 2 checks, with warnings |",
        "| `auth/var1` | yes | 2 checks, 1 skipped | no [1] | lacks [2] |",
        "| **pass** |  | **2 of 3** | **1 of 3** | **1 of 2** |",
        "1. *behind the hop, 2025-11-25*: of a reason",
        "2. *stdio*: it has none",
        "- *client*: `auth/old`, `auth/x`. It is old.",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn what_is_delivered_is_read_and_nothing_else() {
    let deliver = |key: &str| {
        let length = u8::try_from(key.len()).unwrap();
        let before = b"\x00\x3c\x00\x3c\x02ct\0\0\0\0\0\0\0\x01\0\x01x";
        [before.as_slice(), &[length], key.as_bytes(), b"\xce"].concat()
    };
    assert_eq!(routing_key(&deliver("mcp.relay")).as_deref(), Some("mcp.relay"));
    for other in [b"\x00\x3c\x00\x50\0".as_slice(), b"\x00\x3c\x00\x3c\xff", b""] {
        assert_eq!(routing_key(other), None);
    }
}

/// What the releases have, as they list it.
const OFFERED: &str = "Server scenarios (test against a server):\n  - ping [2025-11-25]\n\n\
    Client scenarios (test against a client):\n  - auth/old [2025-03-26]\n  - ping [extension]\n\n\
    Authorization server scenarios (test against an authorization server):\n  - endpoint [x]\n";

fn left_out(scenarios: &str) -> NotRunList {
    let text =
        format!(r#"[{{"cause": "It is old.", "kind": "client", "scenarios": {scenarios}}}]"#);
    NotRunList::parse(&text).unwrap()
}

#[test]
fn what_is_in_no_table_has_to_be_listed_and_nothing_else() {
    let mut ran = ran(columns(LOG));
    ran.offered = OfferedScenario::read(OFFERED).unwrap();
    let surprises = |scenarios: &str| -> Vec<String> {
        left_out(scenarios).find_surprises(&ran).iter().map(ToString::to_string).collect()
    };
    let missing = |what: &str| format!("{what} is not run, and nothing says why");
    assert_eq!(surprises(r#"["auth/old", "ping"]"#), [missing("authorization server: endpoint")]);
    assert_eq!(
        surprises(r#"["ping", "gone"]"#),
        [
            missing("client: auth/old"),
            missing("authorization server: endpoint"),
            "client: gone is listed as one that is not run, and is run or not there".to_owned(),
        ]
    );
}

#[test]
fn a_kind_that_nobody_knows_is_a_mistake() {
    assert!(OfferedScenario::read("Proxy scenarios (test a proxy):\n  - ping\n").is_err());
    assert!(NotRunList::parse(r#"[{"cause": "c", "kind": "proxy", "scenarios": []}]"#).is_err());
}
