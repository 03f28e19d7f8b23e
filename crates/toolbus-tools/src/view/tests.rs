use super::*;

fn check(pattern: &str, text: &str, expected: bool) {
    assert_eq!(matches_pattern(pattern, text), expected, "{pattern} {text}");
}

#[test]
fn a_star_stands_for_any_text() {
    check("mcp:github/*", "mcp:github/create_issue", true);
    check("mcp:github/*", "mcp:gitlab/create_issue", false);
    check("*", "", true);
    check("", "", true);
    check("", "a", false);
    check("a*c*e", "abcde", true);
    check("a*c*e", "abcdef", false);
    check("*delete*", "mcp:x/undelete_all", true);
    check("a", "ab", false);
}

#[test]
fn a_narrower_view_never_sees_more() {
    let github = View::all().only(["mcp:github/*"]);
    let reading = github.without(["*delete*"]);
    let widened = reading.only(["*"]);
    let create = ToolId::of("mcp:github", "create");
    let delete = ToolId::of("mcp:github", "delete");
    let script = ToolId::of("script", "execute_python_script");
    for (view, sees) in [
        (View::all(), [true, true, true]),
        (github, [true, true, false]),
        (reading, [true, false, false]),
        (widened, [true, false, false]),
    ] {
        assert_eq!([&create, &delete, &script].map(|id| view.sees(id)), sees, "{view:?}");
    }
}

#[test]
fn what_is_inside_a_place_is_seen_there_alone() {
    let report = ToolId::of("inside:subagent", "report_progress");
    let script = ToolId::of("script", "execute_python_script");
    let all = View::all();
    let subagent = all.inside("subagent");
    for (view, sees) in [
        (all.clone(), [false, true]),
        (all.without(["a2a/*"]), [false, true]),
        (all.inside("chain"), [false, true]),
        (subagent.clone(), [true, true]),
        (subagent.without(["script/*"]), [true, false]),
        (all.without(["inside:*"]).inside("subagent"), [false, true]),
        (all.only(["script/*"]).inside("subagent"), [false, true]),
    ] {
        assert_eq!([&report, &script].map(|id| view.sees(id)), sees, "{view:?}");
    }
    assert!(!all.sees(&ToolId::of("inside:", "x")));
}
