use super::*;
use crate::mistake::Reporter;
use crate::settings::RuleSettings;

/// Which rules are never reached, and by which.
fn covered(rules: &[&str]) -> Vec<(usize, Vec<usize>)> {
    let read = |rest: &&str| {
        let text = format!("name = \"r\"\neffect = \"allow\"\n{rest}");
        let settings: RuleSettings = toml::from_str(&text).unwrap();
        let mut found = Vec::new();
        let mut reporter = Reporter { key: String::new(), owner: String::new(), found: &mut found };
        let conditions = Conditions::read(&settings.conditions(), &mut reporter);
        assert_eq!(found, [], "{text}");
        conditions
    };
    let rules: Vec<Conditions> = rules.iter().map(read).collect();
    let found = find_covered(&rules.iter().collect::<Vec<_>>(), RuleSet::default());
    found.into_iter().map(|covered| (covered.rule, covered.by)).collect()
}

#[test]
fn a_rule_is_covered_by_one_that_asks_less() {
    let check = |rules: &[&str], expected: &[(usize, Vec<usize>)]| {
        assert_eq!(covered(rules), expected, "{rules:?}");
    };
    let by_first = [(1, vec![0])];
    check(&["", "doors = ['bus']"], &by_first);
    check(&["tools = ['a/*']", "tools = ['a/b', 'a/c*']\nrisk = 'high'"], &by_first);
    check(&["risk = 'medium'", "risk = 'critical'"], &by_first);
    check(&["risk = 'critical'", "risk = 'medium'"], &[]);
    check(&["tools = ['*']", "tools = ['a']"], &by_first);
    check(&["tools = ['*']", ""], &by_first);
    check(&["principals = ['local:*']", "principals = ['local:x']"], &by_first);
    check(&["principals = ['local:*']", "principals = ['claimed:x']"], &[]);
    check(&["tools = ['a/*']\nread_only = true", "tools = ['a/b']"], &[]);
    check(&["destructive = true", "risk = 'high'"], &[]);
    check(&["destructive = true", "destructive = true\nrisk = 'high'"], &by_first);
    // Not every call has a session.
    check(&["sessions = ['*']", ""], &[]);
    check(&["sessions = ['*']", "sessions = ['session/a']"], &by_first);
}

#[test]
fn several_rules_cover_one_together() {
    let doors = ["doors = ['bus']", "doors = ['mcp', 'http']", "doors = ['bus', 'mcp']"];
    assert_eq!(covered(&doors), [(2, vec![0, 1])]);
    let flags = ["read_only = true", "read_only = false", "tools = ['a']"];
    assert_eq!(covered(&flags), [(2, vec![0, 1])]);
    let lists = ["tools = ['a/*']", "tools = ['b/*']", "tools = ['a/x', 'b/y']\nrisk = 'high'"];
    assert_eq!(covered(&lists), [(2, vec![0, 1])]);
    // All but one of the parts is not all.
    let apart = [
        "tools = ['a']\nprincipals = ['claimed:x']",
        "tools = ['b']\nprincipals = ['claimed:y']",
        "tools = ['a', 'b']\nprincipals = ['claimed:x', 'claimed:y']",
    ];
    assert_eq!(covered(&apart), []);
}

#[test]
fn a_rule_of_many_parts_is_covered_by_what_covers_all_of_them() {
    let list = |of: &str, count: usize| {
        let items: Vec<String> = (0..count).map(|at| format!("'{of}{at}'")).collect();
        items.join(", ")
    };
    let many = format!("tools = [{}]\nagents = [{}]", list("a/", 20), list("g", 20));
    assert_eq!(covered(&["tools = ['a/*']", &many]), [(1, vec![0])]);
    assert_eq!(covered(&["tools = ['a/1*']", &many]), []);
}
