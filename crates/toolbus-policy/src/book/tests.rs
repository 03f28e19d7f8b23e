use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use toolbus_tools::id::{CallId, SessionId, ToolId};
use toolbus_tools::scope::{Principal, Proof};
use toolbus_tools::view::matches_pattern;
use toolbus_tools::{Annotations, Door, Scope, Subject};
use toolbus_wire::name::AgentName;

use super::*;
use crate::PrincipalSet;
use crate::principal::{PrincipalPattern, parse_principal};

fn settings(toml: &str) -> PolicySettings {
    toml::from_str(toml).unwrap_or_else(|error| panic!("{error}: {toml}"))
}

fn book(toml: &str) -> RuleBook {
    RuleBook::new(&settings(toml)).unwrap()
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

fn scope(door: Door, principal: &str) -> Scope {
    Scope::new(door, parse_principal(principal).unwrap(), AgentName::standard())
}

fn explain(book: &RuleBook, scope: &Scope, tool: &str) -> (String, String) {
    let subject = subject(tool);
    let request = PolicyRequest { scope, subject: &subject };
    let Explanation { decision, by } = book.explain(&request);
    assert_eq!(book.decide(&request), decision);
    let text = match decision {
        Decision::Allow => "allow".to_owned(),
        Decision::Ask(demand) => format!("ask: {} ({})", demand.reason, demand.rule),
        Decision::Deny(reason) => format!("deny: {reason}"),
        other => panic!("{other:?}"),
    };
    (text, by.to_string())
}

const BOOK: &str = r#"
default = "deny"
[[rules]]
name = "no-deletes"
effect = "deny"
reason = "nothing is deleted by machines"
tools = ["mcp:github/delete_*", "*/drop_*"]
doors = ["bus", "mcp"]
[[rules]]
name = "writes"
effect = "ask"
reason = "it changes what others see"
read_only = false
principals = ["claimed:*", "broker:ci"]
[[rules]]
name = "own"
effect = "allow"
principals = ["local:*", "claimed:*"]
"#;

#[test]
fn no_rule_allows_a_tool_to_those_for_whom_it_is_not_there() {
    let book = book(
        r#"
[[rules]]
name = "reads"
effect = "allow"
read_only = true
"#,
    );
    let set = PrincipalSet::parse(&["local:*".to_owned(), "token:http/ana".to_owned()]).unwrap();
    let mailbox = Subject {
        annotations: Annotations { read_only: true, idempotent: true, destructive: false },
        risk: Risk::Low,
        audience: set.into_audience(),
        ..subject("google/gmail_read")
    };
    let check = |principal: &str, expected: &str, by: &str| {
        let scope = scope(Door::Bus, principal);
        let explained = book.explain(&PolicyRequest { scope: &scope, subject: &mailbox });
        let decision = crate::matrix::decision_name(&explained.decision);
        assert_eq!((decision, &*explained.by.to_string()), (expected, by), "{principal}");
    };
    check("local:local", "allow", "rule 'reads'");
    check("token:http/ana", "allow", "rule 'reads'");
    for other in ["claimed:local", "claimed:mcp", "broker:ana", "token:http/bob"] {
        check(other, "deny", "principals");
    }
}

/// What an MCP client starts is judged as of an MCP client, however deep.
#[test]
fn a_call_is_judged_by_every_door_that_it_came_through() {
    let book = book(
        r#"
default = "deny"
[[rules]]
name = "no-deletes"
effect = "deny"
reason = "no"
tools = ["*/delete_*"]
doors = ["mcp", "http"]
[[rules]]
name = "asked"
effect = "ask"
reason = "why"
tools = ["*/send_*"]
doors = ["mcp"]
[[rules]]
name = "own-chains"
effect = "allow"
doors = ["command-line", "chain"]
[[limits]]
name = "clients"
calls = 10
per = "minute"
doors = ["mcp"]
[[budgets]]
name = "clients"
calls = 100
doors = ["mcp"]
"#,
    );
    let inner = |door: Door| {
        let scope = scope(door, "local:local");
        let chain = scope.child(Door::Chain, &CallId::random()).unwrap();
        chain.child(Door::Turn, &CallId::random()).unwrap().child(Door::Chain, &CallId::random())
    };
    let decided = |scope: &Scope, tool: &str| explain(&book, scope, tool).1;
    let by_mcp = inner(Door::Mcp).unwrap();
    assert_eq!(by_mcp.doors.to_string(), "mcp,chain,turn");
    assert_eq!(decided(&by_mcp, "x/delete_all"), "rule 'no-deletes'");
    assert_eq!(decided(&by_mcp, "x/send_mail"), "rule 'asked'");
    assert_eq!(decided(&by_mcp, "x/read"), "default");
    assert_eq!(book.budget_of(&by_mcp), Some("clients"));
    let subject = subject("x/read");
    let request = PolicyRequest { scope: &by_mcp, subject: &subject };
    assert_eq!(book.limits_of(&request).collect::<Vec<_>>(), ["clients"]);

    // A rule that allows must hold of every door.
    let own = scope(Door::CommandLine, "local:local");
    let own_chain = own.child(Door::Chain, &CallId::random()).unwrap();
    assert_eq!(decided(&own_chain, "x/delete_all"), "rule 'own-chains'");
    assert_eq!(decided(&inner(Door::CommandLine).unwrap(), "x/read"), "default");
    assert_eq!(book.budget_of(&own_chain), None);
}

#[test]
fn the_first_rule_that_matches_decides() {
    let book = book(BOOK);
    let check = |door, principal: &str, tool: &str, expected: &str, by: &str| {
        let explained = explain(&book, &scope(door, principal), tool);
        assert_eq!(explained, (expected.to_owned(), by.to_owned()), "{door} {principal} {tool}");
    };
    let denied = "deny: nothing is deleted by machines (rule 'no-deletes')";
    check(Door::Bus, "local:local", "mcp:github/delete_repo", denied, "rule 'no-deletes'");
    check(Door::Mcp, "claimed:x", "mcp:sql/drop_table", denied, "rule 'no-deletes'");
    check(Door::Embedded, "local:local", "mcp:github/delete_repo", "allow", "rule 'own'");
    let asked = "ask: it changes what others see (writes)";
    check(Door::Bus, "claimed:x", "mcp:github/create_issue", asked, "rule 'writes'");
    check(Door::Bus, "broker:ci", "mcp:github/create_issue", asked, "rule 'writes'");
    check(Door::Bus, "broker:x", "x/y", "deny: no rule allows it", "default");
}

#[test]
fn without_settings_every_call_is_allowed() {
    let book = RuleBook::new(&PolicySettings::default()).unwrap();
    let explained = explain(&book, &scope(Door::Bus, "claimed:x"), "a/b");
    assert_eq!(explained, ("allow".to_owned(), "default".to_owned()));
}

/// By their names `critical` would come before `high`, and `high` before `low`.
#[test]
fn rv_i6_risks_are_compared_by_rank_and_not_by_name() {
    let book = book("approval_required_risk = 'high'");
    let scope = scope(Door::Turn, "local:local");
    let asked = Risk::ALL.map(|risk| {
        let subject = Subject { risk, ..subject("a/b") };
        matches!(book.decide(&PolicyRequest { scope: &scope, subject: &subject }), Decision::Ask(_))
    });
    assert_eq!(asked, [false, false, true, true], "{:?}", Risk::ALL);
}

/// The threshold that an agent names is the least risk that needs an approval, and the least of all
/// asks for everything.
#[test]
fn rv_a2_a_risk_needs_an_approval_from_the_threshold_on() {
    let asks = |threshold: &str, risk: Risk| {
        let book = book(&format!("approval_required_risk = {threshold:?}"));
        let scope = scope(Door::Turn, "local:local");
        let subject = Subject { risk, ..subject("a/b") };
        let explanation = book.explain(&PolicyRequest { scope: &scope, subject: &subject });
        let is_asked = matches!(explanation.decision, Decision::Ask(_));
        assert_eq!(explanation.by == DecidedBy::RequiredApproval, is_asked);
        is_asked
    };
    for threshold in Risk::ALL {
        for risk in Risk::ALL {
            assert_eq!(asks(threshold.as_str(), risk), risk >= threshold, "{threshold:?} {risk:?}");
        }
    }
}

#[test]
fn a_rule_goes_before_the_threshold_and_so_does_another_default() {
    let rule = "approval_required_risk = \"low\"\n[[rules]]\nname = \"r\"\neffect = \"allow\"\n\
                tools = [\"a/*\"]";
    let here = scope(Door::Bus, "claimed:x");
    assert_eq!(explain(&book(rule), &here, "a/b").0, "allow");
    assert_eq!(explain(&book(rule), &here, "c/d").1, "approval_required_risk");
    let deny = "approval_required_risk = \"low\"\ndefault = \"deny\"";
    assert_eq!(explain(&book(deny), &here, "c/d").1, "default");
}

#[test]
fn mistakes_are_told_with_the_rule_and_where_they_are() {
    let check = |rules: &str, expected: &[&str]| {
        let errors = RuleBook::new(&settings(rules)).unwrap_err();
        let told: Vec<String> =
            errors.iter().map(|mistake| format!("{}: {}", mistake.key, mistake.what)).collect();
        assert_eq!(told, expected, "{rules}");
    };
    let rule = |rest: &str| format!("[[rules]]\nname = \"r\"\n{rest}\n");
    let allow = |rest: &str| rule(&format!("effect = \"allow\"\n{rest}"));
    check(
        &rule("effect = \"deny\""),
        &["rules[0].reason: rule 'r': who asks or denies says why: the caller, or whoever is \
           asked, reads it"],
    );
    check(&rule("effect = \"ask\"\nreason = \" \""), &["rules[0].reason: rule 'r': it is empty"]);
    check(
        &allow("tools = []\ndoors = []"),
        &[
            "rules[0].tools: rule 'r': an empty list would match nothing; leave it out to match \
             everything",
            "rules[0].doors: rule 'r': an empty list would match nothing; leave it out to match \
             everything",
        ],
    );
    check(
        &allow("tools = [\"\", \"mcp:GitHub/*\", \"a?\"]"),
        &[
            "rules[0].tools: rule 'r': the glob \"\": it is empty",
            "rules[0].tools: rule 'r': the glob \"mcp:GitHub/*\": servers are in lower case in the \
             ids of their tools, did you mean \"mcp:github/*\"?",
            "rules[0].tools: rule 'r': the glob \"a?\": only `*` stands for other text, not `?`",
        ],
    );
    check(
        &allow("principals = [\"alice\"]\nagents = [\"a b\"]\nsessions = [\"a#\"]"),
        &[
            "rules[0].principals: rule 'r': the glob \"alice\": it begins with no proof: write \
             `*`, or one of `local:`, `claimed:`, `broker:`, `token:` and a name",
            "rules[0].agents: rule 'r': the glob \"a b\": no agent's name has ` `",
            "rules[0].sessions: rule 'r': the glob \"a#\": no session's id has `#`",
        ],
    );
    check(
        &format!("{}{}", allow("tools = [\"a\"]"), allow("tools = [\"b\"]")),
        &["rules[1].name: rule 'r': number 0, counted from 0, has the same name"],
    );
    check(
        "[[rules]]\nname = \"a b\"\neffect = \"allow\"",
        &["rules[0].name: rule 'a b': a name is 1 to 64 letters, digits, `-`, `_` and `.`"],
    );
    check(
        "[[limits]]\nname = \"default\"\ncalls = 1\nper = \"day\"\ntools = [\"**\"]",
        &[
            "limits[0].name: limit 'default': this name is what stands for calls that no rule \
             decides",
            "limits[0].tools: limit 'default': the glob \"**\": it has `**`, and one `*` stands \
             for any text already",
        ],
    );
    check(
        &format!("{}[[rules]]\nname = \"s\"\neffect = \"allow\"\ndoors = [\"bus\"]", allow("")),
        &["rules[1]: rule 's' is never reached: rule 'r' before it decides every call that meets \
           its conditions"],
    );
}

#[test]
fn what_is_too_much_is_told() {
    let rule = |number: usize| RuleSettings {
        name: format!("r{number}"),
        tools: Some(vec![format!("a/{number}")]),
        ..settings("[[rules]]\nname = \"r\"\neffect = \"allow\"").rules.remove(0)
    };
    let fits =
        PolicySettings { rules: (0..RULES_MAX).map(rule).collect(), ..PolicySettings::default() };
    assert_eq!(RuleBook::new(&fits).unwrap().rule_count(), RULES_MAX);

    let more = PolicySettings { rules: (0..=RULES_MAX).map(rule).collect(), ..fits };
    let error = RuleBook::new(&more).unwrap_err().to_string();
    assert!(error.contains("rules: 1001 are more than 1000"), "{error}");

    let globs = |count: usize| Some((0..count).map(|at| format!("a/{at}")).collect());
    let wide = |number: usize| RuleSettings {
        tools: globs(64),
        agents: Some(vec![format!("a{number}")]),
        ..rule(number)
    };
    let wide: Vec<_> = (0..70).map(wide).collect();
    let error = RuleBook::new(&PolicySettings { rules: wide, ..PolicySettings::default() });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("rules: 4550 globs in all rules are more than 4000"), "{error}");

    let long = RuleSettings { tools: globs(65), ..rule(0) };
    let error = RuleBook::new(&PolicySettings { rules: vec![long], ..PolicySettings::default() });
    assert!(error.unwrap_err().to_string().contains("65 globs are more than 64"));
}

#[test]
fn a_revision_is_of_what_is_written() {
    let revision = |toml: &str| book(toml).revision().to_string();
    assert_eq!(revision(BOOK), revision(BOOK));
    assert_ne!(revision(BOOK), revision(&BOOK.replace("machines", "us")));
    assert_eq!(revision("").len(), 16);
}

const TOOLS: [&str; 6] = ["a/x", "a/xy", "a/y", "b/x", "b/yx", "c/a/x"];
const TOOL_GLOBS: [&str; 10] =
    ["a/x", "b/yx", "a/*", "a/x*", "b/*", "*x", "*/x*", "a/*y", "*y*", "*"];
const PRINCIPALS: [&str; 7] = [
    "local:local",
    "claimed:a",
    "claimed:ab",
    "broker:a",
    "token:i/a",
    "token:i/j%2Fa",
    "token:j/ab",
];
const PRINCIPAL_GLOBS: [&str; 10] = [
    "local:*",
    "claimed:a",
    "claimed:*",
    "claimed:*b",
    "broker:a*",
    "token:i/*",
    "token:*/a",
    "token:i/j%2Fa",
    "*",
    "token:*/*",
];
const AGENTS: [&str; 2] = ["RockBot", "Other"];
const SESSIONS: [&str; 3] = ["", "session/a", "session/b"];

fn some_of(globs: &'static [&'static str]) -> impl Strategy<Value = Option<Vec<String>>> {
    let list = subsequence(globs.to_vec(), 1..=2);
    proptest::option::of(list.prop_map(|list| list.into_iter().map(str::to_owned).collect()))
}

fn any_rule() -> impl Strategy<Value = RuleSettings> {
    let doors = proptest::option::of(subsequence(Door::ALL.to_vec(), 1..=4));
    let effect = select(vec![Effect::Allow, Effect::Ask, Effect::AskOnce, Effect::Deny]);
    let lists = (
        some_of(&TOOL_GLOBS),
        some_of(&PRINCIPAL_GLOBS),
        some_of(&["RockBot", "O*"]),
        some_of(&["session/a", "session/*", "*"]),
    );
    let flags = (
        proptest::option::of(select(Risk::ALL.to_vec())),
        proptest::option::of(any::<bool>()),
        proptest::option::of(any::<bool>()),
        proptest::option::of(any::<bool>()),
    );
    (effect, doors, lists, flags).prop_map(|(effect, doors, lists, flags)| {
        let (tools, principals, agents, sessions) = lists;
        let (risk, read_only, idempotent, destructive) = flags;
        RuleSettings {
            name: String::new(),
            effect,
            reason: Some("because".to_owned()),
            doors,
            principals,
            agents,
            sessions,
            tools,
            risk,
            read_only,
            idempotent,
            destructive,
        }
    })
}

prop_compose! {
    fn any_request()(
        door in select(Door::ALL.to_vec()),
        tool in select(&TOOLS[..]),
        principal in select(&PRINCIPALS[..]),
        agent in select(&AGENTS[..]),
        session in select(&SESSIONS[..]),
        risk in select(Risk::ALL.to_vec()),
        read_only in any::<bool>(),
        idempotent in any::<bool>(),
        destructive in any::<bool>(),
    ) -> (Scope, Subject) {
        let principal = parse_principal(principal).unwrap();
        let scope = Scope::new(door, principal, AgentName::parse(agent).unwrap())
            .with_session(SessionId::parse(session).ok());
        let annotations = Annotations { read_only, idempotent, destructive };
        (scope, Subject { annotations, risk, ..subject(tool) })
    }
}

/// One condition after the other, as the words of the settings say it.
fn holds(rule: &RuleSettings, scope: &Scope, subject: &Subject) -> bool {
    let any = |globs: &Option<Vec<String>>, text: Option<&str>| {
        globs.as_ref().is_none_or(|globs| {
            text.is_some_and(|text| globs.iter().any(|glob| matches_pattern(glob, text)))
        })
    };
    let is_principal =
        |text: &String| PrincipalPattern::parse(text).unwrap().matches(&scope.principal);
    rule.doors.as_ref().is_none_or(|doors| doors.contains(&scope.door))
        && rule.principals.as_ref().is_none_or(|all| all.iter().any(is_principal))
        && any(&rule.agents, Some(scope.agent.as_str()))
        && any(&rule.sessions, scope.session.as_ref().map(SessionId::as_str))
        && any(&rule.tools, Some(subject.id.as_str()))
        && rule.risk.is_none_or(|risk| subject.risk >= risk)
        && rule.read_only.is_none_or(|wanted| wanted == subject.annotations.read_only)
        && rule.idempotent.is_none_or(|wanted| wanted == subject.annotations.idempotent)
        && rule.destructive.is_none_or(|wanted| wanted == subject.annotations.destructive)
}

/// The settings without the rules that are never reached.
fn reached(settings: &PolicySettings) -> PolicySettings {
    let Err(errors) = RuleBook::new(settings) else { return settings.clone() };
    let is_told =
        |position: usize| errors.iter().any(|error| error.key == format!("rules[{position}]"));
    let rules = settings.rules.iter().enumerate().filter(|(position, _)| !is_told(*position));
    let rules: Vec<_> = rules.map(|(_, rule)| rule.clone()).collect();
    assert_ne!(rules.len(), settings.rules.len(), "{errors}");
    PolicySettings { rules, ..settings.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Also of books some of whose rules are never reached: without them nothing is decided in
    /// another way.
    #[test]
    fn the_index_decides_as_one_rule_after_the_other(
        rules in proptest::collection::vec(any_rule(), 0..12),
        requests in proptest::collection::vec(any_request(), 24),
    ) {
        let name = |(position, rule)| RuleSettings { name: format!("r{position}"), ..rule };
        let rules: Vec<_> = rules.into_iter().enumerate().map(name).collect();
        let settings = PolicySettings { rules, default: Effect::Deny, ..PolicySettings::default() };
        let book = RuleBook::new(&reached(&settings)).unwrap();

        for (scope, subject) in &requests {
            let first = settings.rules.iter().find(|rule| holds(rule, scope, subject));
            let expected = first.map(|rule| DecidedBy::Rule(rule.name.as_str().into()));
            let request = PolicyRequest { scope, subject };
            let explained = book.explain(&request);
            prop_assert_eq!(&explained.by, &expected.unwrap_or(DecidedBy::Default));
            let effect = first.map_or(Effect::Deny, |rule| rule.effect);
            prop_assert_eq!(effect == Effect::Allow, explained.decision == Decision::Allow);
        }
    }
}

/// A proof that is not of one of the known kinds would match no rule but those about everybody.
#[test]
fn a_principal_of_the_broker_is_its_user() {
    let book = book(
        "default = \"deny\"\n[[rules]]\nname = \"ci\"\neffect = \"allow\"\nprincipals = \
         [\"broker:ci\"]",
    );
    let says_ci = Principal { name: "ci".into(), proof: Proof::Broker { user: "guest".into() } };
    let of_ci = Principal { name: "guest".into(), proof: Proof::Broker { user: "ci".into() } };
    let by = |principal: Principal| {
        let scope = Scope { principal, ..scope(Door::Bus, "claimed:x") };
        explain(&book, &scope, "a/b").1
    };
    assert_eq!((by(says_ci).as_str(), by(of_ci).as_str()), ("default", "rule 'ci'"));
}

/// 1c.13: a risk that is none is a mistake, and stands for none that there is.
#[test]
fn rule_1c_13_an_unknown_risk_is_told() {
    let rules = "[[rules]]\nname = \"r\"\neffect = \"allow\"\nrisk = \"safe\"";
    let error = toml::from_str::<PolicySettings>(rules).unwrap_err().to_string();
    assert!(error.contains("safe") && error.contains("low"), "{error}");
}
