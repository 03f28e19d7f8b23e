//! Runs the commands of a page as a reader does: one after the other, in one shell, in an empty
//! folder with an empty home.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::Duration;

use tempfile::TempDir;
use toolbus_testkit::process::{self, binary};
use toolbus_testkit::rabbit::{self, Vhost};
use toolbus_testkit::scripted_server::Server;

use crate::blocks::{Block, Command, Printed, blocks_of, commands_of};
use crate::lists::{self, Page, To};
use crate::{printed, programs, world};

/// How long a page may take. No test waits for it to pass.
const PAGE_TIMEOUT: Duration = Duration::from_secs(400);

/// What the shell begins with: how it waits for what was started in the background.
const PRELUDE: &str = r#"
await_answer() { # PORT PATH: until a health port says that its service is ready, or it has ended
  local line
  for _ in $(seq 900); do
    kill -0 $! 2>/dev/null || return
    if { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null; then
      [ -n "$2" ] || { exec 3>&-; return; }
      printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&3
      IFS= read -r line <&3
      exec 3>&-
      case $line in *' 200 '*) return ;; esac
    fi
    sleep 0.1
  done
}
await_text() { # FILE TEXT: until a program has said this
  for _ in $(seq 900); do
    grep -qF -- "$2" "$1" && return
    kill -0 $! 2>/dev/null || return
    sleep 0.1
  done
}
trap 'kill $(jobs -p) 2>/dev/null' EXIT
"#;

/// A page that is run, and the world that it has.
struct Run {
    page: &'static Page,
    folder: TempDir,
    /// What is written for what: the text of the page, and what it is here.
    texts: Vec<(String, String)>,
    script: String,
    /// The commands that were run, by their numbers.
    steps: Vec<(usize, Command)>,
    _vhost: Option<Vhost>,
    model: Server,
}

/// Runs a page and tells what of it is not true. `None` where a part is missing and may be.
pub(crate) async fn faults_of(page: &'static Page) -> Option<Vec<String>> {
    let mut run = Run::prepare(page).await?;
    let blocks = blocks_of(page.path);
    let commands = commands_of(&blocks);
    for block in &blocks {
        let of_block = commands.iter().find(|(other, _)| *other == block);
        let of_block = of_block.map(|(_, commands)| &commands[..]).unwrap_or_default();
        run.add(block, of_block);
    }
    Some(run.finish().await)
}

impl Run {
    async fn prepare(page: &'static Page) -> Option<Self> {
        let vhost = if page.has_broker { Some(rabbit::vhost().await?) } else { None };
        let folder = TempDir::with_prefix("toolbus-page-").unwrap();
        for name in ["home", "work", "steps", "programs"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        programs::write(&folder.path().join("programs"), page)?;

        let bus = vhost.as_ref().map(Vhost::amqp_url);
        let texts = lists::SUBSTITUTES.iter().filter(|substitute| substitute.is_of(page.path));
        let texts = texts.filter_map(|substitute| {
            let to = match substitute.to {
                To::Text(text) => text.to_owned(),
                To::FreePort => format!(":{}", world::free_port()),
                To::Bus => bus.clone()?,
            };
            Some((substitute.text.to_owned(), to))
        });
        let texts = texts.collect();

        let model = world::model().await;
        let mut script = PRELUDE.to_owned();
        writeln!(script, "cd \"$PAGE/work\"\n{}", page.given).unwrap();
        let (steps, _vhost) = (Vec::new(), vhost);
        Some(Self { page, folder, texts, script, steps, _vhost, model })
    }

    /// What the page says, as it is here.
    fn here(&self, text: &str) -> String {
        self.texts.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    /// What was printed here, as the page says it.
    fn there(&self, text: &str) -> String {
        let home = self.folder.path().join("home").display().to_string();
        let work = self.folder.path().join("work").display().to_string();
        let text = text.replace(&work, lists::WORK).replace(&home, lists::HOME);
        self.texts.iter().fold(text, |text, (from, to)| text.replace(to, from))
    }

    fn step(&self, name: &str) -> PathBuf {
        self.folder.path().join("steps").join(name)
    }

    /// Adds what a block has a reader do: keep it as a file, or run its commands.
    fn add(&mut self, block: &Block, commands: &[Command]) {
        if let Some(file) = block.file() {
            let kept = format!("{}.file", block.line);
            fs::write(self.step(&kept), self.here(&block.text)).unwrap();
            let script =
                format!("mkdir -p \"$(dirname {file})\"; cp \"$PAGE/steps/{kept}\" {file}");
            writeln!(self.script, "{script}").unwrap();
        }
        if lists::is_excused_block(self.page.path, block) {
            return;
        }
        for command in commands {
            if !lists::is_excused_command(self.page.path, command) {
                self.add_command(command);
            }
        }
    }

    fn add_command(&mut self, command: &Command) {
        let number = self.steps.len();
        let path = format!("\"$PAGE/steps/{number}");
        let mut text = self.here(&command.text);
        let ready = lists::SERVICES.iter().find(|service| service.is(self.page.path, command));
        if ready.is_some() && !text.ends_with('&') {
            text.push_str(" &");
        }
        fs::write(self.step(&number.to_string()), format!("{text}\n")).unwrap();

        let errors = match command.expected {
            Some(Printed::Terminal(_)) => "2>&1".to_owned(),
            _ => format!("2>{path}.err\""),
        };
        let before = lists::before(self.page.path, command);
        writeln!(self.script, "{before}\n. {path}\" >{path}.out\" {errors} </dev/null").unwrap();
        writeln!(self.script, "echo $? >{path}.code\"").unwrap();

        if let Some(service) = ready.filter(|service| !service.says.is_empty()) {
            writeln!(self.script, "await_text {path}.out\" '{}'", service.says).unwrap();
        } else if text.ends_with('&') {
            for (option, port) in ports(&text) {
                let path = if option == "--health" { "/readyz" } else { "" };
                writeln!(self.script, "await_answer {port} '{path}'").unwrap();
            }
        }
        self.steps.push((number, command.clone()));
    }

    fn command(&self) -> Process {
        let programs = self.folder.path().join("programs");
        let ours = binary("agent-host").unwrap();
        let ours = ours.parent().unwrap().display();
        let path = std::env::var("PATH").unwrap();
        let mut command = Process::new("bash");
        command.arg(self.step("script")).env_clear().stdin(std::process::Stdio::null());
        command.env("PATH", format!("{}:{ours}:{path}", programs.display()));
        command.env("HOME", self.folder.path().join("home")).env("LANG", "C.UTF-8");
        command.env("PAGE", self.folder.path()).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("SERVER", &self.model.url);
        for (text, here) in self.texts.iter().filter(|(text, _)| text.starts_with(':')) {
            command.env(format!("PORT_{}", &text[1..]), here);
        }
        for (name, value) in lists::ENVIRONMENT.iter().chain(self.page.environment) {
            command.env(name, value);
        }
        command
    }

    async fn finish(self) -> Vec<String> {
        fs::write(self.step("script"), &self.script).unwrap();
        let logs = self.step("");
        let mut shell = process::Process::spawn("shell", &mut self.command(), &logs).unwrap();
        let ended = shell.wait(PAGE_TIMEOUT).await;
        let mut faults = Vec::new();
        if let Err(error) = ended {
            faults.push(format!("{}: {error:#}\n{}", self.page.path, shell.logs()));
        }

        for (number, command) in &self.steps {
            if let Some(fault) = self.fault(*number, command) {
                let Command { line, text, .. } = command;
                faults.push(format!("{}:{line}: $ {text}\n{fault}", self.page.path));
            }
        }
        if !faults.is_empty() {
            faults.extend(self.steps.iter().map(|(number, command)| self.log(*number, command)));
        }
        faults
    }

    /// What a command in the background has said, which may be why others failed.
    fn log(&self, number: usize, command: &Command) -> String {
        let said = read(&self.step(&format!("{number}.err")));
        let is_service = command.text.ends_with('&');
        if is_service { format!("--- {}\n{said}", command.text) } else { String::new() }
    }

    /// What a command did that the page does not say.
    fn fault(&self, number: usize, command: &Command) -> Option<String> {
        let read = |end: &str| read(&self.step(&format!("{number}.{end}")));
        let [output, errors, code] = ["out", "err", "code"].map(read);
        let (output, errors) = (self.there(&output), self.there(&errors));
        let all = format!("{output}{errors}");
        let expected = command.comment.strip_prefix("exits ").unwrap_or("0");
        if code.trim() != expected {
            return Some(format!("exit code {:?}, not {expected}:\n{all}", code.trim()));
        }

        let expected = match command.expected.as_ref()? {
            Printed::Output(expected) | Printed::Terminal(expected) => expected,
        };
        let differs = !printed::is_as(&output, expected);
        differs.then(|| format!("--- the page says\n{expected}--- it prints\n{all}"))
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// The ports that a command is told to listen at, with the option that says so.
fn ports(text: &str) -> Vec<(&str, u16)> {
    let words: Vec<_> = text.split_whitespace().collect();
    let listens = ["--health", "--listen", "--http", "--mcp"];
    let pairs = words.windows(2).filter(|pair| listens.contains(&pair[0]));
    pairs.filter_map(|pair| Some((pair[0], pair[1].rsplit(':').next()?.parse().ok()?))).collect()
}

#[test]
fn the_ports_of_a_service_are_found() {
    let found = ports("a --health :8081 --http 127.0.0.1:8810 --mcp-config 1:2 &");
    assert_eq!(found, [("--health", 8081), ("--http", 8810)]);
}
