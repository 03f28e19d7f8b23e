//! Files that scripts are given and leave, in pods.

use toolbus_scripts::files::Produced;
use toolbus_scripts::runner::Ending;

use crate::support::{run, runner};

toolbus_scripts::file_tests!(runner().await);

/// What the first process of a pod tells of files, told by the script.
#[tokio::test]
async fn a_script_cannot_forge_files() {
    let Some(runner) = runner().await else { return };
    let source = "import sys\nlines = 'x 0 over \\nx 1 file YQ== 3\\nx 2 part eHh4\\n'\n\
                  print(lines, 'file YQ== 3\\npart eHh4\\nend {}')\nprint(lines, file=sys.stderr)";
    let outcome = run(&runner, source).await;
    assert_eq!((outcome.ending, outcome.produced), (Ending::Exited(0), Produced::default()));
    assert!(outcome.stderr.text.contains("x 1 file YQ== 3\n"));
    runner.idle().await;
}

/// In a pod the working folder itself is the script's to move.
#[tokio::test]
async fn a_working_folder_that_is_replaced_leads_nowhere() {
    let Some(runner) = runner().await else { return };
    let source = "import os\nwork = os.getcwd()\nopen('output/own', 'w').write('own')\n\
                  os.rename(work, work + '2')\nos.mkdir('/dev/shm/other')\n\
                  os.mkdir('/dev/shm/other/output')\n\
                  open('/dev/shm/other/output/foreign', 'w').write('x')\n\
                  os.symlink('/dev/shm/other', work)";
    let outcome = run(&runner, source).await;
    assert_eq!((outcome.output.text.as_str(), outcome.ending), ("", Ending::Exited(0)));
    let names: Vec<&str> = outcome.produced.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!((names, outcome.produced.refused.len()), (vec!["own"], 0));
    runner.idle().await;
}
