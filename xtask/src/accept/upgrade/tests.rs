use super::*;

#[test]
fn a_row_has_the_sum_of_its_scenario_or_dashes() {
    let tally = json!({
        "calls": 12, "done": 10, "not_started": 1, "unknown": 1, "lost": ["job-3: …"], "twice": [],
    });
    let failed = json!({"passed": false, "seconds": 90, "tally": tally});
    assert_eq!(
        write_row("broker", &failed, "abc"),
        "| broker | 12 | 10 | 1 | 1 | 1 | 0 | 90 | **failed** | abc |\n"
    );
    let passed = json!({"passed": true, "seconds": 300, "tally": null});
    assert_eq!(
        write_row("chart", &passed, "abc"),
        "| chart | – | – | – | – | – | – | 300 | passed | abc |\n"
    );
}

/// A name without a test would select no test.
#[test]
fn scenarios_are_tests() {
    let tests = workspace::root().join("crates/e2e/tests");
    for scenario in &SCENARIOS {
        let (_, program) = scenario.suite.split_once("::").unwrap();
        let (module, test) = scenario.test.rsplit_once("::").unwrap();
        let file = format!("{program}/{}.rs", module.replace("::", "/"));
        let text = fs::read_to_string(tests.join(&file)).unwrap();
        assert!(text.contains(&format!("fn {test}()")), "{test} is not in {file}");
    }
}
