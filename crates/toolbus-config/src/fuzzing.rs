//! The parsers of this crate as targets of a fuzzer.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::file;
use crate::shared_settings::{BusSettings, LogSettings, ShutdownSettings};
use crate::{
    BusUrls, ByteSize, ConfiguredAddress, HttpUrl, KeyReference, ListenAddress, LogFilter, MASK,
    Mistake, Secret, Settings, TimeSpan, set_value,
};

/// Longest value that is set, and longest text that it is set in, in bytes: no file comes to have
/// more values or a deeper nesting than is read.
const SET_BYTES_MAX: usize = 64;
const EDITED_BYTES_MAX: usize = 16 << 10;

/// Settings with a value of each kind.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Sample {
    verbose: bool,
    ratio: f64,
    ports: Vec<u16>,
    key: Option<Secret>,
    bus: BusSettings,
    log: LogSettings,
    servers: BTreeMap<String, ShutdownSettings>,
}

impl Settings for Sample {}

/// Reads a settings file.
pub fn settings_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = find_mistakes(text);
}

/// Sets the value of the second line at the key in the first, in the text of a settings file, which
/// follows. What had no mistakes has none afterwards.
pub fn settings_edit(bytes: &[u8]) {
    let Ok(input) = std::str::from_utf8(bytes) else { return };
    let mut parts = input.splitn(3, '\n');
    let [key, value, text] = [(); 3].map(|()| parts.next().unwrap_or_default());
    let Ok(edited) = set_value::<Sample>(text, key, value) else { return };
    let is_short = value.len() <= SET_BYTES_MAX && text.len() <= EDITED_BYTES_MAX;
    if is_short && find_mistakes(text).is_empty() {
        let mistakes = find_mistakes(&edited.text);
        assert!(mistakes.is_empty(), "{:?}: {}", edited.text, mistakes[0]);
    }
}

/// Reads a text as a value of each kind that settings have. What is printed of one is read as the
/// same, and passwords are masked.
pub fn text_value(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    check_printed::<TimeSpan>(text);
    check_printed::<ByteSize>(text);
    check_printed::<ListenAddress>(text);
    check_printed::<LogFilter>(text);

    if let Ok(url) = text.parse::<HttpUrl>() {
        let shown = Url::parse(&url.to_string()).expect("a URL that is shown");
        assert!(shown.password().is_none() && matches!(shown.username(), "" | MASK));
        let _ = url.below(&["v1", "traces"]);
    }
    // What is shown of an address has nothing more to hide.
    let shown = ConfiguredAddress::from(text).to_string();
    assert_eq!(ConfiguredAddress::from(shown.as_str()).to_string(), shown);
    if let Ok(urls) = text.parse::<BusUrls>() {
        let _ = (urls.to_string(), urls.expose(), urls.parameters("heartbeat"));
    }
    let _ = KeyReference::parse(&Secret::from(text.to_owned()));
}

fn check_printed<T: FromStr + Display>(text: &str) {
    let Ok(value) = text.parse::<T>() else { return };
    let printed = value.to_string();
    let again = printed.parse::<T>().ok().map(|value| value.to_string());
    assert_eq!(again.as_deref(), Some(printed.as_str()), "{text:?}");
}

fn find_mistakes(text: &str) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let _ = file::parse(Path::new("settings.toml"), text, &mut mistakes);
    mistakes
}
