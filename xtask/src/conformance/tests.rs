use super::differences::Differences;
use super::not_run::NotRunList;
use super::suite::{OfferedScenario, ScenarioResults};
use super::{ERAS, ResultColumn, SuiteRun, SuiteTarget, report};

const LISTED: &str =
    "Server scenarios:\n  - ping [2025-11-25]\n  - auth/var1 [2025-11-25]\n  - gone [x]\n";
const LOG: &str = "=== SUMMARY ===\n✓ ping: 1 passed, 0 failed\n✗ auth/var1: 0 passed, 1 failed\n";

fn columns(log: &str) -> Vec<ResultColumn> {
    vec![ResultColumn {
        era: ERAS[0],
        place: SuiteTarget::Hop,
        results: ScenarioResults::read(LISTED, log),
    }]
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
fn the_document_tells_what_and_why() {
    let mut columns = columns(LOG);
    columns.push(ResultColumn {
        era: ERAS[0],
        place: SuiteTarget::Direct,
        results: ScenarioResults::read(LISTED, &LOG.replace('✗', "✓")),
    });
    let differences = differences(r#"["auth/var1", "gone"]"#);
    let text = report::document(&columns, &differences, &left_out(r#"["auth/old", "auth/x"]"#));
    for line in [
        "| `ping` | passes | passes |",
        "| `auth/var1` | passes | no [1] |",
        "| **pass** | **2 of 3** | **1 of 3** |",
        "1. *behind the hop, 2025-11-25*: of a reason",
        "- *client*: `auth/old`, `auth/x`. It is old.",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
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
    let ran = SuiteRun { columns: columns(LOG), offered: OfferedScenario::read(OFFERED).unwrap() };
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
