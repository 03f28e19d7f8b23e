//! The member `sandbox` of an entry: what a server that is a program may see and use.

use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::members::{Choice, Members};

/// Error for a member of another type.
const EXPECTED: &str = r#"has to be true, false, "shield", "off" or an object"#;
const MEMBERS: &[&str] = &["mounts", "writableMounts", "network"];
/// What a sandbox makes anew, and what must not be the host's.
const KERNEL_FOLDERS: [&str; 3] = ["/proc", "/sys", "/dev"];
/// Most mounts of one sandbox.
const MOUNTS_MAX: usize = 64;

/// Isolation of servers that are programs and whose entries do not set it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StdioIsolation {
    /// Runs each server behind a shield, if bubblewrap works.
    #[default]
    Shield,
    /// Runs each server as any program of this user.
    Off,
}

/// Isolation of one server that is a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Uses [`StdioIsolation`], the default for all servers.
    #[default]
    AsSet,
    /// Gives the server this machine without the secrets of Toolbus and without other servers.
    Shield,
    /// Gives the server the resources in its entry and nothing else.
    Sandbox(SandboxPolicy),
    /// Runs the server as any program of this user.
    Off,
}

/// What a sandboxed server sees beside the system's programs and libraries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxPolicy {
    /// Files and folders of the host, at their own paths, each before those that are below it.
    pub mounts: Vec<Mount>,
    /// Whether it has the host's network; without, it has none.
    pub network: bool,
}

/// A file or folder of the host that a sandbox has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Its absolute path, inside as outside.
    pub path: PathBuf,
    /// Whether the server may change what is there.
    pub is_writable: bool,
}

impl SandboxPolicy {
    /// The policy for a program that an agent has registered. It has the network, for it mostly
    /// comes from there, and nothing of the host.
    pub(crate) fn for_registered() -> Self {
        Self { mounts: Vec::new(), network: true }
    }

    /// Whether a path is below one of the mounts.
    fn shows(&self, path: &Path) -> bool {
        self.mounts.iter().any(|mount| path.starts_with(&mount.path))
    }
}

/// Reads the member, with the folder that the server is started in.
pub(super) fn read_sandbox(members: &mut Members<'_>, folder: Option<&Path>) -> Isolation {
    let policy = match members.take_choice("sandbox", EXPECTED) {
        None => return Isolation::AsSet,
        Some(Choice::Flag(false)) => return Isolation::Off,
        Some(Choice::Flag(true)) => SandboxPolicy::default(),
        Some(Choice::Word(word)) => {
            return match word.as_str() {
                "off" => Isolation::Off,
                "shield" => Isolation::Shield,
                _ => {
                    members.add_mistake("sandbox", EXPECTED);
                    Isolation::AsSet
                }
            };
        }
        Some(Choice::Members(mut inner)) => {
            let policy = read_members(&mut inner);
            inner.refuse_unknown(MEMBERS);
            members.add_findings_of("sandbox", inner.finish());
            policy
        }
    };

    if folder.is_some_and(|folder| !policy.shows(folder)) {
        members.add_mistake("cwd", "has to be one of sandbox.mounts, or below one");
    }
    Isolation::Sandbox(policy)
}

fn read_members(members: &mut Members<'_>) -> SandboxPolicy {
    let mut mounts = Vec::new();
    for (member, is_writable) in [("mounts", false), ("writableMounts", true)] {
        for (index, path) in members.take_expanded_texts(member).into_iter().enumerate() {
            let path = PathBuf::from(path);
            match mount_mistake(&path) {
                None => mounts.push(Mount { path, is_writable }),
                Some(what) => members.add_mistake(&format!("{member}[{index}]"), what),
            }
        }
    }

    // The outer ones first: those below them would be hidden otherwise.
    mounts.sort_by_key(|mount| mount.path.components().count());
    if mounts.len() > MOUNTS_MAX {
        members.add_mistake("mounts", format!("there are more than {MOUNTS_MAX}"));
    }
    SandboxPolicy { mounts, network: members.take_flag("network") == Some(true) }
}

/// Why a path cannot be a mount, if it cannot.
fn mount_mistake(path: &Path) -> Option<&'static str> {
    let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    if !path.is_absolute() || !path.components().all(is_plain) {
        return Some("has to be an absolute path without ..");
    }
    if path == Path::new("/") {
        return Some("is everything that there is");
    }
    let is_kernels = KERNEL_FOLDERS.iter().any(|folder| path.starts_with(folder));
    is_kernels.then_some("is the kernel's; a sandbox has its own")
}
