use toolbus_tools::id::{CallId, ToolId};
use toolbus_tools::policy::{ApprovalExtent, Decision, PolicyRequest};
use toolbus_tools::{Annotations, Door, Principal, Scope, Subject};
use toolbus_wire::name::AgentName;

use super::*;
use crate::matrix::decision_name;
use crate::{DecidedBy, RuleBook};

fn settings(toml: &str) -> PolicySettings {
    toml::from_str(toml).unwrap_or_else(|error| panic!("{error}: {toml}"))
}

fn of_preset(preset: Preset) -> PolicySettings {
    PolicySettings { preset: Some(preset), ..PolicySettings::default() }
}

fn book(settings: &PolicySettings) -> RuleBook {
    RuleBook::new(settings).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn subject(id: &str) -> Subject {
    let (provider, tool) = id.split_once('/').unwrap();
    Subject {
        id: ToolId::of(provider, tool),
        definition: None,
        annotations: Annotations::default(),
        risk: Risk::High,
        audience: Default::default(),
    }
}

/// Returns tools of a server: one that declares nothing, a read-only one, and a destructive one.
fn of_server() -> [Subject; 3] {
    let tool = subject("mcp:notes/add");
    let reads = Annotations { read_only: true, idempotent: true, destructive: false };
    let deletes = Annotations { destructive: true, ..Annotations::default() };
    [
        tool.clone(),
        Subject { annotations: reads, risk: Risk::Low, ..tool.clone() },
        Subject { annotations: deletes, ..tool },
    ]
}

fn scope(doors: &[Door]) -> Scope {
    let (first, rest) = doors.split_first().unwrap();
    let scope = Scope::new(*first, Principal::local(), AgentName::standard());
    rest.iter().fold(scope, |scope, door| scope.child(*door, &CallId::random()).unwrap())
}

fn decision(book: &RuleBook, doors: &[Door], subject: &Subject) -> &'static str {
    decision_name(&book.decide(&PolicyRequest { scope: &scope(doors), subject }))
}

/// Returns every combination of doors of a call and kinds of tools.
fn requests() -> Vec<(Scope, Subject)> {
    let mut subjects = of_server().to_vec();
    let ids = ["shell/bash", "google/gmail_send", "script/tool_chain", "memory/save_memory", "a/b"];
    subjects.extend(ids.map(subject));
    let pairs = Door::ALL.into_iter().flat_map(|one| Door::ALL.map(|other| scope(&[one, other])));
    let of_scope = |scope: Scope| {
        subjects.iter().map(move |subject| (scope.clone(), subject.clone())).collect::<Vec<_>>()
    };
    pairs.flat_map(of_scope).collect()
}

#[test]
fn each_preset_is_a_rule_book_without_a_mistake() {
    for preset in Preset::ALL {
        // Parsed as an operator's own rules, of which each must be reachable.
        let rules = preset.rules();
        assert!(rules.len() <= PRESET_RULES_MAX, "{preset}: {}", rules.len());
        assert_eq!(rules.is_empty(), preset == Preset::Open);
        let prefix = format!("{preset}.");
        assert!(rules.iter().all(|rule| rule.name.starts_with(&prefix)), "{rules:?}");
        book(&PolicySettings { rules, ..PolicySettings::default() });
        assert_eq!(Preset::parse(preset.as_str()), Some(preset));
    }
}

/// The output of `policy show` decides the same when it is pasted into the settings.
#[test]
fn a_rule_book_that_is_printed_and_pasted_decides_the_same() {
    let own = r#"
approval_required_risk = "critical"
[[rules]]
name = "own"
effect = "deny"
reason = "why \"not\""
tools = ["a/*"]
[[limits]]
name = "few"
calls = 3
per = "hour"
[[budgets]]
name = "small"
calls = 7
time = "10m"
"#;
    let requests = requests();
    for preset in [None, Some(Preset::Open), Some(Preset::Careful), Some(Preset::Strict)] {
        for own in ["", own, "default = \"deny\"", "default = \"ask-once\""] {
            let shown = PolicySettings { preset, ..settings(own) };
            let text = shown.to_toml().unwrap();
            let pasted: PolicyFile = toml::from_str(&text).unwrap();
            assert_eq!(pasted.policy, shown.with_preset_rules(), "{text}");

            let (shown, pasted) = (book(&shown), book(&pasted.policy));
            assert_eq!(shown.revision(), pasted.revision());
            for (scope, subject) in &requests {
                let request = PolicyRequest { scope, subject };
                let (one, other) = (shown.explain(&request), pasted.explain(&request));
                assert_eq!(one.by, other.by);
                assert_eq!(decision_name(&one.decision), decision_name(&other.decision));
            }
        }
    }
}

#[test]
fn each_preset_says_the_same_of_a_tool_of_a_server_by_its_doors() {
    use Door::{Bus, Chain, CommandLine, Embedded, Http, Mcp, Schedule, Turn};

    let check = |preset: Preset, doors: &[Door], expected: [&str; 3]| {
        let book = book(&of_preset(preset));
        let found = of_server().map(|subject| decision(&book, doors, &subject));
        assert_eq!(found, expected, "{preset} {doors:?}");
    };
    let careful = ["ask-once", "allow", "ask"];
    check(Preset::Careful, &[CommandLine, Turn], careful);
    check(Preset::Careful, &[Http, Turn], careful);
    check(Preset::Careful, &[Schedule, Turn], careful);
    check(Preset::Careful, &[Mcp, Turn, Chain], careful);
    let strict = ["ask", "allow", "ask"];
    check(Preset::Strict, &[CommandLine, Turn], strict);
    for door in [Bus, Mcp, Http] {
        check(Preset::Strict, &[door, Chain], strict);
    }

    let open = ["allow"; 3];
    for direct in [CommandLine, Bus, Mcp, Http, Chain, Embedded] {
        check(Preset::Careful, &[direct], open);
        check(Preset::Careful, &[direct, Chain], open);
        check(Preset::Open, &[direct, Turn], open);
    }
    check(Preset::Strict, &[CommandLine, Chain], open);
}

#[test]
fn rules_of_the_operator_stand_before_those_of_the_preset() {
    let own = settings(
        r#"
preset = "careful"
[[rules]]
name = "bash"
effect = "allow"
tools = ["shell/bash"]
[[rules]]
name = "no-mail"
effect = "deny"
reason = "no"
tools = ["google/gmail_send"]
"#,
    );

    let book = book(&own);
    let turn = [Door::CommandLine, Door::Turn];
    let bash = Subject { risk: Risk::Critical, ..subject("shell/bash") };
    assert_eq!(decision(&book, &turn, &bash), "allow");
    // These rules decide every call that a rule of the preset would decide.
    assert_eq!(decision(&book, &turn, &subject("google/gmail_send")), "deny");
    assert_eq!(decision(&book, &turn, &subject("google/calendar_create_event")), "ask");
    assert_eq!(decision(&book, &turn, &subject("files/write_file")), "ask-once");
}

/// The operator can write the maximum number of rules beside a preset. A rule name of the preset is
/// an error in the operator's rules.
#[test]
fn a_preset_takes_no_room_of_the_operator() {
    let rule = |number: usize| RuleSettings {
        name: format!("r{number}"),
        tools: Some(vec![format!("a/{number}")]),
        ..settings("[[rules]]\nname = \"r\"\neffect = \"allow\"").rules.remove(0)
    };
    let rules: Vec<_> = (0..RULES_MAX).map(rule).collect();
    let full = PolicySettings { rules, ..of_preset(Preset::Careful) };
    let full = book(&full);
    assert_eq!(full.rule_count(), RULES_MAX + Preset::Careful.rules().len());
    let turn = [Door::CommandLine, Door::Turn];
    assert_eq!(decision(&full, &turn, &subject("files/write_file")), "ask-once");

    let named = RuleSettings { name: "careful.reads".to_owned(), ..rule(0) };
    let same = PolicySettings { rules: vec![named], ..of_preset(Preset::Careful) };
    let mistakes = RuleBook::new(&same).unwrap_err().to_string();
    assert!(mistakes.contains("rule 'careful.reads': number 0"), "{mistakes}");
}

/// A section without `preset` has no preset, and without a section `careful` is active.
#[test]
fn a_missing_policy_is_careful() {
    assert_eq!(PolicySettings::standard().preset, Some(Preset::Careful));
    for written in ["", "default = \"allow\"", "rules = []"] {
        let written = settings(written);
        assert_eq!(written.preset, None);
        let book = book(&written);
        for (scope, subject) in requests() {
            let request = PolicyRequest { scope: &scope, subject: &subject };
            assert_eq!(book.explain(&request).by, DecidedBy::Default);
            assert_eq!(book.decide(&request), Decision::Allow);
        }
    }
}

#[test]
fn a_demand_says_how_far_a_yes_holds_and_what_would_allow_the_call() {
    let careful = book(&of_preset(Preset::Careful));
    let scope = scope(&[Door::Http, Door::Turn]);
    let demand = |book: &RuleBook, id: &str| {
        let subject = subject(id);
        match book.decide(&PolicyRequest { scope: &scope, subject: &subject }) {
            Decision::Ask(demand) => demand,
            other => panic!("{other:?}"),
        }
    };
    let once = demand(&careful, "files/write_file");
    assert_eq!((once.extent, once.preset), (ApprovalExtent::Tool, Some("careful")));
    let each = demand(&careful, "shell/bash");
    assert_eq!((each.extent, &*each.rule), (ApprovalExtent::Call, "careful.commands"));

    // Pasted into the settings, the advice allows the tool and keeps the rest of the preset.
    let advice = once.how_to_allow("files/write_file");
    let (_, pasted) = advice.split_once("toolbus.toml: ").unwrap();
    let (pasted, _) = pasted.split_once("; ").unwrap();
    let pasted: PolicyFile = toml::from_str(&pasted.replacen(" and ", "\n", 1)).unwrap();
    let allowing = book(&pasted.policy);
    let turn = [Door::Http, Door::Turn];
    assert_eq!(decision(&allowing, &turn, &subject("files/write_file")), "allow");
    assert_eq!(decision(&allowing, &turn, &subject("files/edit_file")), "ask-once");

    let own = book(&settings("default = \"ask\""));
    assert_eq!(demand(&own, "a/b").how_to_allow("a/b"), "change the rule");
}
