//! Every rule on a text that keeps it and one that does not.

mod figures;
mod sleeps;
mod style;

use super::files;
use super::laws::{self, Dependency, Package};

/// `expected` are the mistakes as `line: what`, in order.
fn check_file(path: &str, text: &str, expected: &[&str]) {
    let found: Vec<_> = files::check_file(path, text)
        .iter()
        .map(|mistake| format!("{}: {}", mistake.line, mistake.what))
        .collect();
    assert_eq!(found, expected, "{path}");
}

fn with_lines(count: usize) -> String {
    format!("//! Head.\n{}", "fn f() {}\n".repeat(count - 1))
}

#[test]
fn files_have_a_header_and_no_old_name() {
    check_file("crates/a/src/lib.rs", "//! Head.\n", &[]);
    check_file("crates/a/src/lib.rs", "use a;\n", &["1: does not begin with a `//!` header"]);
    check_file("crates/a/src/b/mod.rs", "//! Head.\n", &["1: is called mod.rs"]);
    check_file("crates/a/notes.md", "no header needed\n", &[]);
}

#[test]
fn files_are_short_but_for_tests() {
    let long = "701: has 701 lines, and a file at most 700";
    check_file("crates/a/src/b.rs", &with_lines(700), &[]);
    check_file("crates/a/src/b.rs", &with_lines(701), &[long]);
    check_file("crates/a/src/b/tests.rs", &with_lines(900), &[]);
    check_file("crates/a/tests/b.rs", &with_lines(900), &[]);
    check_file("crates/e2e/benches/b.rs", &with_lines(900), &[]);
    check_file("crates/a/src/main.rs", &with_lines(50), &[]);
    let main = "51: has 51 lines, and a main.rs at most 50";
    check_file("crates/a/src/main.rs", &with_lines(51), &[main]);
}

#[test]
fn tests_run_and_have_files_of_their_own() {
    let ignored = "//! Head.\n#[test]\n#[ignore = \"slow\"]\nfn a() {}\n";
    check_file("crates/a/tests/a.rs", ignored, &["3: ignores a test"]);
    check_file("crates/a/src/a.rs", "//! Head.\n#[cfg(test)]\nmod tests;\n", &[]);
    let below = "//! Head.\n#[cfg(test)]\n#[allow(dead_code)]\nmod tests {\n}\n";
    check_file("crates/a/src/a.rs", below, &["4: has tests below the code"]);
    check_file("crates/a/src/a.rs", "//! Head.\nmod inner {\n}\n", &[]);
}

#[test]
fn checks_are_gone_round_in_one_crate_only() {
    let keyword = concat!("un", "safe");
    let block = format!("//! Head.\nlet a = {keyword} {{ f() }};\n");
    check_file("crates/a/src/a.rs", &block, &["2: goes round the compiler's checks"]);
    check_file("crates/toolbus-sandbox/src/a.rs", &block, &[]);
    let lint = format!("//! Head.\n#![allow({keyword}_code)]\n");
    check_file("crates/a/src/a.rs", &lint, &["2: goes round the compiler's checks"]);
    check_file("crates/a/src/a.rs", &format!("//! Head.\n// It is {keyword} to wait.\n"), &[]);
}

#[test]
fn notes_say_something() {
    let what = "2: has a note for later without a text";
    for mark in [concat!("TO", "DO"), concat!("FIX", "ME")] {
        for empty in ["", ": later", "(me)"] {
            let text = format!("//! Head.\nf(); // {mark}{empty}\n");
            check_file("crates/a/src/a.rs", &text, &[what]);
        }
        let text = format!("//! Head.\n// {mark}: the broker drops the header.\n");
        check_file("crates/a/src/a.rs", &text, &[]);
    }
}

#[test]
fn registries_are_not_named() {
    let host = ["pypi", "org"].join(".");
    let what = format!("2: names the host of a package registry: {host}");
    let text = format!("//! Head.\n// from https://{host}/simple\n");
    check_file("crates/a/src/a.rs", &text, &[&what]);
    check_file("docs/a.md", &text, &[&what]);
    check_file("Cargo.lock", &text, &[]);
    check_file("docs/a.md", "the crates.io index\n", &[]);
}

/// `dependencies` are names, those for tests with `dev ` before them.
fn check_package(name: &str, dependencies: &[&str], expected: &[&str]) {
    let lines: Vec<_> = dependencies
        .iter()
        .map(|dependency| format!("{}.workspace = true\n", dependency.trim_start_matches("dev ")))
        .collect();
    let package = Package {
        name: name.to_owned(),
        manifest: format!("crates/{name}/Cargo.toml"),
        text: format!("[lints]\nworkspace = true\n{}", lines.concat()),
        dependencies: dependencies.iter().map(|dependency| dependency_of(dependency)).collect(),
    };
    let found: Vec<_> = laws::check_package(&package)
        .iter()
        .map(|mistake| format!("{}: {}", mistake.line, mistake.what))
        .collect();
    assert_eq!(found, expected, "{name}");
}

fn dependency_of(text: &str) -> Dependency {
    let name = text.trim_start_matches("dev ");
    Dependency { name: name.to_owned(), only_for_tests: name != text }
}

#[test]
fn services_do_not_depend_on_services() {
    check_package("agent-host", &["toolbus-bus", "toolbus-mcp", "toolbus-face"], &[]);
    check_package("toolbus-face", &["toolbus-tools", "toolbus-mcp-agent", "rmcp"], &[]);
    let what = "4: agent-host is a service and depends on the service mcp-bridge";
    check_package("agent-host", &["toolbus-bus", "mcp-bridge"], &[what]);
    check_package("agent-host", &["toolbus-bus", "dev mcp-bridge"], &[what]);
    check_package("e2e", &["dev agent-host", "dev mcp-bridge", "dev lapin"], &[]);
}

#[test]
fn reserved_crates_stay_where_they_are() {
    check_package("toolbus-rabbitmq", &["lapin"], &[]);
    let lapin = "3: lapin may only be used by toolbus-rabbitmq, e2e";
    check_package("toolbus-bus", &["lapin"], &[lapin]);
    check_package("toolbus-testkit", &["lapin"], &[lapin]);
    let kube = "3: kube may only be used by toolbus-pods";
    check_package("agent-host", &["kube"], &[kube]);
    let users = "toolbus-mcp, toolbus-face, openrouter-mcp, chaos, conformance, e2e";
    let rmcp = format!("3: rmcp may only be used by {users}");
    check_package("mcp-bridge", &["dev rmcp"], &[&rmcp]);
}

#[test]
fn dependencies_point_downwards() {
    check_package("toolbus-tools", &["toolbus-bus"], &[]);
    check_package("toolbus-sandbox", &["toolbus-scripts", "toolbus-tools"], &[]);
    let up = "3: toolbus-bus depends on toolbus-tools, which is in a layer above it";
    check_package("toolbus-bus", &["toolbus-tools"], &[up]);
    check_package("toolbus-bus", &["dev toolbus-tools"], &[]);
    check_package("toolbus", &["toolbus-face", "toolbus-mcp", "toolbus-sandbox"], &[]);
    let frame = "3: toolbus depends on toolbus-runtime, which is in a layer above it";
    check_package("toolbus", &["toolbus-runtime"], &[frame]);
    check_package("agent-host", &["toolbus"], &[]);
    let place = "1: toolbus-common has no place among the layers";
    check_package("toolbus-common", &["serde"], &[place]);
}

#[test]
fn every_place_among_the_layers_is_taken() {
    let absent = laws::check_places(&[]);
    assert!(absent.iter().any(|mistake| mistake.what.starts_with("toolbus-bus has a place")));
    assert!(absent.iter().any(|mistake| mistake.what.starts_with("toolbus-testkit has a place")));
}

#[test]
fn development_crates_are_for_tests() {
    check_package("toolbus-mcp", &["dev toolbus-testkit"], &[]);
    let what = "3: toolbus-testkit is for tests and may only be a dev-dependency";
    check_package("toolbus-mcp", &["toolbus-testkit"], &[what]);
}

#[test]
fn packages_are_found_by_name_and_have_the_lints() {
    let package = Package {
        name: "toolbus-bus".to_owned(),
        manifest: "crates/bus/Cargo.toml".to_owned(),
        text: "[package]\nname = \"toolbus-bus\"\n".to_owned(),
        dependencies: Vec::new(),
    };
    let found: Vec<_> = laws::check_package(&package)
        .into_iter()
        .map(|mistake| (mistake.line, mistake.what))
        .collect();
    let expected = [
        (2, "the package toolbus-bus is not in the folder crates/toolbus-bus".to_owned()),
        (1, "toolbus-bus does not have the workspace's lints".to_owned()),
    ];
    assert_eq!(found, expected);
}
