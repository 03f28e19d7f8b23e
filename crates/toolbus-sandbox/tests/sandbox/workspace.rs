//! A folder that scripts share with the host, and the network.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::PathBuf;

use tempfile::TempDir;
use toolbus_sandbox::{Config, Network, Sandbox, Workspace};
use toolbus_scripts::runner::Ending;

use crate::support::{config, probe, run};

/// A folder that belongs to who runs scripts.
fn shared_folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("a path");
    if fs::metadata(&path).expect("it is there").uid() == 0 {
        let id = Some(Config::default().unprivileged_id);
        chown(&path, id, id).expect("it changes hands");
    }
    (folder, path)
}

async fn sharing(path: &std::path::Path, is_writable: bool) -> Option<Sandbox> {
    let workspace = Some(Workspace { path: path.to_path_buf(), is_writable });
    probe(Config { workspace, ..config() }).await
}

#[tokio::test]
async fn what_scripts_write_stays() {
    let (_folder, path) = shared_folder();
    fs::write(path.join("there"), "before").expect("written");
    let Some(sandbox) = sharing(&path, true).await else { return };

    let source = format!(
        "import os\nos.chdir({path:?})\nprint(open('there').read())\nopen('new', 'w').write('after')"
    );
    let outcome = run(&sandbox, &source).await;
    assert_eq!((outcome.output.text.as_str(), outcome.ending), ("before\n", Ending::Exited(0)));
    assert_eq!(fs::read_to_string(path.join("new")).expect("it is there"), "after");

    // Its neighbours are not shown, and a link leads nowhere.
    let outside = path.with_extension("outside");
    fs::write(&outside, "secret").expect("written");
    let source = format!(
        "import os\nos.chdir({path:?})\nos.symlink({outside:?}, 'link')\nprint(os.path.exists('link'))\n\
         try: os.link({outside:?}, 'hard')\nexcept OSError: print('no')"
    );
    let outcome = run(&sandbox, &source).await;
    fs::remove_file(&outside).expect("removed");
    assert_eq!(outcome.output.text, "False\nno\n");
}

#[tokio::test]
async fn a_workspace_may_be_read_only() {
    let (_folder, path) = shared_folder();
    fs::write(path.join("there"), "before").expect("written");
    let Some(sandbox) = sharing(&path, false).await else { return };

    let source = format!(
        "print(open('{0}/there').read())\nfor name in 'there', 'new':\n    try: open('{0}/' + name, 'w')\n    \
         except OSError as error: print(error.strerror)",
        path.display()
    );
    let outcome = run(&sandbox, &source).await;
    assert_eq!(outcome.output.text, "before\nRead-only file system\nRead-only file system\n");
    assert_eq!(fs::read_dir(&path).expect("a folder").count(), 1);
}

#[tokio::test]
async fn a_network_is_there_where_it_is_allowed() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let source = format!(
        "import socket\ntry: socket.create_connection(('127.0.0.1', {port}), 5); print('connected')\n\
         except OSError: print('refused')"
    );
    let allowed = Config { network: Network::Allowed, ..config() };

    for (config, expected) in [(config(), "refused\n"), (allowed, "connected\n")] {
        let Some(sandbox) = probe(config).await else { return };
        assert_eq!(run(&sandbox, &source).await.output.text, expected);
    }
}
