//! What Helm prints after an installation: the next commands, and what is still to be set.
//!
//! Helm renders notes for a cluster alone. Here they are made a value of a manifest, in a copy of
//! the chart, so that no cluster is needed.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use toolbus_testkit::tools::{self, Helm, output};

use super::{EVERYTHING, KUBERNETES, SMALLEST, TRIAL};

fn notes(helm: &Helm, values: &[&str]) -> String {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../helm/toolbus");
    let copy = tempfile::tempdir().unwrap();
    output(Command::new("cp").arg("-r").arg(chart).arg(copy.path())).unwrap();
    let chart = copy.path().join("toolbus");
    let templates = chart.join("templates");

    let text = fs::read_to_string(templates.join("NOTES.txt")).unwrap();
    let defined = format!("{{{{- define \"notes\" -}}}}\n{text}{{{{- end -}}}}");
    fs::write(templates.join("_notes.tpl"), defined).unwrap();
    let manifest = "notes: {{ include \"notes\" . | toJson }}";
    fs::write(templates.join("notes.yaml"), manifest).unwrap();

    let mut command = helm.command();
    command.args(["template", "fleet"]).arg(&chart).args(["--namespace", "agents"]);
    command.args(["--kube-version", KUBERNETES, "--show-only", "templates/notes.yaml"]);
    for value in values {
        command.args(["--set", value]);
    }

    let rendered = output(&mut command).unwrap();
    let (_, notes) = rendered.split_once("notes: ").unwrap();
    serde_json::from_str::<Value>(notes.trim()).unwrap().as_str().unwrap().to_owned()
}

#[test]
fn notes_say_what_to_do_next() {
    let Some(helm) = tools::helm() else { return };
    insta::assert_snapshot!("smallest", notes(&helm, SMALLEST));
    insta::assert_snapshot!("everything", notes(&helm, EVERYTHING));
    insta::assert_snapshot!("trial", notes(&helm, TRIAL));
}

/// A trial on memory waits for no volume, and a port that is open to somebody is not told as closed.
#[test]
fn notes_leave_out_what_is_set() {
    let Some(helm) = tools::helm() else { return };
    let check = |values: &[&str], part: &str, is_there: bool| {
        let notes = notes(&helm, values);
        assert_eq!(notes.contains(part), is_there, "{values:?}, {part}: {notes}");
    };

    check(TRIAL, "persistentvolumeclaims", true);
    let memory = [TRIAL, &["rabbitmq.persistence.enabled=false"]].concat();
    check(&memory, "persistentvolumeclaims", false);

    let open = [TRIAL, &["agentHost.mcp.enabled=true"]].concat();
    check(&open, "networkPolicy.agentHostFrom", true);
    let named = [&open[..], &["networkPolicy.agentHostFrom[0].podSelector.a=b"]].concat();
    check(&named, "networkPolicy.agentHostFrom", false);

    let drawn = "get secret fleet-toolbus-clients --output jsonpath='{.data.client}'";
    check(TRIAL, "Authorization: Bearer TOKEN", false);
    check(&open, drawn, true);
    let own = [&open[..], &["agentHost.clients.existingSecret=mine"]].concat();
    check(&own, "get secret mine\n", true);
    let anonymous = [&open[..], &["agentHost.clients.anonymous=true"]].concat();
    check(&anonymous, "Authorization: Bearer TOKEN", false);
    check(&anonymous, "Clients need no token", true);
}
