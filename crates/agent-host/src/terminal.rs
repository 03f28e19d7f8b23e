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
use toolbus_wire::message::toolbus::ToolProgress;

use crate::person::Person;
use crate::terminal_text;

/// Work that is done sooner shows nothing.
const SHOW_GRACE: Duration = Duration::from_millis(700);
/// How often the line is drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);
/// Most characters of a status that are shown.
const STATUS_CHARACTERS_MAX: usize = 60;

/// Shows progress, where standard error is a terminal.
pub(crate) struct Terminal {
    status_text: Option<Arc<Mutex<String>>>,
    /// There when somebody reads and types.
    person: Option<Person>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Terminal {
    /// Begins to show the progress of a call.
    pub(crate) fn start(tool: &str) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let status_text = std::io::stderr().is_terminal().then(Arc::<Mutex<String>>::default);
        let types = status_text.is_some() && std::io::stdin().is_terminal();
        let person = types.then(Person::new);
        if let Some(status_text) = &status_text {
            let line = ProgressLine {
                tool: tool.to_owned(),
                status_text: Arc::clone(status_text),
                person: person.clone(),
            };
            tasks.spawn(line.draw_until(stop.clone()));
        }
        Self { status_text, person, stop, tasks }
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

    /// Takes the call's questions, where there is somebody to answer them.
    pub(crate) fn asker(&self) -> Asker {
        self.person.as_ref().map_or(Asker::none(), Person::asker)
    }

    /// Clears the line.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

struct ProgressLine {
    tool: String,
    status_text: Arc<Mutex<String>>,
    person: Option<Person>,
}

impl ProgressLine {
    async fn draw_until(self, stop: CancellationToken) {
        let started = Instant::now();
        let mut next = SHOW_GRACE;
        let mut drawn = false;

        loop {
            tokio::select! {
                () = tokio::time::sleep(next) => {}
                () = stop.cancelled() => break,
            }

            next = DRAW_INTERVAL;
            if self.person.as_ref().is_some_and(Person::is_asked) {
                // The line that is there is the question's.
                drawn = false;
                continue;
            }

            drawn = true;
            let (seconds, status_text) =
                (started.elapsed().as_secs(), self.status_text.lock().clone());
            let _ = write!(std::io::stderr(), "\r\x1b[2K{}: {seconds} s  {status_text}", self.tool);
            let _ = std::io::stderr().flush();
        }

        if drawn {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
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
