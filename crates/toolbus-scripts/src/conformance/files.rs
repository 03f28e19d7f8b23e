//! Files that scripts are given and leave.
//!
//! ```ignore
//! toolbus_scripts::file_tests!(my_runner().await);
//! ```

use std::time::Duration;

use bytes::Bytes;

use crate::files::{FILES_BYTES_MAX, FILES_MAX, File, FileName, Produced};
use crate::runner::{Ending, Outcome, Run, Runner, Script};

/// Makes a test of each case. The expression gives an `Option` of a runner.
#[macro_export]
macro_rules! file_tests {
    ($runner:expr) => {
        $crate::file_tests! {
            $runner;
            given_files_are_found_in_the_input_folder,
            large_files_arrive_whole_both_ways,
            left_files_come_back_whatever_the_exit_code,
            what_is_no_plain_file_does_not_come_back,
            what_comes_back_is_bounded,
            an_output_folder_that_is_replaced_leads_nowhere,
            survivors_change_nothing,
            a_script_that_is_stopped_gives_nothing_back,
        }
    };
    ($runner:expr; $($case:ident,)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                let Some(runner) = $runner else { return };
                $crate::conformance::files::$case(&runner).await;
            }
        )*
    };
}

fn file(name: &str, content: impl Into<Bytes>) -> File {
    File { name: FileName::parse(name).expect("a name"), content: content.into() }
}

async fn run_with(runner: &impl Runner, source: &str, files: Vec<File>) -> Outcome {
    let script = Script {
        source: source.to_owned(),
        input: String::new(),
        timeout: Duration::from_secs(20),
        packages: Vec::new(),
        files,
        prelude: None,
    };
    let run = Run::alone("files");
    runner.run(script, run).await.expect("the script runs")
}

async fn run_for_files(runner: &impl Runner, source: &str) -> Produced {
    let outcome = run_with(runner, source, Vec::new()).await;
    assert_eq!(outcome.ending, Ending::Exited(0), "{}", outcome.output.text);
    outcome.produced
}

/// Names and contents of what came back.
fn files(produced: &Produced) -> Vec<(&str, &[u8])> {
    produced.files.iter().map(|file| (file.name.as_str(), file.content.as_ref())).collect()
}

/// Names and reasons of what did not.
fn refused(produced: &Produced) -> Vec<(&str, &str)> {
    produced.refused.iter().map(|one| (one.name.as_str(), one.reason.as_str())).collect()
}

/// Text, bytes of every kind, nothing at all, and names that need care.
pub async fn given_files_are_found_in_the_input_folder(runner: &impl Runner) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let given = vec![
        file("table.csv", "a,b\n1,2\n"),
        file("bytes", every_byte),
        file("empty", ""),
        file("Übersicht (1) 'x'.txt", "é"),
    ];

    let source = "import os\n\
                  for name in sorted(os.listdir('input')):\n    \
                  content = open(os.path.join('input', name), 'rb').read()\n    \
                  print(name, len(content), content == bytes(range(256)))\n\
                  open('input/table.csv', 'a').write('3,4')\n\
                  print(open('input/table.csv').read())";

    let outcome = run_with(runner, source, given).await;
    let expected = "bytes 256 True\nempty 0 False\ntable.csv 8 False\n\
                    Übersicht (1) 'x'.txt 2 False\na,b\n1,2\n3,4\n";

    assert_eq!((outcome.output.text.as_str(), outcome.ending), (expected, Ending::Exited(0)));
    assert_eq!(outcome.produced, Produced::default());

    let without = run_with(runner, "import os\nprint(os.listdir('.'))", Vec::new()).await;
    assert_eq!(without.output.text, "['output']\n");
}

/// As much as is allowed, there and back.
pub async fn large_files_arrive_whole_both_ways(runner: &impl Runner) {
    let pattern: Vec<u8> = (0..FILES_BYTES_MAX).map(|index| (index % 251) as u8).collect();
    let source = "import shutil\nshutil.copy('input/large', 'output/copy')";
    let outcome = run_with(runner, source, vec![file("large", pattern.clone())]).await;
    assert_eq!((outcome.output.text.as_str(), outcome.ending), ("", Ending::Exited(0)));
    assert!(files(&outcome.produced) == [("copy", pattern.as_slice())], "it came back otherwise");
}

/// The texts of an outcome are what they are without files.
pub async fn left_files_come_back_whatever_the_exit_code(runner: &impl Runner) {
    let source = "import os, sys\nos.makedirs('output', exist_ok=True)\n\
                  open('output/b.csv', 'w').write('1,2')\n\
                  open('output/a.bin', 'wb').write(bytes(range(256)))\n\
                  open('output/é 1.txt', 'w').close()\n\
                  open('beside.txt', 'w').write('x')\nprint('done')\nsys.exit(3)";

    let outcome = run_with(runner, source, Vec::new()).await;
    assert_eq!((outcome.output.text.as_str(), outcome.ending), ("done\n", Ending::Exited(3)));

    let every_byte: Vec<u8> = (0..=255).collect();
    let expected = [("a.bin", every_byte.as_slice()), ("b.csv", b"1,2"), ("é 1.txt", b"")];
    assert_eq!(files(&outcome.produced), expected);
    assert_eq!(refused(&outcome.produced), []);

    let killed = "import os\nopen('output/x', 'w').write('x')\nos.kill(os.getpid(), 9)";
    let outcome = run_with(runner, killed, Vec::new()).await;
    assert_eq!(outcome.ending, Ending::Killed { signal: 9 });

    assert_eq!(files(&outcome.produced), [("x", b"x".as_slice())]);
}

/// Links of both kinds, folders, pipes, sockets, sparse giants, and names that are more than names.
pub async fn what_is_no_plain_file_does_not_come_back(runner: &impl Runner) {
    let source = r"import os, socket
open('output/good.txt', 'w').write('good')
os.symlink('/etc/passwd', 'output/link')
os.symlink('/dev/zero', 'output/zero')
os.symlink('good.txt', 'output/near')
open('twin', 'w').write('x')
os.link('twin', 'output/twin')
os.mkdir('output/folder')
open('output/folder/inner.txt', 'w').write('inner')
os.mkfifo('output/pipe')
server = socket.socket(socket.AF_UNIX)
server.bind('output/socket')
with open('output/sparse', 'w') as sparse: sparse.truncate(64 << 20)
open('output/.hidden', 'w').write('x')
open('output/-rf', 'w').write('x')
open('output/back\\slash', 'w').write('x')
open('output/line\nbreak', 'w').write('x')
open(b'output/\xff\xfe', 'w').write('x')
open('output/' + 'n' * 200, 'w').write('x')
";

    let produced = run_for_files(runner, source).await;
    assert_eq!(files(&produced), [("good.txt", b"good".as_slice())]);

    let long = "n".repeat(128) + "…";

    let expected = [
        ("-rf", "its name begins with `.` or `-`"),
        (".hidden", "its name begins with `.` or `-`"),
        ("back\\\\slash", "its name is a path"),
        ("folder", "it is a folder"),
        ("line\\nbreak", "its name has control characters in it"),
        ("link", "it is a link"),
        ("near", "it is a link"),
        (long.as_str(), "its name is longer than 128 bytes"),
        ("pipe", "it is not a regular file"),
        ("socket", "it is not a regular file"),
        ("sparse", "it has 67108864 bytes, and all files together may have 4194304"),
        ("twin", "it has other names, too (hard links)"),
        ("zero", "it is a link"),
        ("\u{fffd}\u{fffd}", "its name is not UTF-8"),
    ];

    assert_eq!(refused(&produced), expected);
}

/// In files, in bytes, and in entries of the folder.
pub async fn what_comes_back_is_bounded(runner: &impl Runner) {
    let many = "for n in range(40): open(f'output/{n:02}', 'w').write('x')";
    let produced = run_for_files(runner, many).await;
    assert_eq!(files(&produced).len(), FILES_MAX);
    assert_eq!(refused(&produced)[0], ("32", "only 32 files come back"));
    assert_eq!(refused(&produced).len(), 40 - FILES_MAX);

    let large = "for n in 'abc': open(f'output/{n}', 'wb').write(b'x' * (n == 'c' or 3 << 20))";
    let produced = run_for_files(runner, large).await;
    let sizes: Vec<(&str, usize)> =
        files(&produced).iter().map(|(name, content)| (*name, content.len())).collect();

    assert_eq!(sizes, [("a", 3 << 20), ("c", 1)]);

    let why = "it has 3145728 bytes, and all files together may have 4194304";
    assert_eq!(refused(&produced), [("b", why)]);

    let crowd = "for n in range(5000): open(f'output/{n}', 'w').close()";
    let produced = run_for_files(runner, crowd).await;
    assert_eq!(files(&produced).len(), FILES_MAX);
    assert_eq!(refused(&produced)[0], ("*", "the folder has more than 256 entries"));

    assert_eq!(refused(&produced).last(), Some(&("209 more", "as the others")));
}

/// A link in the folder's place, and no folder at all.
pub async fn an_output_folder_that_is_replaced_leads_nowhere(runner: &impl Runner) {
    let elsewhere = "import os\nos.rmdir('output')\nos.symlink('/etc', 'output')";
    let produced = run_for_files(runner, elsewhere).await;
    assert_eq!(files(&produced), []);
    assert_eq!(refused(&produced), [("*", "the folder cannot be read")]);

    let plain = "import os\nos.rmdir('output')\nopen('output', 'w').write('x')";
    let produced = run_for_files(runner, plain).await;
    assert_eq!((files(&produced), refused(&produced).len()), (vec![], 1));

    let gone = run_for_files(runner, "import os\nos.rmdir('output')").await;
    assert_eq!(gone, Produced::default());
}

/// A process that outlives the script and goes on swapping a file for a link.
pub async fn survivors_change_nothing(runner: &impl Runner) {
    let source = r"import os
open('output/stays', 'w').write('stays')
if not os.fork():
    os.setsid()
    while True:
        try:
            open('swapped', 'w').write('mine')
            os.rename('swapped', 'output/swapped')
            os.symlink('/etc/passwd', 'swapped')
            os.rename('swapped', 'output/swapped')
        except OSError:
            pass
while not os.path.lexists('output/swapped'): pass
os._exit(0)
";

    for _ in 0..3 {
        let produced = run_for_files(runner, source).await;
        let mut files = files(&produced);
        files.retain(|(name, _)| *name == "swapped");

        assert!(files.iter().all(|(_, content)| b"mine".starts_with(content)), "{files:?}");

        let stays = produced.files.iter().find(|file| file.name.as_str() == "stays");
        assert_eq!(stays.map(|file| file.content.as_ref()), Some(b"stays".as_slice()));
    }
}

/// Killed at its time.
pub async fn a_script_that_is_stopped_gives_nothing_back(runner: &impl Runner) {
    let script = Script {
        source: "import time\nopen('output/x', 'w').write('x')\ntime.sleep(30)".to_owned(),
        input: String::new(),
        timeout: Duration::from_secs(1),
        packages: Vec::new(),
        files: Vec::new(),
        prelude: None,
    };

    let run = Run::alone("files");
    let outcome = runner.run(script, run).await.expect("an outcome");

    assert_eq!((outcome.ending, outcome.produced), (Ending::TimedOut, Produced::default()));
}
