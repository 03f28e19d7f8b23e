//! What a call has to say on a terminal: a line of progress, gone when the work is done, and its
//! questions.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_bus::{Asker, Progress};
use toolbus_runtime::service::Context;
use toolbus_wire::message::toolbus::ToolProgress;

use crate::person::Person;
use crate::terminal_text;

/// Work that is done sooner shows nothing.
const SHOW_GRACE: Duration = Duration::from_millis(700);
/// How often the line is drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);
/// Most characters of a status that are shown.
const STATUS_CHARACTERS_MAX: usize = 60;

/// Shows progress, where standard error is a terminal and the program is not to be quiet.
pub(crate) struct Terminal {
    status_text: Option<Arc<Mutex<String>>>,
    line: Arc<StatusLine>,
    /// There when somebody reads and types.
    person: Option<Person>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Terminal {
    /// Begins to show the progress of a call.
    pub(crate) fn start(tool: &str, context: &Context) -> Self {
        let types = std::io::stderr().is_terminal() && std::io::stdin().is_terminal();
        // Questions are asked however quiet it is.
        Self::show(tool, types.then(Person::new), context.quiet)
    }

    /// Shows whom `waiting` waits for, until it is done. The names may become fewer.
    pub(crate) async fn show_waiting(
        label: &str,
        quiet: bool,
        names: impl Fn() -> Vec<String>,
        waiting: impl Future,
    ) {
        let line = Self::show(label, None, quiet);
        let show = async {
            loop {
                let names = names().join(", ");
                line.set_status(match names.is_empty() {
                    true => names,
                    false => format!("waiting for {names}"),
                });
                tokio::time::sleep(DRAW_INTERVAL).await;
            }
        };

        // Both only wait.
        tokio::select! {
            _ = waiting => {}
            never = show => match never {},
        }
        line.stop().await;
    }

    fn show(tool: &str, person: Option<Person>, quiet: bool) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let shows = std::io::stderr().is_terminal() && !quiet;
        let status_text = shows.then(Arc::<Mutex<String>>::default);
        let status_line = Arc::<StatusLine>::default();
        if let Some(status_text) = &status_text {
            let line = ProgressLine {
                tool: tool.to_owned(),
                status_text: Arc::clone(status_text),
                person: person.clone(),
                shown: Arc::clone(&status_line),
            };
            tasks.spawn(line.draw_until(stop.clone()));
        }
        Self { status_text, line: status_line, person, stop, tasks }
    }

    /// Whether what goes on is shown.
    pub(crate) fn shows_progress(&self) -> bool {
        self.status_text.is_some()
    }

    /// Takes the call's progress.
    pub(crate) fn progress(&self) -> Progress {
        match &self.status_text {
            None => Progress::none(),
            Some(status_text) => {
                let status_text = Arc::clone(status_text);
                Progress::to(move |progress| {
                    if let Some(text) = progress_line(&progress) {
                        *status_text.lock() = text;
                    }
                })
            }
        }
    }

    /// Shows this text in the line.
    fn set_status(&self, text: String) {
        if let Some(status_text) = &self.status_text {
            *status_text.lock() = text;
        }
    }

    /// Takes the call's questions, where there is somebody to answer them.
    pub(crate) fn asker(&self) -> Asker {
        self.person.as_ref().map_or(Asker::none(), Person::asker)
    }

    /// The line of progress, for who writes beside it.
    pub(crate) fn line(&self) -> Arc<StatusLine> {
        Arc::clone(&self.line)
    }

    /// Clears the line.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// The line of progress, which others write in the place of.
#[derive(Default)]
pub(crate) struct StatusLine(Mutex<LineState>);

#[derive(Default)]
struct LineState {
    is_drawn: bool,
    /// Somebody else's text is on the line.
    is_taken: bool,
}

impl StatusLine {
    /// Clears the line, and leaves it to who writes now.
    pub(crate) fn take(&self) {
        let mut state = self.0.lock();
        state.clear();
        state.is_taken = true;
    }

    /// The line is empty again.
    pub(crate) fn give_back(&self) {
        self.0.lock().is_taken = false;
    }

    /// Whether text of who took it is on the line.
    pub(crate) fn is_taken(&self) -> bool {
        self.0.lock().is_taken
    }

    fn draw(&self, text: &str) {
        let mut state = self.0.lock();
        if !state.is_taken {
            let _ = write!(std::io::stderr(), "\r\x1b[2K{text}");
            let _ = std::io::stderr().flush();
            state.is_drawn = true;
        }
    }

    /// What is on the line is somebody else's, who has cleared it.
    fn forget(&self) {
        self.0.lock().is_drawn = false;
    }

    fn clear(&self) {
        self.0.lock().clear();
    }
}

impl LineState {
    fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
            let _ = std::io::stderr().flush();
        }
    }
}

struct ProgressLine {
    tool: String,
    status_text: Arc<Mutex<String>>,
    person: Option<Person>,
    shown: Arc<StatusLine>,
}

impl ProgressLine {
    async fn draw_until(self, stop: CancellationToken) {
        let started = Instant::now();
        let mut next = SHOW_GRACE;

        loop {
            tokio::select! {
                () = tokio::time::sleep(next) => {}
                () = stop.cancelled() => break,
            }

            next = DRAW_INTERVAL;
            if self.person.as_ref().is_some_and(Person::is_asked) {
                // The line that is there is the question's.
                self.shown.forget();
                continue;
            }

            let (seconds, status_text) =
                (started.elapsed().as_secs(), self.status_text.lock().clone());
            self.shown.draw(&format!("{}: {seconds} s  {status_text}", self.tool));
        }
        self.shown.clear();
    }
}

/// The status_text in a few words. Control characters of a tool's output never reach the terminal.
fn progress_line(progress: &ToolProgress) -> Option<String> {
    let text = match progress {
        ToolProgress { text: Some(text), .. } => {
            text.lines().rfind(|line| !line.trim().is_empty())?
        }
        ToolProgress { message: Some(message), .. } => message,
        ToolProgress { progress: Some(done), total, .. } => {
            return Some(match total {
                Some(total) => format!("{done} of {total}"),
                None => done.to_string(),
            });
        }
        _ => return None,
    };

    let text = terminal_text::clean(text);
    Some(text.chars().filter(|c| !c.is_control()).take(STATUS_CHARACTERS_MAX).collect())
}
