//! Groups of tools that agents have from the start, a module for each.
//!
//! - [`files`]: `read_file`, `write_file`, `append_file`, `edit_file`, `glob` and `grep`, contained
//!   in a working directory.
//! - [`shell`]: `bash`, in a sandbox that shares that directory.
//! - [`web`]: `web_search`, `web_browse` and `web_fetch`, which reach the public Internet.
//! - [`linkedin`]: `linkedin_jobs` and `linkedin_job_detail`, from LinkedIn's public pages.
//! - [`anthropic_usage`]: the tool of that name, for an organization's use of Anthropic's API.
//! - [`google`]: Gmail and Calendar of a person who has logged in, six tools.
//! - [`rest`]: HTTP endpoints that the settings or an OpenAPI document name.
//!
//! [`google`] and [`linkedin`] are features of this crate. Their settings are always there; without
//! the feature, settings that enable the toolkit are refused.
//!
//! Each module has its settings, its guide, and a function that registers its tools. Models reach
//! them through the registry alone. Invariants: no tool touches a file outside of the folders that
//! its settings name, by whatever links they are reached; what is read, searched or printed is
//! bounded; no process of a command outlives it; no tool connects to an address that is not public,
//! unless the settings name it; tools of one person's accounts and files are there for that
//! person's principals alone.

#[cfg(not(target_os = "linux"))]
compile_error!("commands are contained by Linux's namespaces");

pub mod anthropic_usage;
mod arguments;
mod audience;
mod credential;
pub mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(feature = "google")]
pub mod google;
mod google_settings;
mod html;
#[cfg(feature = "linkedin")]
pub mod linkedin;
mod linkedin_settings;
mod page;
pub mod rest;
pub mod shell;
pub mod web;

pub use credential::{CredentialPlaces, Lookup};
pub use google_settings::GoogleSettings;
pub use linkedin_settings::LinkedInSettings;

#[cfg(test)]
mod tests;
