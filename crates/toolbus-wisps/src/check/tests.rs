use proptest::prelude::*;
use serde_json::json;
use toolbus_tools::CallError;

use super::*;
use crate::definition::{OnFailure, Work};
use crate::lenient;
use crate::template::{Part, Reference};

fn read(definitions: Value) -> Result<Vec<Wisp>, Rejected> {
    let config = WispsConfig::default();
    let mut arguments = Map::from_iter([("definitions".to_owned(), definitions)]);
    lenient::coerce(&mut arguments, &config);
    check(
        CheckContext { config: &config, has_model: true, has_agents: true },
        &arguments["definitions"],
    )
}

/// What is told of a wisp of these steps, without the first line.
fn told(steps: Value) -> String {
    told_of(json!([{"description": "d", "steps": steps}]))
}

fn told_of(definitions: Value) -> String {
    match read(definitions) {
        Ok(_) => "fine".to_owned(),
        Err(rejected) => CallError::from(rejected).message,
    }
}

/// A step that is fine.
fn search(id: &str) -> Value {
    json!({"id": id, "mode": "Direct", "gateway": "Web", "tool": "web_search", "params": {"query": "q"}})
}

/// The same with these members in place of its own.
fn search_with(id: &str, members: Value) -> Value {
    let mut step = search(id);
    for (name, value) in members.as_object().expect("an object") {
        step[name] = value.clone();
    }
    step
}

#[test]
fn every_kind_of_step_is_read() {
    let wisps = read(json!([{"description": "d", "steps": [
        {"id": "m", "mode": "direct", "gateway": "MCP", "server": "GitHub", "tool": "search",
         "params": {"q": "x"}, "timeout_minutes": 2, "output_to": "findings/m"},
        {"id": "s", "mode": "Direct", "gateway": "Script", "language": "python",
         "input": {"code": "print(1)"}, "input_from": "m"},
        search_with("w", json!({"on_failure": {"action": "skip_to", "skip_to": "l"}})),
        {"id": "a", "mode": "Direct", "gateway": "a2a", "agent": "R", "skill": "s",
         "message": "do {{steps.m.result.x}}", "input_from": "{{steps.s.result.y}}"},
        {"id": "l", "mode": "LLM", "prompt": "sum up", "input_from": "findings/m"},
    ]}]))
    .unwrap();
    let steps = &wisps[0].steps;

    let Work::Mcp { server, tool, .. } = &steps[0].work else { panic!("{:?}", steps[0]) };
    assert_eq!((server.as_str(), tool.as_str()), ("GitHub", "search"));
    assert_eq!(steps[0].timeout, Some(std::time::Duration::from_secs(120)));
    let Work::Script { params } = &steps[1].work else { panic!("{:?}", steps[1]) };
    assert_eq!(params["script"], "print(1)");
    let whole = |step: &str| Some(Reference { step: step.to_owned(), part: Part::Result(vec![]) });
    assert_eq!(steps[1].input, whole("m"));
    assert_eq!(steps[2].on_failure, OnFailure::SkipTo(4));
    let part = Part::Result(vec!["y".to_owned()]);
    assert_eq!(steps[3].input, Some(Reference { step: "s".to_owned(), part }));
    // By where the output of an earlier step goes.
    assert_eq!(steps[4].input, whole("m"));
}

#[test]
fn all_mistakes_are_told_at_once() {
    let definitions = json!([
        {"steps": [{"id": "a b", "mode": "Direct"}], "name": "n"},
        5,
        {"description": "d", "steps": []},
        {"description": "d", "steps": [
            {"mode": "Fast"},
            {"id": "b", "mode": "Direct", "gateway": "Http"},
            {"id": "B", "mode": "Llm", "prompt": "{{steps.c.result}} {{steps.B.result}} {{steps.b}}"},
            {"id": "c", "mode": "Direct", "gateway": "Mcp", "on_failure": {"action": "skip_to", "skip_to": "b"}},
        ]},
    ]);
    insta::assert_snapshot!(told_of(definitions), @r#"
    Nothing was run: there are 14 mistakes in the definitions.
    - wisp 1, `name`: there is no such member. There are `description`, `tools`, `steps`
    - wisp 1, `description`: it is missing. Say in a few words what the wisp does
    - wisp 1, step 'a b', `id`: 'a b' is no id. Write a short name of letters, digits, `-` and `_`, at most 64
    - wisp 1, step 'a b', `gateway`: it is missing. Write "Mcp", "A2A", "Script" or "Web"
    - wisp 2, `definitions`: it is not an object, nor JSON text of one. Write an object with `description` and `steps`
    - wisp 3, `steps`: there are none. Write a list of objects with `id`, `mode` and what the step does
    - wisp 4, step '1', `id`: it is missing. Write a short name of letters, digits, `-` and `_`
    - wisp 4, step '1', `mode`: there is no mode 'Fast'. Write "Direct" for a call of a tool, or "Llm" for a question to a model
    - wisp 4, step 'b', `gateway`: there is no gateway 'Http'. Write "Mcp", "A2A", "Script" or "Web"
    - wisp 4, step 'B', `id`: an earlier step is called 'B' already. Give every step of a wisp an id of its own
    - wisp 4, step 'B', `prompt`: '{{steps.b}}' is no template. Write {{steps.b.result}}, with a path into it as in .result.a.b, or {{steps.b.output_to}}
    - wisp 4, step 'c', `server`: it is missing. Write the server as mcp_list_services has it
    - wisp 4, step 'c', `tool`: it is missing. Write the server's tool
    - wisp 4, step 'c', `on_failure`: 'b' is an earlier step. There is no later step: leave `on_failure` out
    "#);
}

#[test]
fn each_gateway_has_members_that_it_needs() {
    let step = |members: Value| {
        let mut step = json!({"id": "a", "mode": "Direct"});
        step.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        told(json!([step]))
    };
    insta::assert_snapshot!(step(json!({"gateway": "Mcp"})), @r"
    Nothing was run: there are 2 mistakes in the definitions.
    - wisp 1, step 'a', `server`: it is missing. Write the server as mcp_list_services has it
    - wisp 1, step 'a', `tool`: it is missing. Write the server's tool
    ");
    insta::assert_snapshot!(step(json!({"gateway": "A2A"})), @r"
    Nothing was run: there are 3 mistakes in the definitions.
    - wisp 1, step 'a', `agent`: it is missing. Write the agent as list_known_agents has it
    - wisp 1, step 'a', `skill`: it is missing. Write the id of one of the agent's skills
    - wisp 1, step 'a', `message`: it is missing. Write what the agent is to do
    ");
    insta::assert_snapshot!(step(json!({"gateway": "Script", "language": "ruby"})), @r#"
    Nothing was run: there are 2 mistakes in the definitions.
    - wisp 1, step 'a', `language`: there is no language 'ruby'. Write "python", or leave it out
    - wisp 1, step 'a', `params.script`: there is no script. Write {"script": "Python source code"}
    "#);
    insta::assert_snapshot!(step(json!({"gateway": "Web", "tool": "web_browse"})), @r#"
    Nothing was run: there is a mistake in the definitions.
    - wisp 1, step 'a', `params.url`: it is missing. Write {"url": "…"}, or name a step in `input_from`
    "#);
    insta::assert_snapshot!(step(json!({"gateway": "Web", "tool": "web_post", "params": {"url": "u"}})), @r#"
    Nothing was run: there is a mistake in the definitions.
    - wisp 1, step 'a', `tool`: the gateway Web has no tool 'web_post'. Write "web_search" or "web_browse": the gateway has no others
    "#);
    insta::assert_snapshot!(step(json!({"gateway": "Web", "tool": "web_search", "params": {"query": "q"}, "server": "s"})), @r"
    Nothing was run: there is a mistake in the definitions.
    - wisp 1, step 'a', `server`: a step with gateway Web has no such member. It has `id`, `mode`, `timeout_minutes`, `input_from`, `output_to`, `on_failure`, `gateway`, `tool`, `params`
    ");
    insta::assert_snapshot!(step(json!({"mode": "Llm"})), @r"
    Nothing was run: there is a mistake in the definitions.
    - wisp 1, step 'a', `prompt`: it is missing. Write what the model is to do with the earlier results
    ");
    insta::assert_snapshot!(step(json!({"gateway": "Mcp", "server": "{{steps.a.result}}", "tool": "t"})), @r"
    Nothing was run: there is a mistake in the definitions.
    - wisp 1, step 'a', `server`: '{{steps.a.result}}' is no name. Write the server as mcp_list_services has it, without templates
    ");
}

#[test]
fn references_lead_to_earlier_steps_only() {
    let refers = |reference: &str| {
        told(json!([
            search("a"),
            search_with("b", json!({"params": {"query": reference}})),
            search("c")
        ]))
    };
    assert_eq!(refers("{{steps.a.result.x}} {{steps.a.output_to}}"), "fine");
    insta::assert_snapshot!(refers("{{steps.b.result}}"), @r"
    Nothing was run: there is a mistake in the definitions.
    - wisp 1, step 'b', `params.query`: 'b' is this step itself. Name an earlier step: `a`
    ");
    insta::assert_snapshot!(refers("{{steps.c.result}}"), @r"
    Nothing was run: there is a mistake in the definitions.
    - wisp 1, step 'b', `params.query`: 'c' is a later step, which has no result yet. Name an earlier step: `a`
    ");
    insta::assert_snapshot!(refers("{{steps.d.result}}"), @r"
    Nothing was run: there is a mistake in the definitions.
    - wisp 1, step 'b', `params.query`: 'd' is no step of this wisp. Name an earlier step: `a`
    ");

    let input = |input: Value| {
        told(json!([search("a"), search_with("b", json!({"input_from": input})), search("c")]))
    };
    assert_eq!(input(json!("a")), "fine");
    assert_eq!(input(json!("steps.a.result.x")), "fine");
    insta::assert_snapshot!(input(json!("c")), @r"
    Nothing was run: there is a mistake in the definitions.
    - wisp 1, step 'b', `input_from`: 'c' is a later step, which has no result yet. Name an earlier step: `a`
    ");
    insta::assert_snapshot!(input(json!("{\"query\": ")), @r"
    Nothing was run: there is a mistake in the definitions.
    - wisp 1, step 'b', `input_from`: it begins like JSON and is none. Write the id of an earlier step
    ");
    insta::assert_snapshot!(input(json!({"query": "q"})), @r"
    Nothing was run: there is a mistake in the definitions.
    - wisp 1, step 'b', `input_from`: there are `params`, too. Write the id of an earlier step
    ");
    insta::assert_snapshot!(input(json!("steps.a")), @r"
    Nothing was run: there is a mistake in the definitions.
    - wisp 1, step 'b', `input_from`: 'steps.a' is no reference. Write {{steps.a.result}}, with a path into it as in .result.a.b, or {{steps.a.output_to}}
    ");

    // Deep in an object, too.
    let deep = json!({"params": {"query": "q", "more": [{"x": "{{steps.z.result}}"}]}});
    insta::assert_snapshot!(told(json!([search_with("a", deep)])), @r"
    Nothing was run: there is a mistake in the definitions.
    - wisp 1, step 'a', `params.more.x`: 'z' is no step of this wisp. There is no earlier step: put one before it
    ");
}

#[test]
fn skips_lead_to_later_steps_only() {
    let skips = |on_failure: Value| {
        told(json!([search("a"), search_with("b", json!({"on_failure": on_failure})), search("c")]))
    };
    assert_eq!(skips(json!({"action": "skip_to", "skip_to": "c"})), "fine");
    assert_eq!(skips(json!({"skip_to": "c"})), "fine");
    assert_eq!(skips(json!("abort")), "fine");
    for (to, problem) in [("a", "an earlier step"), ("b", "this step itself"), ("z", "no step")] {
        let told = skips(json!({"action": "skip_to", "skip_to": to}));
        assert!(told.contains(problem) && told.contains("Skip to a later step: `c`"), "{told}");
    }
    for wrong in [
        json!("retry"),
        json!({"action": "skip_to"}),
        json!({"action": "abort", "skip_to": "c"}),
        json!({"action": "abort", "retries": 3}),
        json!(["abort"]),
        json!({"action": 5}),
    ] {
        let told = skips(wrong.clone());
        assert!(told.contains("`on_failure`") && told.contains("Write {"), "{wrong}: {told}");
    }
    let last = json!([search_with("a", json!({"on_failure": {"skip_to": "z"}}))]);
    assert!(told(last).contains("There is no later step"));
}

#[test]
fn results_do_not_become_code() {
    let script = |params: Value| {
        told(
            json!([search("a"), {"id": "b", "mode": "Direct", "gateway": "Script", "params": params}]),
        )
    };
    assert_eq!(
        script(json!({"script": "print('{{x}}')", "input_data": "{{steps.a.result}}"})),
        "fine"
    );
    for name in ["script", "code"] {
        let told = script(json!({name: "print('''{{steps.a.result}}''')"}));
        assert!(
            told.contains("results do not become code") && told.contains("input_data"),
            "{told}"
        );
    }
    assert!(script(json!({"script": "x = '{{steps.a"})).contains("results do not become code"));
}

#[test]
fn tools_of_a_definition_narrow_its_steps() {
    let mcp = |server: &str, tool: &str| json!({"id": "m", "mode": "Direct", "gateway": "Mcp", "server": server, "tool": tool});
    let narrowed = |tools: Value, step: Value| {
        told_of(json!([{"description": "d", "tools": tools, "steps": [step]}]))
    };
    for tools in ["github/search", "github/*", "GitHub__search", "search", "mcp_invoke_tool"] {
        assert_eq!(narrowed(json!([tools]), mcp("GitHub", "search")), "fine", "{tools}");
    }
    for tools in ["github/other", "other/*", "web_search", "github/searc"] {
        let told = narrowed(json!([tools]), mcp("GitHub", "search"));
        assert!(told.contains("does not allow 'GitHub/search'"), "{tools}: {told}");
    }
    assert_eq!(narrowed(json!(["web_search"]), search("a")), "fine");
    assert!(narrowed(json!([]), search("a")).contains("does not allow 'web_search'"));
    assert!(narrowed(json!(["web_browse"]), search("a")).contains("does not allow"));
    assert!(narrowed(json!([5]), search("a")).contains("`tools`: it is not a list of names"));
}

#[test]
fn outputs_have_keys_of_their_own() {
    let to = |one: &str, two: &str| {
        told(json!([
            search_with("a", json!({"output_to": one})),
            search_with("b", json!({"output_to": two}))
        ]))
    };
    assert_eq!(to("x/a", "x/b"), "fine");
    assert!(to("x/a", "X/A").contains("is where the output of wisp 1, step 'a' goes, too"));
    for key in ["../a", "a//b", "a`b", "{{steps.a.result}}", "a/b/c/d/e/f/g/h/i"] {
        assert!(to(key, "ok").contains("no key of working memory"), "{key}");
    }
}

#[test]
fn what_an_agent_does_not_have_is_told_before() {
    let config = WispsConfig::default();
    let of = CheckContext { config: &config, has_model: false, has_agents: false };
    let definitions = json!([{"description": "d", "steps": [
        {"id": "l", "mode": "Llm", "prompt": "p"},
        {"id": "a", "mode": "Direct", "gateway": "A2A", "agent": "a", "skill": "s", "message": "m"},
    ]}]);
    let Err(Rejected::Mistakes(mistakes)) = check(of, &definitions) else { panic!("mistakes") };
    let problems: Vec<_> = mistakes.told.iter().map(|mistake| &*mistake.problem).collect();
    assert_eq!(
        problems,
        ["this agent has no model for Llm steps", "this agent cannot wait for other agents",]
    );
}

#[test]
fn times_are_within_those_of_the_call() {
    let takes =
        |minutes: Value| told(json!([search_with("a", json!({"timeout_minutes": minutes}))]));
    assert_eq!(takes(json!(0.5)), "fine");
    assert_eq!(takes(json!("15")), "fine");
    for minutes in [json!(0), json!(-1), json!(16), json!(1e300), json!("soon"), json!([])] {
        assert!(takes(minutes.clone()).contains("at most 15"), "{minutes}");
    }
}

#[test]
fn what_is_too_large_is_not_looked_at() {
    let too_large = |definitions: Value| told_of(definitions);
    let steps: Vec<_> = (0..100_000).map(|n| json!({"id": n.to_string()})).collect();
    insta::assert_snapshot!(too_large(json!([{"description": "d", "steps": steps}])), @"nothing was run: the definitions have 100000 steps in one wisp, and may have 20. Make several wisps of it, or a script");
    let wisps: Vec<_> = (0..101).map(|_| json!({})).collect();
    insta::assert_snapshot!(too_large(json!(wisps)), @"nothing was run: the definitions have 101 wisps, and may have 100. Run them in several calls");
    insta::assert_snapshot!(too_large(json!([{"description": "x".repeat(10 << 20)}])), @"nothing was run: the definitions have 10485771 bytes, and may have 524288. Pass what is long by reference");
    let mut deep = json!("x");
    for _ in 0..1_000 {
        deep = Value::Array(vec![deep]);
    }
    // The macro would read it by recursion.
    insta::assert_snapshot!(too_large(Value::Array(vec![deep])), @"nothing was run: the definitions have 1002 levels, and may have 32. Nest them less deep");
    insta::assert_snapshot!(too_large(json!([{"steps": [{"params": {"x": vec![0; 30_000]}}]}])), @"nothing was run: the definitions have 30006 values, and may have 20000. Pass what is long by reference");
    // Nested as text, it is as deep.
    let deep = format!("{}{}", "[".repeat(90), "]".repeat(90));
    insta::assert_snapshot!(too_large(json!(format!("[{{\"steps\": {deep}}}]"))), @"nothing was run: the definitions have 92 levels, and may have 32. Nest them less deep");
}

#[test]
fn only_so_many_mistakes_are_told() {
    let steps: Vec<_> = (0..20).map(|n| json!({"id": format!("s{n}")})).collect();
    let wisps: Vec<_> = (0..100).map(|_| json!({"description": "d", "steps": steps})).collect();
    let told = told_of(json!(wisps));
    assert!(told.starts_with("Nothing was run: there are 2000 mistakes"), "{told}");
    assert_eq!(told.lines().count(), 1 + crate::mistake::TOLD_MAX + 1);
    assert!(told.ends_with("… and 1950 more"), "{told}");
}

/// A value of what models write, and of what they do not.
fn any_value() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "a",
        "b",
        "Direct",
        "Llm",
        "Mcp",
        "Script",
        "Web",
        "A2A",
        "web_search",
        "abort",
        "skip_to",
        "{{steps.a.result}}",
        "{{steps.b.result.x}}",
        "{{steps.a",
        "{\"query\": \"q\"}",
        "[",
        "",
    ]);
    let leaf = prop_oneof![
        words.prop_map(|word| json!(word)),
        any::<i64>().prop_map(|number| json!(number)),
        Just(Value::Null),
    ];
    let names = prop::sample::select(vec![
        "description",
        "steps",
        "tools",
        "id",
        "mode",
        "gateway",
        "server",
        "tool",
        "params",
        "input",
        "prompt",
        "message",
        "input_from",
        "output_to",
        "on_failure",
        "action",
        "skip_to",
        "query",
        "script",
        "timeout_minutes",
        "definitions",
    ]);
    leaf.prop_recursive(5, 60, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((names.clone(), inner), 0..8).prop_map(|members| {
                Value::Object(
                    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
                )
            }),
        ]
    })
}

proptest! {
    /// Whatever is written, it is read or its mistakes are told, and what is read is a graph whose
    /// edges lead forward.
    #[test]
    fn any_definitions_are_checked(definitions in any_value()) {
        let Ok(wisps) = read(definitions) else { return Ok(()) };
        for wisp in &wisps {
            check_graph(wisp);
        }
    }

    /// The same of steps that are mostly right.
    #[test]
    fn graphs_lead_forward(edges in prop::collection::vec((0_usize..6, 0_usize..6), 1..6)) {
        let steps: Vec<_> = edges.iter().enumerate().map(|(at, (from, to))| {
            let members = json!({
                "params": {"query": format!("{{{{steps.s{from}.result}}}}")},
                "on_failure": {"skip_to": format!("s{to}")},
            });
            search_with(&format!("s{at}"), members)
        }).collect();
        let is_forward = edges.iter().enumerate()
            .all(|(at, (from, to))| *from < at && *to > at && *to < edges.len());
        let read = read(json!([{"description": "d", "steps": steps}]));
        prop_assert_eq!(read.is_ok(), is_forward);
    }
}

fn check_graph(wisp: &Wisp) {
    for (at, step) in wisp.steps.iter().enumerate() {
        if let OnFailure::SkipTo(later) = step.on_failure {
            assert!(later > at && later < wisp.steps.len());
        }
        if let Some(Reference { step, .. }) = &step.input {
            assert!(wisp.steps[..at].iter().any(|earlier| earlier.id == *step));
        }
    }
}
