//! Progress on a terminal: one line that says what goes on, gone when the work is done.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_bus::Progress;
use toolbus_wire::message::toolbus::ToolProgress;

/// Work that is done sooner shows nothing.
const SHOW_AFTER: Duration = Duration::from_millis(700);
/// How often the line is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(200);
/// Most characters of news that are shown.
const NEWS_CHARACTERS_MAX: usize = 60;

/// Shows progress, where standard error is a terminal.
pub(crate) struct Terminal {
    news: Option<Arc<Mutex<String>>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Terminal {
    /// Begins to show the progress of a call.
    pub(crate) fn start(tool: &str) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let news = std::io::stderr().is_terminal().then(Arc::<Mutex<String>>::default);
        if let Some(news) = &news {
            tasks.spawn(draw(tool.to_owned(), Arc::clone(news), stop.clone()));
        }
        Self { news, stop, tasks }
    }

    /// Takes the call's progress.
    pub(crate) fn progress(&self) -> Progress {
        match &self.news {
            None => Progress::none(),
            Some(news) => {
                let news = Arc::clone(news);
                Progress::to(move |progress| {
                    if let Some(text) = describe(&progress) {
                        *news.lock() = text;
                    }
                })
            }
        }
    }

    /// Clears the line.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

async fn draw(tool: String, news: Arc<Mutex<String>>, stop: CancellationToken) {
    let started = Instant::now();
    let mut next = SHOW_AFTER;
    let mut drawn = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(next) => {}
            () = stop.cancelled() => break,
        }
        next = DRAW_EVERY;
        drawn = true;
        let (seconds, news) = (started.elapsed().as_secs(), news.lock().clone());
        let _ = write!(std::io::stderr(), "\r\x1b[2K{tool}: {seconds} s  {news}");
        let _ = std::io::stderr().flush();
    }
    if drawn {
        let _ = write!(std::io::stderr(), "\r\x1b[2K");
    }
}

/// The news in a few words. Control characters of a tool's output never reach the terminal.
fn describe(progress: &ToolProgress) -> Option<String> {
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
    Some(text.chars().filter(|c| !c.is_control()).take(NEWS_CHARACTERS_MAX).collect())
}
