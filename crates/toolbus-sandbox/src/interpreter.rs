//! The Python that runs scripts: where it is, what it needs to see, how it looks for modules.
//!
//! Asked of the interpreter itself, once: what `PATH` finds may be a shim or a link into a tree
//! outside `/usr` (pyenv, a virtual environment), and `site`, which would compute the module path
//! anew in every run, is slower than the rest of an interpreter's start.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::probe::Unavailable;

/// Prints what [`Interpreter`] holds, one item a line, the module path last. Lines because paths
/// with line breaks in an interpreter's own tree are nobody's.
const QUESTIONS: &str = "
import os, sys, sysconfig
sys.stdout.reconfigure(encoding='utf-8', errors='surrogateescape')
print(os.path.realpath(sys.executable))
print(os.path.abspath(sys.executable))
print(sys.implementation.name, '.'.join(map(str, sys.version_info[:3])))
print(sysconfig.get_config_var('SOABI') or sys.implementation.cache_tag, sysconfig.get_platform())
print(os.path.realpath(sysconfig.get_path('stdlib')))
for place in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, *sys.path):
    print(os.path.abspath(place))
";
/// Lines before the prefixes.
const FACT_LINES: usize = 5;
/// The prefixes: `prefix`, `exec_prefix`, and the same two of the base installation.
const PREFIXES: usize = 4;
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Compiles its input, and prints the mark of this interpreter's bytecode and the program in it.
const COMPILE: &str = "
import marshal, sys
mark = sys.modules['_frozen_importlib_external'].MAGIC_NUMBER
program = compile(sys.stdin.buffer.read(), '<supervisor>', 'exec', dont_inherit=True, optimize=2)
sys.stdout.buffer.write(mark + marshal.dumps(program))
";
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// A Python interpreter, as it described itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interpreter {
    /// How to call it, inside a sandbox, too.
    pub(crate) executable: PathBuf,
    /// Implementation and version, such as `cpython 3.12.1`.
    pub(crate) version: String,
    /// What compiled packages depend on: binary interface and platform.
    pub(crate) binary_interface: String,
    /// Files and trees that it needs to see, none within another or within `/usr`.
    pub(crate) trees: Vec<PathBuf>,
    /// The four prefixes and the module path, as the bootstrap is called with them.
    pub(crate) places: Vec<PathBuf>,
}

impl Interpreter {
    /// Finds the interpreter (`configured`, else `python3` by `PATH`) and asks it.
    pub(crate) async fn find(configured: Option<&Path>) -> Result<Self, Unavailable> {
        let program = configured.map_or(OsStr::new("python3"), Path::as_os_str);
        let answer = ask(program, QUESTIONS, &[]).await?;
        let found = Self::parse_answer(&answer).ok_or_else(|| Unavailable::Interpreter {
            reason: format!("{} did not describe itself", program.display()),
        })?;

        if !found.is_recent() {
            return Err(Unavailable::Interpreter {
                reason: format!("{} is {}", program.display(), found.version),
            });
        }

        let private = ["/etc", "/home", "/root", "/run", "/tmp", "/var"].map(PathBuf::from);
        let private = || private.iter().cloned().chain(env::home_dir());
        match found.trees.iter().find(|tree| private().any(|path| path.starts_with(tree))) {
            None => Ok(found),
            Some(tree) => Err(Unavailable::Interpreter {
                reason: format!(
                    "its prefix {} is a folder that scripts must not see",
                    tree.display()
                ),
            }),
        }
    }

    /// Whether it is Python 3.8 or later, which the bootstrap needs.
    fn is_recent(&self) -> bool {
        let numbers = self.version.split([' ', '.']).skip(1);
        let numbers: Vec<u32> = numbers.map_while(|number| number.parse().ok()).collect();
        numbers.as_slice() >= [3, 8].as_slice()
    }

    fn parse_answer(answer: &[u8]) -> Option<Self> {
        let lines: Vec<&[u8]> = answer.split(|byte| *byte == b'\n').collect();
        let text =
            |index: usize| lines.get(index).map(|line| String::from_utf8_lossy(line).into_owned());
        let path = |index: usize| {
            lines.get(index).map(|line| PathBuf::from(OsString::from_vec(line.to_vec())))
        };
        let real = path(0)?;
        let library = path(4)?;

        let mut places: Vec<PathBuf> =
            (FACT_LINES..lines.len().checked_sub(1)?).filter_map(path).collect();

        if places.len() <= PREFIXES || !places.iter().all(|place| place.is_absolute()) {
            return None;
        }

        // The executable and the library, too: links may lead out of every prefix.
        let trees = outermost_trees(places[..PREFIXES].iter().cloned().chain([real, library]));
        let modules = places.split_off(PREFIXES);

        let seen = |place: &PathBuf| {
            place.starts_with("/usr") || trees.iter().any(|tree| place.starts_with(tree))
        };
        places.extend(modules.into_iter().filter(seen));
        Some(Self {
            executable: path(1)?,
            version: text(2)?,
            binary_interface: text(3)?,
            trees,
            places,
        })
    }

    /// The command line with which it waits for its program: without `site`, whose result it is
    /// told, and deaf to the environment.
    pub(crate) fn bootstrap_command(&self) -> Vec<OsString> {
        let options = ["-I", "-S", "-B", "-c", include_str!("bootstrap.py")].map(OsString::from);
        let executable = self.executable.as_os_str().to_owned();
        let places = self.places.iter().map(|place| place.as_os_str().to_owned());
        [executable].into_iter().chain(options).chain(places).collect()
    }

    /// Compiles a program into what the bootstrap takes.
    pub(crate) async fn compile(&self, program: &str) -> Result<Vec<u8>, Unavailable> {
        let compiled = ask(self.executable.as_os_str(), COMPILE, program.as_bytes()).await?;
        let length = u32::try_from(compiled.len()).expect("answers are bounded");
        Ok([&length.to_be_bytes(), compiled.as_slice()].concat())
    }
}

/// Drops what lies in `/usr`, which every sandbox has, or within another of them.
fn outermost_trees(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let paths: BTreeSet<PathBuf> = paths.filter(|path| !path.starts_with("/usr")).collect();
    let mut trees: Vec<PathBuf> = Vec::new();
    for path in paths {
        // Sorted, so that a tree comes before what lies within it.
        if !trees.iter().any(|tree| path.starts_with(tree)) {
            trees.push(path);
        }
    }
    trees
}

/// Has an interpreter run `code`, with that input, and returns what it prints.
async fn ask(program: &OsStr, code: &str, input: &[u8]) -> Result<Vec<u8>, Unavailable> {
    let failed = |reason: String| Unavailable::Interpreter { reason };
    let name = program.display();
    let mut command = Command::new(program);

    // A shim needs its own variables to find the interpreter; `-I` keeps Python from minding them.
    command.args(["-I", "-c", code]).current_dir("/").kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());

    // A signal for our group, such as Ctrl-C, is ours to act on.
    command.process_group(0);

    let answer = async {
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that ends early does not read to the end, and says why by its status.
            let _ = stdin.write_all(input).await;
        }
        child.wait_with_output().await
    };
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, answer)
        .await
        .map_err(|_| failed(format!("{name} did not answer within 20 s")))?
        .map_err(|error| failed(format!("{name} cannot be started: {error}")))?;

    if !answer.status.success() || answer.stdout.len() > ANSWER_BYTES_MAX {
        let said = String::from_utf8_lossy(&answer.stderr);
        let said = said.lines().last().unwrap_or_default();
        return Err(failed(format!("{name} failed ({}): {said}", answer.status)));
    }

    Ok(answer.stdout)
}

/// The `PATH` of scripts: the interpreter's own folder, then the system's.
pub(crate) fn search_path(interpreter: &Interpreter) -> OsString {
    let own = interpreter.executable.parent().map(Path::to_path_buf);
    let system = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
    let all: BTreeSet<_> = system.iter().cloned().collect();
    let own = own.filter(|own| !all.contains(own));
    env::join_paths(own.into_iter().chain(system)).unwrap_or_else(|_| "/usr/bin:/bin".into())
}

#[cfg(test)]
mod tests;
