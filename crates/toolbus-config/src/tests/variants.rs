//! Tagged enums in lists and maps: mistakes of the chosen variant, origins of each part, and maps
//! that the environment fills.

use super::*;

/// Settings that hold tagged enums wherever these may be.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Agent {
    /// What may be called, the first rule that matches.
    rules: Vec<Rule>,
    /// Models by name.
    models: BTreeMap<String, Model>,
    /// What is used when nothing else is said.
    fallback: Option<Model>,
    /// Ports to try.
    ports: Vec<u16>,
}

/// A rule.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
enum Rule {
    /// The call runs.
    Allow {
        /// The tools.
        tools: Vec<String>,
    },
    /// A person is asked.
    Ask {
        /// The tools.
        tools: Vec<String>,
        /// How long an answer is waited for.
        timeout: TimeSpan,
    },
    /// No call runs.
    DenyAll,
}

/// A model.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "provider", rename_all = "snake_case")]
enum Model {
    Remote(Remote),
    Local(Local),
}

/// A model behind an API.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Remote {
    /// Its key.
    key: Secret,
    /// Requests a minute.
    limit: u32,
}

/// A model of this machine.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Local {
    /// Its file.
    file: String,
    /// How much memory it may have.
    limit: ByteSize,
}

impl Settings for Agent {
    fn check(&self, mistakes: &mut Mistakes<'_>) {
        for (position, rule) in self.rules.iter().enumerate() {
            if matches!(rule, Rule::Ask { timeout, .. } if timeout.duration().is_zero()) {
                mistakes.add(&format!("rules[{position}].timeout"), "must be more than nothing");
            }
        }
    }
}

fn load_agent(file: &str, environment: &[(&str, &str)]) -> Result<Loaded<Agent>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toolbus.toml");
    std::fs::write(&path, file).unwrap();
    let environment: Environment =
        environment.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();

    load(Sources {
        file: SettingsFile::IfPresent(path),
        aliases: &[],
        derived: Vec::new(),
        environment: &environment,
        arguments: Vec::new(),
    })
    .map_err(|errors| without_folder(&errors.to_string()))
}

const FILE: &str = "
ports = [
    80,
    443,
]

[[rules]]
decision = 'allow'
tools = ['a', 'b']

[[rules]]
decision = 'ask'
tools = []
timeout = '30s'

[[rules]]
decision = 'deny_all'

[models.big]
provider = 'remote'
key = 'hunter2'
limit = 60

[fallback]
provider = 'local'
file = 'small.gguf'
limit = '1GiB'
";

#[test]
fn variants_are_read_from_a_file() {
    let settings = load_agent(FILE, &[]).unwrap().settings;
    let rules = vec![
        Rule::Allow { tools: vec!["a".to_owned(), "b".to_owned()] },
        Rule::Ask { tools: Vec::new(), timeout: TimeSpan::seconds(30) },
        Rule::DenyAll,
    ];
    assert_eq!(settings.rules, rules);
    let big = Remote { key: Secret::from("hunter2".to_owned()), limit: 60 };
    assert_eq!(settings.models, BTreeMap::from([("big".to_owned(), Model::Remote(big))]));
    let small = Local { file: "small.gguf".to_owned(), limit: ByteSize::mebibytes(1024) };
    assert_eq!(settings.fallback, Some(Model::Local(small)));
}

#[test]
fn the_environment_fills_a_map_of_variants() {
    let environment = &[
        ("TOOLBUS_MODELS__small__PROVIDER", "local"),
        ("TOOLBUS_MODELS__small__FILE", "small.gguf"),
        // Bytes here and a number there: the tag decides, wherever it is set.
        ("TOOLBUS_MODELS__small__LIMIT", "64KiB"),
        ("TOOLBUS_MODELS__big__LIMIT", "120"),
        ("TOOLBUS_MODELS__other", r#"{"provider": "remote", "limit": 5}"#),
        ("TOOLBUS_FALLBACK__PROVIDER", "remote"),
        ("TOOLBUS_FALLBACK__LIMIT", "7"),
        ("TOOLBUS_RULES", r#"[{"decision": "deny_all"}]"#),
    ];
    let file = "[models.big]\nprovider = 'remote'\nkey = 'hunter2'";
    let loaded = load_agent(file, environment).unwrap();

    let small = Local { file: "small.gguf".to_owned(), limit: ByteSize::of_bytes(64 << 10) };
    let big = Remote { key: Secret::from("hunter2".to_owned()), limit: 120 };
    let remote = |limit| Model::Remote(Remote { limit, ..Remote::default() });
    let models = [
        ("small".to_owned(), Model::Local(small)),
        ("big".to_owned(), Model::Remote(big)),
        ("other".to_owned(), remote(5)),
    ];
    assert_eq!(loaded.settings.models, BTreeMap::from(models));
    assert_eq!(loaded.settings.fallback, Some(remote(7)));
    assert_eq!(loaded.settings.rules, [Rule::DenyAll]);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    assert_eq!(loaded.origin("models.big.limit").to_string(), "TOOLBUS_MODELS__big__LIMIT");
}

#[test]
fn mistakes_are_those_of_the_chosen_variant() {
    let file = "
ports = [
    80,
    'http',
]

[[rules]]
decision = 'allow'
tools = [
    'a',
    5,
]
timeout = '30s'

[[rules]]
decision = 'alow'
tols = []

[[rules]]
tools = []

[[rules]]
decision = 'ask'
tols = []
timeout = 'soon'

[models.big]
provider = 'remote'
file = 'big.gguf'
limit = '1GiB'

[models.small]
limit = '1GiB'
";
    let environment = &[
        ("TOOLBUS_MODELS__other__PROVIDER", "local"),
        ("TOOLBUS_MODELS__other__LIMIT", "60"),
        ("TOOLBUS_MODELS__other__KEY", "hunter2"),
        ("TOOLBUS_FALLBACK", "remote"),
    ];
    assert_snapshot!(load_agent(file, environment).unwrap_err(), @r#"
    the configuration has 14 mistakes
      fallback: the value is not a table of provider, key, limit, file (TOOLBUS_FALLBACK)
      models.big.file: unknown key where provider is "remote", known there: provider, key, limit (toolbus.toml:29)
      models.big.limit: "1GiB" is not a whole number (toolbus.toml:30)
      models.other.key: unknown key where provider is "local", known there: provider, file, limit (TOOLBUS_MODELS__other__KEY)
      models.other.limit: "60" is not a size: it has no unit (GiB, MiB, KiB, B, GB, MB, kB); for example 64KiB, 8MiB, 1GiB (TOOLBUS_MODELS__other__LIMIT)
      models.small: "provider" is missing: one of "remote", "local" (toolbus.toml:33)
      ports[1]: "http" is not a whole number (toolbus.toml:4)
      rules[0].timeout: unknown key where decision is "allow", known there: decision, tools (toolbus.toml:13)
      rules[0].tools[1]: 5 is not a text (toolbus.toml:11)
      rules[1].decision: "alow" is not one of "allow", "ask", "deny_all", did you mean "allow"? (toolbus.toml:16)
      rules[2]: "decision" is missing: one of "allow", "ask", "deny_all" (toolbus.toml:19)
      rules[3]: "tools" is missing (toolbus.toml:22)
      rules[3].timeout: "soon" is not a duration: it does not start with a whole number; for example 250ms, 30s, 5m (toolbus.toml:25)
      rules[3].tols: unknown key, did you mean `tools`? (toolbus.toml:24)
    "#);
}

#[test]
fn rules_between_fields_are_told_at_the_item() {
    let file = "[[rules]]\ndecision = 'ask'\ntools = []\ntimeout = '0s'";
    assert_snapshot!(load_agent(file, &[]).unwrap_err(), @r#"
    the configuration has a mistake
      rules[0].timeout: must be more than nothing (toolbus.toml:4)
    "#);
}

#[test]
fn each_item_and_each_entry_has_its_origin() {
    let loaded = load_agent(FILE, &[("TOOLBUS_MODELS__big__LIMIT", "61")]).unwrap();
    let check = |key: &str, expected: &str| {
        let origin = loaded.origin(key).to_string();
        assert!(origin.ends_with(expected), "{key}: {origin}");
    };
    check("ports", "toolbus.toml:2");
    check("ports[0]", "toolbus.toml:3");
    check("ports[1]", "toolbus.toml:4");
    check("rules[0]", "toolbus.toml:7");
    check("rules[1]", "toolbus.toml:11");
    check("rules[1].timeout", "toolbus.toml:14");
    check("rules[2].decision", "toolbus.toml:17");
    check("models.big.provider", "toolbus.toml:20");
    check("models.big.limit", "TOOLBUS_MODELS__big__LIMIT");
    check("models.small", "default");
}

#[test]
fn variants_are_printed_and_read_back() {
    let environment = &[("TOOLBUS_MODELS__big__LIMIT", "61")];
    let loaded = load_agent(FILE, environment).unwrap();
    let printed = without_folder(&loaded.print());
    assert_snapshot!(printed, @r#"
    ports = [80, 443]  # toolbus.toml:2

    [[rules]]
    decision = "allow"  # toolbus.toml:8
    tools = ["a", "b"]  # toolbus.toml:9

    [[rules]]
    decision = "ask"  # toolbus.toml:12
    tools = []  # toolbus.toml:13
    timeout = "30s"  # toolbus.toml:14

    [[rules]]
    decision = "deny_all"  # toolbus.toml:17

    [models.big]
    provider = "remote"  # toolbus.toml:20
    key = "***"  # toolbus.toml:21
    limit = 61  # TOOLBUS_MODELS__big__LIMIT

    [fallback]
    provider = "local"  # toolbus.toml:25
    file = "small.gguf"  # toolbus.toml:26
    limit = "1GiB"  # toolbus.toml:27
    "#);

    let again = load_agent(&printed, &[]).unwrap().settings;
    assert_eq!(again.rules, loaded.settings.rules);
    assert_eq!(again.fallback, loaded.settings.fallback);
}

#[test]
fn the_reference_page_tells_where_a_key_belongs() {
    assert_snapshot!(reference::<Agent>("Settings of the agent", &[]), @r#"
    # Settings of the agent

    Later wins: defaults, the file `toolbus.toml`, the environment, the command line.

    | key | environment | type | default | meaning |
    |---|---|---|---|---|
    | `rules` | `TOOLBUS_RULES` | list of table | `[]` | What may be called, the first rule that matches. |
    | `rules[].decision` |  | `allow` or `ask` or `deny_all` |  |  |
    | `rules[].tools` |  | list of text |  | Where `decision` is `allow` or `ask`. The tools. |
    | `rules[].timeout` |  | a duration, such as `250ms` |  | Where `decision` is `ask`. How long an answer is waited for. |
    | `models.<name>.provider` | `TOOLBUS_MODELS__<name>__PROVIDER` | `remote` or `local` |  |  |
    | `models.<name>.key` | `TOOLBUS_MODELS__<name>__KEY` | secret text |  | Where `provider` is `remote`. Its key. |
    | `models.<name>.limit` | `TOOLBUS_MODELS__<name>__LIMIT` | whole number, at least 0 |  | Where `provider` is `remote`. Requests a minute. |
    | `models.<name>.file` | `TOOLBUS_MODELS__<name>__FILE` | text |  | Where `provider` is `local`. Its file. |
    | `models.<name>.limit` | `TOOLBUS_MODELS__<name>__LIMIT` | a size, such as `64KiB` |  | Where `provider` is `local`. How much memory it may have. |
    | `fallback.provider` | `TOOLBUS_FALLBACK__PROVIDER` | `remote` or `local` | not set |  |
    | `fallback.key` | `TOOLBUS_FALLBACK__KEY` | secret text | not set | Where `provider` is `remote`. Its key. |
    | `fallback.limit` | `TOOLBUS_FALLBACK__LIMIT` | whole number, at least 0 | not set | Where `provider` is `remote`. Requests a minute. |
    | `fallback.file` | `TOOLBUS_FALLBACK__FILE` | text | not set | Where `provider` is `local`. Its file. |
    | `fallback.limit` | `TOOLBUS_FALLBACK__LIMIT` | a size, such as `64KiB` | not set | Where `provider` is `local`. How much memory it may have. |
    | `ports` | `TOOLBUS_PORTS` | list of whole number, 0 to 65535 | `[]` | Ports to try. |
    "#);
}
