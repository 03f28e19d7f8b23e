//! A Python for sandboxed scripts that sees one socket of the test.
//!
//! The sandbox has no network and no folder of the host but the interpreter's own tree, read-only.
//! So the interpreter is one with a tree of its own, and the socket is in that tree: connecting to
//! it writes nothing. What a script tells there is known outside of every service, while it runs.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use tokio::net::UnixListener;

/// What tells the interpreter where it is.
const QUESTION: &str = "import os, sys; print(os.path.realpath(sys.executable))";
/// The functions that scripts tell an effect by, as the beginning of a script. The worker is the
/// name that the interpreter was given.
const PRELUDE: &str = r#"
import os, socket, sys, time
_server = socket.socket(socket.AF_UNIX)
_server.connect(os.path.join(os.path.dirname(os.path.dirname(sys.executable)), "socket"))
_replies = _server.makefile("r")
def tell(event, call):
    _server.sendall(f"{event} {call} {os.path.basename(sys.executable)}\n".encode())
    if _replies.readline() != "ok\n":
        raise RuntimeError("the ledger does not answer")
"#;

/// A folder with an interpreter under several names, and a socket.
#[derive(Debug)]
pub struct ScriptPython {
    folder: PathBuf,
    program: PathBuf,
}

impl ScriptPython {
    /// Makes the folder, a virtual environment without packages.
    ///
    /// # Errors
    /// When there is no `python3`, or the folder cannot be made.
    pub fn create(folder: &Path) -> anyhow::Result<Self> {
        let asked = Command::new("python3").args(["-c", QUESTION]).output();
        let asked = asked.context("starting python3")?;
        ensure!(asked.status.success(), "python3: {}", String::from_utf8_lossy(&asked.stderr));
        let program = PathBuf::from(String::from_utf8(asked.stdout)?.trim());
        let home = program.parent().context("an interpreter is in a folder")?;

        fs::create_dir_all(folder.join("bin"))?;
        let settings = format!("home = {}\ninclude-system-site-packages = false\n", home.display());
        fs::write(folder.join("pyvenv.cfg"), settings)?;
        Ok(Self { folder: folder.canonicalize()?, program })
    }

    /// The interpreter under this name, for the setting `scripts.python`.
    ///
    /// # Errors
    /// When the link cannot be made.
    pub fn interpreter(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.folder.join("bin").join(name);
        if !path.is_symlink() {
            symlink(&self.program, &path)?;
        }
        Ok(path)
    }

    /// Where the socket is.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// Listens at the socket of such a folder, for scripts of any user.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn listen(socket: &Path) -> anyhow::Result<UnixListener> {
        let listener = UnixListener::bind(socket)
            .with_context(|| format!("listening at {}", socket.display()))?;
        fs::set_permissions(socket, fs::Permissions::from_mode(0o666))?;
        Ok(listener)
    }

    /// A script with the function `tell(event, call)` before it, which writes the line
    /// `event call interpreter` to the socket and waits for the line `ok`.
    #[must_use]
    pub fn script(body: &str) -> String {
        format!("{PRELUDE}{body}")
    }
}
