//! What commands name is there, whether they are run or excused: options and commands of our
//! programs, scripts of the workspace and their options, values of the chart.

use std::collections::BTreeMap;
use std::process::Command as Process;

use serde_json::Value;
use toolbus_testkit::process::binary;

use crate::blocks::{blocks_of, commands_of, pages, root};

const OURS: [&str; 4] = ["agent-host", "mcp-bridge", "scripts-manager", "openrouter-mcp"];
/// How a path begins that is one of the workspace.
const FOLDERS: [&str; 5] = ["dev/", "docker/", "deploy/", "helm/", ".ci/"];

/// What programs say of themselves, by their words on the command line.
#[derive(Default)]
struct Helps(BTreeMap<String, String>);

impl Helps {
    fn of(&mut self, words: &[&str]) -> &str {
        self.0.entry(words.join(" ")).or_insert_with(|| {
            let mut command = Process::new(binary(words[0]).unwrap());
            let output = command.args(&words[1..]).arg("--help").output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        })
    }

    /// What a command of ours names that there is not.
    fn faults(&mut self, words: &[&str]) -> Vec<String> {
        let mut path = vec![words[0]];
        let mut faults = Vec::new();
        for word in &words[1..] {
            if *word == "--" {
                break;
            }
            let has_commands = self.of(&path).contains("\nCommands:\n");
            if let Some(option) = word.strip_prefix("--") {
                let option = format!("--{}", option.split('=').next().unwrap_or_default());
                if !has_option(self.of(&path), &option) {
                    faults.push(format!("{} has no {option}", path.join(" ")));
                }
            } else if has_commands && lists_command(self.of(&path), word) {
                path.push(word);
            } else if has_commands && path.len() > 1 {
                faults.push(format!("{} has no command {word}", path.join(" ")));
                break;
            }
        }
        faults
    }
}

fn has_option(help: &str, option: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '-';
    help.match_indices(option).any(|(at, _)| !help[at + option.len()..].starts_with(is_letter))
}

fn lists_command(help: &str, word: &str) -> bool {
    let commands = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let commands = commands.lines().take_while(|line| line.starts_with(' '));
    commands.into_iter().any(|line| line.split_whitespace().next() == Some(word))
}

/// The words of a command, cut at what ends one in a shell; what is quoted is one word.
fn words_of(text: &str) -> Vec<Vec<String>> {
    let mut found = vec![Vec::new()];
    let mut word = String::new();
    let mut quote = None;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, '\\') => {
                characters.next();
            }
            (None, ' ' | '\n' | '|' | '&' | ';' | '(' | ')' | '<' | '>') => {
                let ended = std::mem::take(&mut word);
                if let Some(words) = found.last_mut().filter(|_| !ended.is_empty()) {
                    words.push(ended);
                }
                if !matches!(character, ' ') {
                    found.push(Vec::new());
                }
            }
            _ => word.push(character),
        }
    }
    if let Some(words) = found.last_mut().filter(|_| !word.is_empty()) {
        words.push(word);
    }
    found
}

/// What one simple command names that there is not.
fn faults_of(words: &[&str], helps: &mut Helps) -> Vec<String> {
    let is_variable = |word: &&&str| word.split('=').next().is_some_and(is_name);
    let start = words.iter().take_while(is_variable).filter(|word| word.contains('=')).count();
    let words = &words[start..];
    let mut faults = Vec::new();
    let Some(first) = words.first() else { return faults };

    // `docker compose exec SERVICE PROGRAM …` starts one of ours, too.
    if let Some(at) = words.iter().rposition(|word| OURS.contains(word)) {
        let is_started = at == 0 || words[..at].contains(&"exec");
        if is_started {
            faults.extend(helps.faults(&words[at..]));
        }
    }
    for word in words.iter().filter(|word| FOLDERS.iter().any(|top| word.starts_with(top))) {
        if !root().join(word).exists() {
            faults.push(format!("there is no {word}"));
        }
    }
    if FOLDERS.iter().any(|top| first.starts_with(top)) && root().join(first).is_file() {
        let script = std::fs::read_to_string(root().join(first)).unwrap();
        let options = words[1..].iter().filter(|word| word.starts_with("--"));
        let options = options.filter(|option| !has_option(&script, option));
        faults.extend(options.map(|option| format!("{first} has no {option}")));
    }
    if *first == "cargo" && words.get(1) == Some(&"xtask") {
        let usage = std::fs::read_to_string(root().join("xtask/src/usage.txt")).unwrap();
        let task = words.get(2).copied().unwrap_or_default();
        if !usage.lines().any(|line| line.split_whitespace().next() == Some(task)) {
            faults.push(format!("cargo xtask has no {task}"));
        }
    }
    if *first == "helm" {
        let values = words.windows(2).filter(|pair| pair[0] == "--set").map(|pair| pair[1]);
        faults.extend(
            values
                .flat_map(keys_of)
                .filter(|key| !has_value(key))
                .map(|key| format!("the chart has no value {key}")),
        );
    }
    faults
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// The keys of `a.b=c,d=e`; what is in braces is one value.
fn keys_of(values: &str) -> Vec<String> {
    let mut depth = 0;
    let pieces = values.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    pieces.filter_map(|piece| Some(piece.split_once('=')?.0.to_owned())).collect()
}

/// Whether the schema of the chart's values has this one, or takes any there.
fn has_value(key: &str) -> bool {
    let schema = std::fs::read_to_string(root().join("helm/toolbus/values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let mut at = &schema;
    for name in key.split('.') {
        if at["properties"].is_null() {
            return at["additionalProperties"] != false;
        }
        let next = &at["properties"][name];
        if next.is_null() {
            return false;
        }
        at = next;
    }
    true
}

#[test]
fn what_commands_name_is_there() {
    let mut helps = Helps::default();
    let mut faults = Vec::new();
    for page in pages() {
        let blocks = blocks_of(&page);
        for command in commands_of(&blocks).into_iter().flat_map(|(_, commands)| commands) {
            for words in words_of(command.text.split("<<'").next().unwrap_or_default()) {
                let words: Vec<_> = words.iter().map(String::as_str).collect();
                let found = faults_of(&words, &mut helps);
                faults
                    .extend(found.iter().map(|fault| format!("{page}:{}: {fault}", command.line)));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_is_not_there_is_found() {
    let check = |text: &str, expected: &[&str]| {
        let mut helps = Helps::default();
        let all = words_of(text);
        let faults: Vec<_> = all
            .iter()
            .map(|words| words.iter().map(String::as_str).collect::<Vec<_>>())
            .flat_map(|words| faults_of(&words, &mut helps))
            .collect();
        assert_eq!(faults, expected, "{text}");
    };
    check("A=b agent-host invoke x --json '{\"--none\": 1}' | cat", &[]);
    check("agent-host invoke x --jso", &["agent-host invoke has no --jso"]);
    check("a && agent-host approvals grant 1", &["agent-host approvals has no command grant"]);
    check("docker compose exec x agent-host tools --al", &["agent-host tools has no --al"]);
    check("dev/setup --run", &[]);
    check("dev/setup --runs; dev/none", &["dev/setup has no --runs", "there is no dev/none"]);
    check("cargo xtask none", &["cargo xtask has no none"]);
    check("helm install a --set agent.name=b,scripts.warm.size=1", &[]);
    let wrong = ["the chart has no value agent.nam", "the chart has no value scripts.warm.siz"];
    check(
        "helm install a --set agent.nam=b --set c={d,e},scripts.warm.siz=1",
        &[wrong[0], "the chart has no value c", wrong[1]],
    );
}
