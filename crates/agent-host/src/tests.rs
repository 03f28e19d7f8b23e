//! Builds without optional parts: which parts there are, and what a build says of one that it lacks.

use toolbus_config::build_features::BuildFeature;
use toolbus_config::{Environment, SettingsFile, Sources, build_features, load};

use crate::LEFT_OUT;
use crate::settings::Settings;

const MANIFEST: &str = include_str!("../Cargo.toml");

/// Returns the mistakes in a settings file; an empty text if there are none.
fn mistakes(file: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("toolbus.toml");
    std::fs::write(&path, file).expect("it is written");
    let environment: Environment = std::iter::empty::<(String, String)>().collect();
    let sources = Sources {
        file: SettingsFile::IfPresent(path),
        aliases: &[],
        derived: Vec::new(),
        environment: &environment,
        arguments: Vec::new(),
    };
    let loaded = load::<Settings>(sources);
    loaded.err().map(|errors| errors.to_string()).unwrap_or_default()
}

/// Checks settings that need a part: a build without it refuses them, with the feature's name.
fn check(feature: BuildFeature, file: &str, key: &str) {
    let mistakes = mistakes(file);
    let name = format!("build with --features {}", feature.name());
    match LEFT_OUT.contains(&feature) {
        true => assert!(mistakes.contains(key) && mistakes.contains(&name), "{mistakes}"),
        false => assert_eq!(mistakes, "", "{file}"),
    }
}

#[test]
fn full_has_every_part_that_a_build_may_leave_out() {
    let names = BuildFeature::ALL.map(BuildFeature::name);
    assert!(MANIFEST.contains(&format!("\nfull = {names:?}\n")), "{names:?}");
    assert!(MANIFEST.contains("\ndefault = [\"full\"]\n"));
}

#[test]
fn settings_need_the_parts_that_they_name() {
    check(BuildFeature::Postgres, "store = \"postgres://ada:secret@db.example/toolbus\"", "store");
    check(BuildFeature::S3, "[artifacts]\nplace = \"s3://bucket/prefix\"", "artifacts.place");
    check(BuildFeature::Linkedin, "[linkedin]\nenabled = true", "linkedin.enabled");
    let google = "[google]\nclient_id = \"i\"\nclient_secret = \"s\"";
    check(BuildFeature::Google, google, "google.client_id");
    let model = "[discovery.embeddings]\ntransformer = \"model\"";
    check(BuildFeature::Embeddings, model, "discovery.embeddings.transformer");
}

#[test]
fn doctor_reports_the_parts_that_are_left_out() {
    let found = build_features::examine("agent-host", LEFT_OUT);
    assert_eq!(found.is_none(), LEFT_OUT.is_empty());
    for feature in LEFT_OUT {
        let detail = &found.as_ref().expect("a finding").detail;
        assert!(detail.contains(&format!("({})", feature.name())), "{detail}");
    }
}

#[cfg(not(feature = "google"))]
#[tokio::test]
async fn a_login_at_google_needs_its_toolkit() {
    use clap::Parser as _;
    use toolbus_runtime::health::Health;
    use toolbus_runtime::service::{Context, Exit, Shutdown};
    use toolbus_runtime::telemetry::Identity;

    use crate::arguments::Arguments;
    use crate::policy_reload::SettingsSource;

    let identity = Identity { program: "test", version: "0", instance: "1".to_owned(), name: None };
    let (shutdown, health) = (Shutdown::new(), Health::new());
    let context = Context { identity, shutdown, health, health_address: None, quiet: true };
    for command in ["login", "logout"] {
        let arguments = Arguments::parse_from(["agent-host", command, "google"]);
        let (program, own) = (crate::PROGRAM, Vec::new());
        let source = SettingsSource { program, common: arguments.common, own };
        let command = arguments.command.expect("a command");
        let settings = Settings::default();
        let exit = crate::command::run(command, settings, source, context.clone()).await;
        assert_eq!(exit.expect("an exit"), Exit::MISUSE);
    }
}
