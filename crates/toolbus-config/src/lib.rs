//! Layered configuration: defaults → file → environment → arguments.
//!
//! A service declares one settings struct; its JSON Schema, made from the type and its doc
//! comments, drives everything: how environment text is read, what is validated, what the
//! reference page says. The layers are merged into one JSON value that remembers where each part
//! came from, and that value is validated as a whole, so that every mistake is reported at once
//! (see `docs/adr/0001-configuration-by-schema.md`).
//!
//! Reading is a function of its [`Sources`]: nothing here looks at the process or keeps a static.
//! It runs before logs exist, so it logs nothing; warnings are handed back.

pub mod build_features;
mod changed_default;
mod edit;
mod environment;
pub mod error_chain;
mod file;
mod finding;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod key_reference;
mod load;
mod mistake;
mod origin;
mod print;
mod reference;
mod schema;
mod secret_file;
mod secret_paths;
pub mod shared_settings;
mod values;

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use changed_default::ChangedDefault;
pub use edit::{EditError, Edited, set_value};
pub use environment::{Alias, Environment, PREFIX, Setting};
pub use error_chain::on_one_line;
pub use file::SettingsFile;
pub use finding::{ClockReading, Finding, FindingState};
pub use key_reference::KeyReference;
pub use load::load;
pub use mistake::{Errors, Mistake, Mistakes, nearest_name};
pub use origin::Origin;
pub use reference::reference;
pub use secret_file::{is_open_to_others, read_private_file, read_secret_file};
pub use secret_paths::secret_paths;
pub use values::{
    BROKER_NODES_MAX, BusUrls, ByteSize, ConfiguredAddress, HttpUrl, ListenAddress, LogFilter,
    MASK, Secret, TimeSpan, split_bus_urls,
};

use origin::Origins;

/// A settings struct: `#[serde(default, deny_unknown_fields)]` on it and on every struct in it.
pub trait Settings: Serialize + DeserializeOwned + JsonSchema + Default {
    /// Adds what the schema cannot say: rules between fields. Called only when each value is right
    /// by itself.
    fn check(&self, mistakes: &mut Mistakes<'_>) {
        let _ = mistakes;
    }
}

/// The layers, lowest first.
#[derive(Debug)]
pub struct Sources<'a> {
    /// The settings file.
    pub file: SettingsFile,
    /// Other names in the environment; a later one in the table wins over an earlier one.
    pub aliases: &'a [Alias],
    /// What is derived from several variables at once, such as a URL from its parts: above the
    /// file, below the aliases.
    pub derived: Vec<Setting>,
    /// The environment: the aliases are read from it first, then the `TOOLBUS_` names.
    pub environment: &'a Environment,
    /// Command-line arguments.
    pub arguments: Vec<Setting>,
}

/// Settings that were read, and where each came from.
#[derive(Debug)]
pub struct Loaded<T> {
    /// The settings.
    pub settings: T,
    /// What is not wrong but was probably not meant; to be logged when logs exist.
    pub warnings: Vec<String>,
    origins: Origins,
}

impl<T: Settings> Loaded<T> {
    /// Where the value at a key such as `bus.prefetch` or `ports[2]` came from.
    #[must_use]
    pub fn origin(&self, key: &str) -> Origin {
        let path = schema::path_of_key(key);
        self.origins.of(&path).cloned().unwrap_or(Origin::Default)
    }

    /// Where settings came from that somebody has set: files, then variables and arguments by their
    /// names.
    #[must_use]
    pub fn sources(&self) -> Vec<String> {
        self.origins.sources()
    }

    /// The effective settings as TOML, secrets masked, each with its origin in a comment.
    #[must_use]
    pub fn print(&self) -> String {
        print::print(&self.settings, &self.origins)
    }
}
