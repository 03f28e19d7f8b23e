//! Runs each script in a pod of its own, which is made for it and deleted with it.
//!
//! How a run goes, file by file: `runner` decides which pod a script gets; `pod_spec` describes the
//! pod, `pod_lifecycle` makes and deletes it, `pod_startup` attaches to it while it is being made,
//! `script_session` has a session with its supervisor (`program`, `attach`) and reads how it ends,
//! `pod_watch` observes what shows nowhere else. `redelivery` resumes redelivered calls, and
//! scripts that were cut off from their manager; `start_detection` detects whether they started,
//! and `release` deletes the pods of those that did not. `reaper` and `leases` handle the pods of
//! managers that are dead, and `owner_lease` those of an installation that was removed. `connect`
//! is the connection to the cluster, and `requests` its timeouts and retries.
//!
//! `warm_pool` makes pods before their scripts come, and `warm_claim` gives one its script.
//! `packages` installs what scripts import. `policy_probe` finds out whether network policy holds
//! the pods.

mod attach;
mod connect;
pub mod doctor;
mod errors;
#[cfg(test)]
mod fake_cluster;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod leases;
pub mod metrics;
mod namespace;
mod owner_lease;
mod packages;
mod placement;
mod pod_annotations;
mod pod_lifecycle;
mod pod_spec;
mod pod_startup;
mod pod_watch;
mod policy_probe;
mod program;
mod quantity;
mod reaper;
mod redelivery;
mod release;
mod requests;
mod response_sender;
mod runner;
mod script_session;
pub mod settings;
mod start_detection;
mod warm_claim;
mod warm_metrics;
mod warm_pool;

pub use connect::connect;
pub use namespace::Unavailable;
pub use policy_probe::PolicyStatus;
pub use reaper::ClusterState;
pub use runner::KubernetesRunner;
pub use warm_metrics::WarmStatus;
