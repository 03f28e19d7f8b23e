//! The runner that protects from nothing: at least in good order.

use std::time::Duration;

use toolbus_sandbox::{Bare, Config, Unavailable};
use toolbus_scripts::runner::{Ending, Runner};

use crate::support::{check, config, processes_with, run, run_for};

pub(crate) async fn bare() -> Bare {
    Bare::probe(Config { allow_unsandboxed_scripts: true, ..config() })
        .await
        .expect("an interpreter")
}

#[tokio::test]
async fn it_has_to_be_allowed_by_name() {
    let refused = Bare::probe(config()).await.map(|_| ()).expect_err("it was not asked for");
    assert_eq!(refused, Unavailable::BareNotAllowed);
    assert!(refused.to_string().contains("allow_unsandboxed_scripts"));
}

#[tokio::test]
async fn scripts_run_and_end_as_in_the_sandbox() {
    let bare = bare().await;
    assert_eq!(bare.name(), "unsandboxed");
    check(&bare, "import sys\nprint(sys.argv)\nsys.exit(137)", "['-c']\n", Ending::Exited(137))
        .await;
    check(&bare, "import os\nos.kill(os.getpid(), 9)", "", Ending::Killed { signal: 9 }).await;
    check(&bare, "import os\nos.kill(0, 15)", "", Ending::Killed { signal: 15 }).await;

    let variables = "import os\nprint(sorted(set(os.environ) - {'LC_CTYPE'}))";
    let expected = "['HOME', 'LANG', 'MALLOC_ARENA_MAX', 'OPENBLAS_NUM_THREADS', 'PATH', \
                    'PYTHONDONTWRITEBYTECODE', 'ROCKBOT_INPUT', 'TMPDIR', 'USER']\n";
    check(&bare, variables, expected, Ending::Exited(0)).await;

    let folder =
        run(&bare, "import os\nopen('x', 'w').close()\nprint(os.getcwd())").await.output.text;
    assert!(!std::fs::exists(folder.trim()).expect("checked"), "{folder} is left");

    let bomb = "data = []\nwhile True: data.append(bytearray(8 << 20))";
    assert_eq!(run(&bare, bomb).await.ending, Ending::OutOfMemory);
}

#[tokio::test]
async fn the_whole_tree_is_killed() {
    let bare = bare().await;
    let mark = format!("bare-{}", std::process::id());
    let source = format!(
        "import subprocess, time\nsubprocess.Popen(['/bin/sh', '-c', \
         'setsid sh -c \"sleep 300; : {mark}\" & sleep 300; : {mark}'], start_new_session=True)\n\
         time.sleep(0.3)\nprint('up')\ntime.sleep(300)"
    );

    let outcome = run_for(&bare, &source, Duration::from_secs(1)).await;

    assert_eq!((outcome.output.text.as_str(), outcome.ending), ("up\n", Ending::TimedOut));
    assert_eq!(processes_with(&mark), [0; 0]);
}
