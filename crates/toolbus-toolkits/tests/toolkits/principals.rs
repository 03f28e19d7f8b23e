//! For whom toolkits are there.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use toolbus_toolkits::anthropic_usage::{self, AnthropicUsageSettings};
use toolbus_toolkits::files::FilesSettings;
use toolbus_toolkits::google::{self, Google, GoogleDeps};
use toolbus_toolkits::linkedin::{self, LinkedIn};
use toolbus_toolkits::{CredentialPlaces, GoogleSettings, LinkedInSettings};
use toolbus_tools::call::Call;
use toolbus_tools::{Invoker, Principal, Registry};
use toolbus_wire::ErrorCode;

use crate::support::scope_of;

/// The toolkits of accounts, for the principals of their defaults or these.
fn accounts(principals: Option<&[&str]>) -> Invoker {
    let principals: Option<Vec<String>> =
        principals.map(|globs| globs.iter().map(|glob| (*glob).to_owned()).collect());
    let named = |default: Vec<String>| principals.clone().unwrap_or(default);
    let key = || Some("canary-key".to_owned().into());
    let nowhere = || CredentialPlaces { environment: None, vault: None };
    let registry = Registry::new();

    let settings =
        GoogleSettings { client_id: key(), client_secret: key(), ..GoogleSettings::default() };
    let settings = GoogleSettings { principals: named(settings.principals.clone()), ..settings };
    let deps = GoogleDeps { credentials: nowhere(), ..GoogleDeps::default() };
    google::register(&registry, Google::new(&settings, deps).expect("a client")).expect("names");
    let settings = LinkedInSettings::default();
    let settings = LinkedInSettings { principals: named(settings.principals.clone()), ..settings };
    linkedin::register(&registry, LinkedIn::new(&settings).expect("a client")).expect("names");
    let settings = AnthropicUsageSettings { api_key: key(), ..AnthropicUsageSettings::default() };
    let principals = named(settings.principals.clone());
    let settings = AnthropicUsageSettings { principals, ..settings };
    assert!(anthropic_usage::register(&registry, &settings, &nowhere()).expect("a name"));
    Invoker::new(Arc::new(registry))
}

async fn check(invoker: &Invoker, principal: Principal, is_there: bool) {
    let snapshot = invoker.registry().snapshot();
    let scope = scope_of(principal);
    let seen = snapshot.seen_by(&scope).count();
    assert_eq!(seen, if is_there { snapshot.tools().len() } else { 0 }, "{scope:?}");

    // Without arguments none of them gets further than to the schema.
    for entry in snapshot.tools() {
        let tool = &entry.tool.name;
        let call = Call::by_name(&scope, tool, json!({"limit": {}, "timeMin": {}})).expect(tool);
        let error = invoker.invoke(call).await.expect_err(tool);
        let is_found = error.code == ErrorCode::InvalidArguments;
        assert_eq!(is_found, is_there, "{tool}: {error}");
        assert_eq!(error.code == ErrorCode::ToolNotFound, !is_there, "{tool}: {error}");
    }
}

#[tokio::test]
async fn toolkits_of_accounts_are_there_for_who_runs_the_program_alone() {
    let invoker = accounts(None);
    assert_eq!(invoker.registry().snapshot().tools().len(), 9);
    check(&invoker, Principal::local(), true).await;
    for other in ["local", "mcp", "local:local"] {
        check(&invoker, Principal::claimed(other), false).await;
    }
}

#[tokio::test]
async fn settings_name_for_whom_else_toolkits_are_there() {
    let invoker = accounts(Some(&["local:*", "claimed:mcp"]));
    check(&invoker, Principal::local(), true).await;
    check(&invoker, Principal::claimed("mcp"), true).await;
    check(&invoker, Principal::claimed("mcp2"), false).await;
    let nobody = accounts(Some(&["nonsense"]));
    check(&nobody, Principal::local(), false).await;
}

#[test]
fn files_of_home_folders_are_there_for_who_runs_the_program_alone() {
    let check = |folder: &str, beside: &[&str], globs: &[&str], is_there: bool| {
        let settings = FilesSettings {
            working_directory: Some(PathBuf::from(folder)),
            principals: globs.iter().map(|glob| (*glob).to_owned()).collect(),
            ..FilesSettings::default()
        };
        let beside: Vec<PathBuf> = beside.iter().map(PathBuf::from).collect();
        let audience = settings.audience(&beside);
        assert_eq!(audience.has(&Principal::claimed("mcp")), is_there, "{folder} {globs:?}");
    };
    check("/srv/work", &[], &[], true);
    check("/srv/work", &["/srv/compilers"], &[], true);
    check("/srv/work", &["/home/ana/.cargo"], &[], false);
    check("/srv/work", &[], &["local:*"], false);
    check("/home/ana/work", &[], &[], false);
    check("/home", &[], &[], false);
    check("/home/ana/work", &[], &["local:*", "claimed:mcp"], true);
}
