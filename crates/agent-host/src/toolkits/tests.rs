use std::path::PathBuf;

use super::*;

async fn describe(settings: &Settings) -> Vec<ToolkitStatus> {
    let deps = ToolkitDeps::default();
    Toolkits::start(settings, &Health::new(), deps).await.describe(None).await
}

fn names(toolkit: &ToolkitStatus) -> Vec<&str> {
    toolkit.tools.iter().map(|tool| tool.name.as_str()).collect()
}

/// Settings in which all is on that needs neither a sandbox nor a key.
fn configured(folder: &tempfile::TempDir) -> Settings {
    let mut settings = Settings::default();
    let folder = folder.path().canonicalize().expect("it is there");
    settings.files.working_directory = Some(folder);
    settings.web.enabled = true;
    settings.web.api_key = Some("canary-search".to_owned().into());
    settings.linkedin.enabled = true;
    settings.anthropic_usage.api_key = Some("canary-usage".to_owned().into());
    settings.google.client_id = Some("canary-id".to_owned().into());
    settings.google.client_secret = Some("canary-secret".to_owned().into());
    settings
}

#[tokio::test]
async fn without_settings_each_is_off_for_a_reason() {
    let mut settings = Settings::default();
    // The key may be in the environment of who runs the tests.
    settings.anthropic_usage.api_key = Some("${TOOLBUS_TEST_NO_SUCH_KEY}".to_owned().into());
    settings.google.client_id = settings.anthropic_usage.api_key.clone();
    let toolkits = describe(&settings).await;
    let told: Vec<_> = toolkits
        .iter()
        .map(|toolkit| (toolkit.name, toolkit.on, toolkit.reason.as_deref().unwrap_or_default()))
        .collect();
    let usage = "no key: anthropic_usage.api_key names the variable TOOLBUS_TEST_NO_SUCH_KEY, which \
                 is not set";
    let google = match cfg!(feature = "google") {
        true => usage.replace("anthropic_usage.api_key", "google.client_id"),
        false => "this build has no Google toolkit; build with --features google".to_owned(),
    };
    let linkedin = match cfg!(feature = "linkedin") {
        true => "linkedin.enabled is false",
        false => "this build has no LinkedIn toolkit; build with --features linkedin",
    };
    let expected = [
        ("files", false, "files.working_directory is not set"),
        ("bash", false, "bash.enabled is false"),
        ("web", false, "web.enabled is false"),
        ("rest", false, "rest.endpoints and rest.openapi have none"),
        ("linkedin", false, linkedin),
        ("anthropic_usage", false, usage),
        ("google", false, &google),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_toolkit_that_is_off_names_the_tools_that_it_has_when_it_is_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (on, off) = (describe(&configured(&folder)).await, describe(&Settings::default()).await);
    for (on, off) in on.iter().zip(&off).filter(|(on, _)| !matches!(on.name, "bash" | "rest")) {
        // Without a vault nobody has logged in.
        let is_built = on.name != "linkedin" || cfg!(feature = "linkedin");
        assert_eq!(on.on, on.name != "google" && is_built, "{on:?}");
        let (mut registered, mut named) = (names(on), names(off));
        registered.sort_unstable();
        named.sort_unstable();
        assert_eq!(registered, named);
    }
}

#[tokio::test]
async fn it_is_told_for_whom_toolkits_are_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = configured(&folder);
    settings.files.principals = vec!["local:*".to_owned(), "claimed:mcp".to_owned()];
    settings.anthropic_usage.principals = vec!["*".to_owned()];
    let toolkits = describe(&settings).await;
    let told = |name: &str| {
        let toolkit = toolkits.iter().find(|toolkit| toolkit.name == name).expect("it is told");
        (toolkit.principals.join(" "), toolkit.is_for_everybody())
    };
    for (name, principals, is_for_everybody) in [
        ("files", "local:* claimed:mcp", false),
        ("bash", "local:* claimed:mcp", false),
        ("web", "*", true),
        ("linkedin", "local:*", false),
        ("anthropic_usage", "*", true),
        ("google", "local:*", false),
    ] {
        assert_eq!(told(name), (principals.to_owned(), is_for_everybody), "{name}");
    }
}

#[tokio::test]
async fn what_is_on_and_does_not_work_is_off_and_down() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = configured(&folder);
    settings.files.working_directory = Some(PathBuf::from("/nowhere/work"));
    settings.bash.enabled = true;
    let health = Health::new();
    let toolkits = Toolkits::start(&settings, &health, ToolkitDeps::default()).await;
    let toolkits = toolkits.describe(None).await;
    for toolkit in &toolkits[..2] {
        let reason = toolkit.reason.as_deref().unwrap_or_default();
        assert!(!toolkit.on && reason.contains("cannot be used"), "{toolkit:?}");
    }
    let status = health.status().to_string();
    assert!(status.contains("\"files\"") && status.contains("\"bash\""), "{status}");
}

#[tokio::test]
async fn a_search_without_a_key_is_off_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = configured(&folder);
    settings.web.api_key = Some("${TOOLBUS_TEST_NO_SUCH_KEY}".to_owned().into());
    let toolkits = describe(&settings).await;
    let web = toolkits.iter().find(|toolkit| toolkit.name == "web").expect("it is listed");
    let off: Vec<_> = web.tools.iter().filter(|tool| !tool.on).collect();
    assert!(web.on && off.len() == 1 && off[0].name == "web_search", "{web:?}");
    assert!(off[0].reason.as_deref().is_some_and(|reason| reason.contains("web.api_key")));
}

#[cfg(feature = "google")]
#[tokio::test]
async fn mx_r5_a_client_of_google_without_its_secret_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = configured(&folder);
    settings.google.client_secret = Some("${TOOLBUS_TEST_NO_SUCH_KEY}".to_owned().into());
    let find = async |settings: &Settings| {
        let toolkits = describe(settings).await;
        let google = toolkits.into_iter().find(|toolkit| toolkit.name == "google");
        google.and_then(|google| google.reason).expect("a reason")
    };
    let expected = "no key: google.client_secret names the variable TOOLBUS_TEST_NO_SUCH_KEY, \
                    which is not set";
    assert_eq!(find(&settings).await, expected);
    let reason = find(&configured(&folder)).await;
    assert!(reason.contains("set vault.key_file"), "{reason}");
}
