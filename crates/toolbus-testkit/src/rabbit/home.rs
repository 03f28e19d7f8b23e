//! What the Erlang nodes of one broker share: a folder, a cookie, and an epmd.
//!
//! Erlang nodes find each other through epmd, a daemon that one node starts for all of a machine.
//! Ours is on a port of its own, in the foreground, so that none is left behind and none of the
//! machine's is asked.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::process::Process;

/// Dropped after the nodes that use it, it ends epmd and removes the folder.
#[derive(Debug)]
pub(super) struct Home {
    // In the order in which they must go.
    _epmd: Process,
    epmd_port: u16,
    cookie: String,
    folder: TempDir,
}

impl Home {
    pub(super) fn create() -> anyhow::Result<Self> {
        let [epmd_port] = crate::ports::free()?;
        let folder = TempDir::with_prefix("toolbus-rabbitmq-")?;
        let cookie = uuid::Uuid::new_v4().simple().to_string();
        write_cookie(folder.path(), &cookie)?;

        let mut command = Command::new("epmd");
        command.stdin(Stdio::null());
        set_environment(&mut command, folder.path(), epmd_port);
        // Its guard is the one that removes the folder after a sudden end, because it runs from
        // before a broker starts until after it has stopped.
        let epmd = Process::spawn_with("epmd", &mut command, folder.path(), Some(folder.path()))?;

        Ok(Self { _epmd: epmd, epmd_port, cookie, folder })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn cookie(&self) -> &str {
        &self.cookie
    }

    /// Leaves of the machine's environment only where programs are, and gives this epmd and this
    /// folder, where Erlang finds its cookie.
    pub(super) fn set_environment<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        set_environment(command, self.folder.path(), self.epmd_port)
    }
}

fn set_environment<'a>(command: &'a mut Command, home: &Path, epmd_port: u16) -> &'a mut Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    command
        // Where a crashing Erlang leaves its dump.
        .current_dir(home)
        .env_clear()
        .env("PATH", path)
        .env("LANG", "C.UTF-8")
        .env("HOME", home)
        .env("ERL_EPMD_PORT", epmd_port.to_string())
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
}

/// Erlang refuses a cookie that others may read.
fn write_cookie(home: &Path, cookie: &str) -> anyhow::Result<()> {
    let file = home.join(".erlang.cookie");
    fs::write(&file, cookie)?;
    fs::set_permissions(&file, Permissions::from_mode(0o400))?;
    Ok(())
}
