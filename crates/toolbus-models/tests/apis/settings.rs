//! The section of settings, as a service reads it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{Environment, Mistakes, Settings, SettingsFile, Sources, load, reference};
use toolbus_models::{ModelSettings, Tier};

/// The settings of a service with the section.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ServiceSettings {
    /// Models.
    models: ModelSettings,
}

impl Settings for ServiceSettings {
    fn check(&self, mistakes: &mut Mistakes<'_>) {
        self.models.check("models", mistakes);
    }
}

/// The settings in a file, and what is wrong with them.
fn read(text: &str) -> Result<(ModelSettings, String), String> {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("toolbus.toml");
    std::fs::write(&path, text).expect("it is written");
    let environment = Environment::default();
    let sources = Sources {
        file: SettingsFile::IfPresent(path),
        aliases: &[],
        derived: Vec::new(),
        environment: &environment,
        arguments: Vec::new(),
    };
    let loaded = load::<ServiceSettings>(sources).map_err(|errors| errors.to_string())?;
    let printed = loaded.print();
    Ok((loaded.settings.models, printed))
}

const GOOD: &str = r#"
[models.endpoints.local]
provider = "openai"
model = "qwen3:8b"
base_url = "http://localhost:11434/v1"
calls = "text"

[models.endpoints.main]
provider = "openrouter"
model = "anthropic/claude-opus-5"
api_key = "${vault:key}"
reasoning_effort = "high"
output_tokens_max = 32000
idle_timeout = "5m"

[models.endpoints.main.prices]
input = 5
output = 25.5
cache_read = 0.5

[models.tiers]
balanced = ["main", "local"]
low = ["local"]
"#;

#[test]
fn models_are_configured_alone_by_a_file() {
    let (settings, printed) = read(GOOD).expect("they are right");
    assert_eq!(settings.endpoints_of(Tier::Low), ["local"]);
    assert_eq!(settings.endpoints_of(Tier::Balanced), ["main", "local"]);
    assert_eq!(settings.endpoints_of(Tier::High), ["main", "local"]);
    assert!(!printed.contains("vault:key"), "{printed}");
    assert!(printed.contains("qwen3:8b"), "{printed}");

    let (nothing, _) = read("").expect("they are right");
    assert_eq!(nothing, ModelSettings::default());
    assert!(nothing.endpoints_of(Tier::Low).is_empty());
}

#[test]
fn every_mistake_is_found() {
    let check = |text: &str, expected: &[&str]| {
        let mistakes = read(text).err().unwrap_or_else(|| panic!("{text} is taken"));
        for expected in expected {
            assert!(mistakes.contains(expected), "{expected}: {mistakes}");
        }
    };
    let secret = "sk-5ec2e7";
    check(
        &format!(
            "[models.tiers]\nlow = [\"none\"]\n[models.endpoints.\"a b\"]\nprovider = \"openai\"\n\
             model = \"\"\nbase_url = \"http://user:{secret}@host/v1\"\ntimeout = \"0s\"\n\
             api_key = \"${{vault:a}} {secret}\"\nprices = {{ input = -1.0, output = 1e9 }}\n"
        ),
        &[
            "models.tiers.low[0]",
            "a name has",
            "no name of a model",
            "base_url",
            "timeout",
            "api_key",
            "prices.input",
            "prices.output",
        ],
    );
    check("[models.endpoints.a]\nprovider = \"openai\"\n", &["model"]);
    check("[models.endpoints.a]\nprovider = \"other\"\nmodel = \"x\"\n", &["provider"]);
    check("[models]\nretries = 1000\n", &["retries"]);
    check("[models]\nretry_wait_max = \"0s\"\n", &["retry_wait_max"]);
    check("[models]\nunknown = 1\n", &["unknown"]);
}

#[test]
fn the_reference_describes_every_setting() {
    let page = reference::<ServiceSettings>("Service", &[]);
    for setting in ["models.endpoints.<name>.api_key", "models.tiers.high", "prices.cache_write"] {
        assert!(page.contains(setting), "{setting}: {page}");
    }
}
