//! Settings of toolkits that a build may leave out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{Environment, Mistakes, SettingsFile, Sources, load};

use crate::{GoogleSettings, LinkedInSettings};

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// Gmail and Calendar.
    google: GoogleSettings,
    /// LinkedIn.
    linkedin: LinkedInSettings,
}

impl toolbus_config::Settings for Settings {
    fn check(&self, mistakes: &mut Mistakes<'_>) {
        self.google.check(mistakes);
        self.linkedin.check(mistakes);
    }
}

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

#[test]
fn settings_of_a_toolkit_that_is_off_are_accepted_by_every_build() {
    assert_eq!(mistakes("[google]\ntimeout = \"10s\"\n[linkedin]\nenabled = false"), "");
}

#[test]
fn a_toolkit_can_be_enabled_where_its_feature_is_built() {
    let google = "[google]\nclient_id = \"i\"\nclient_secret = \"s\"";
    assert_eq!(mistakes(google).is_empty(), cfg!(feature = "google"));
    let linkedin = "[linkedin]\nenabled = true";
    assert_eq!(mistakes(linkedin).is_empty(), cfg!(feature = "linkedin"));
}

#[cfg(not(feature = "google"))]
#[test]
fn a_build_without_google_refuses_its_client_and_names_the_feature() {
    let mistakes = mistakes("[google]\nclient_id = \"i\"");
    let expected = "this build has no Google toolkit; build with --features google";
    assert!(mistakes.contains("google.client_id") && mistakes.contains(expected), "{mistakes}");
}

#[cfg(not(feature = "linkedin"))]
#[test]
fn a_build_without_linkedin_refuses_to_enable_it_and_names_the_feature() {
    let mistakes = mistakes("[linkedin]\nenabled = true");
    let expected = "this build has no LinkedIn toolkit; build with --features linkedin";
    assert!(mistakes.contains("linkedin.enabled") && mistakes.contains(expected), "{mistakes}");
}
