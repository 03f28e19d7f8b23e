//! `chat`: talks with the agent.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};
use tokio::signal::unix::{Signal, SignalKind, signal};
use toolbus_agent::{Agent, SessionRef, TurnContext};
use toolbus_models::completion::TokenUsage;
use toolbus_runtime::service::{BoxError, Context, Exit};
use toolbus_tools::Scope;
use toolbus_tools::id::SessionId;

use super::ask::new_session;
use super::one_shot::{ANNOUNCEMENT_TIMEOUT, NeededServers, OneShot};
use super::{LEAVE_TIMEOUT, misuse, print_error};
use crate::agent;
use crate::arguments::{Chat, parse_session};
use crate::settings::Settings;
use crate::terminal::Terminal;
use crate::terminal_text;
use crate::turn_printer::{TurnPrinter, columns, shortened};

/// Lines that are kept to be found again.
const HISTORY_LINES_MAX: usize = 1_000;
/// Most sessions that `/sessions` lists.
const SESSIONS_MAX: i64 = 20;

const HELP: &str = "\
/tools            the tools that the agent has
/sessions         the last sessions
/session NAME     go on with this one
/new              begin a new one
/history          what was said in this one
/cost             what this chat has taken
/quit             leave, as Ctrl-D does
Ctrl-C ends the turn that is under way.
";

pub(super) async fn run(
    options: Chat,
    settings: &Settings,
    context: &Context,
) -> Result<Exit, BoxError> {
    // Heard from here on: without this the first one would end the process.
    let interrupts = signal(SignalKind::interrupt())?;
    let one_shot = OneShot::start(settings, context, NeededServers::None).await?;
    let agent = match agent::open(settings, one_shot.fleet(), options.model.as_deref()) {
        Ok(agent) => agent,
        Err(error) => {
            one_shot.stop().await;
            return Ok(misuse(toolbus_config::on_one_line(&error)));
        }
    };

    let background = one_shot.start_background(&agent).await?;
    let session = options.session.clone().unwrap_or_else(new_session);
    let mut chat = Conversation {
        context,
        one_shot: &one_shot,
        scope: one_shot.turn_scope(&agent, &session),
        agent,
        interrupts,
        usage: TokenUsage::default(),
    };
    let stop = context.shutdown.requested();
    let talking = stop.run_until_cancelled(chat.talk()).await;
    background.close(LEAVE_TIMEOUT).await;
    one_shot.stop().await;
    match talking {
        Some(talked) => talked.map(|()| Exit::SUCCESS),
        // The signal says how this ends.
        None => Ok(Exit::FAILURE),
    }
}

/// A person and the agent.
struct Conversation<'a> {
    context: &'a Context,
    one_shot: &'a OneShot,
    agent: Agent,
    scope: Scope,
    interrupts: Signal,
    usage: TokenUsage,
}

impl Conversation<'_> {
    async fn talk(&mut self) -> Result<(), BoxError> {
        let mut editor = Editor::open()?;
        self.greet();
        // The others come while one talks.
        self.one_shot.wait_for_servers(NeededServers::All, ANNOUNCEMENT_TIMEOUT).await;
        self.turn(None).await;
        loop {
            let (returned, line) = editor.read().await?;
            editor = returned;
            let Some(line) = line else { return Ok(()) };
            match line.trim() {
                "" => {}
                "/quit" | "/exit" => return Ok(()),
                command if command.starts_with('/') => self.obey(command).await,
                text => self.turn(Some(text.to_owned())).await,
            }
        }
    }

    fn greet(&self) {
        let (name, session) = (self.one_shot.toolbus().name(), self.session());
        tell(&format!("{name}, in {session}. /help lists commands, Ctrl-D leaves."));
    }

    fn session(&self) -> String {
        self.scope.session.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    async fn obey(&mut self, command: &str) {
        let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
        match (name, rest.trim()) {
            ("/help", _) => tell(HELP.trim_end()),
            ("/tools", _) => self.tell_tools(),
            ("/cost", _) => self.tell_cost(),
            ("/sessions", _) => self.tell_sessions().await,
            ("/history", _) => self.tell_history().await,
            ("/new", _) => self.enter(&new_session()).await,
            ("/session", name) => match parse_session(name) {
                Ok(session) => self.enter(&session).await,
                Err(error) => print_error(error),
            },
            _ => tell(&format!("there is no {name}; /help lists what there is")),
        }
    }

    async fn enter(&mut self, session: &SessionId) {
        self.scope = self.one_shot.turn_scope(&self.agent, session);
        self.greet();
        self.turn(None).await;
    }

    fn tell_tools(&self) {
        let snapshot = self.one_shot.toolbus().invoker().registry().snapshot();
        for entry in snapshot.seen_by(&self.scope) {
            let line = format!("{}  {}", entry.tool.name, entry.tool.description);
            tell(&shortened(&line, columns()));
        }
    }

    fn tell_cost(&self) {
        let TokenUsage { input, output, cache_read, cost_micro_usd, .. } = self.usage;
        let cost = match cost_micro_usd {
            Some(cost) => format!("{:.4} US dollars", cost as f64 / 1e6),
            None => "no price is known".to_owned(),
        };
        tell(&format!(
            "{input} tokens read ({cache_read} from the cache), {output} written; {cost}"
        ));
    }

    async fn tell_sessions(&self) {
        match self.agent.sessions().list(&self.scope, SESSIONS_MAX).await {
            Ok(sessions) if sessions.is_empty() => tell("none yet"),
            Ok(sessions) => {
                for session in sessions {
                    tell(&format!("{}  {}", session.session, session.title));
                }
            }
            Err(error) => tell_error(&error),
        }
    }

    async fn tell_history(&self) {
        let transcript = async {
            let at = SessionRef::of(&self.scope)?;
            self.agent.sessions().transcript(&at).await
        };
        match transcript.await {
            Ok(events) => {
                for line in super::sessions::lines_of(&events) {
                    tell(&line);
                }
            }
            Err(error) => tell_error(&error),
        }
    }

    /// One turn, which an interrupt ends. Without a text it is the one that was interrupted in the
    /// session, where there is one.
    async fn turn(&mut self, text: Option<String>) {
        let scope = Scope { cancelled: self.scope.cancelled.child_token(), ..self.scope.clone() };
        let (scope, terminal) = (Arc::new(scope), Terminal::start("agent", self.context));
        let printer = TurnPrinter::new(false, &terminal);
        let context = TurnContext {
            scope: Arc::clone(&scope),
            asker: terminal.asker(),
            on_event: &|event| printer.print(&event),
        };

        let agent = self.agent.clone();
        let turn = async {
            match text {
                Some(text) => agent.say(context, text).await.map(Some),
                None => agent.resume(context).await,
            }
        };
        let mut turn = std::pin::pin!(turn);
        let report = loop {
            tokio::select! {
                report = &mut turn => break report,
                _ = self.interrupts.recv() => scope.cancelled.cancel(),
            }
        };

        terminal.stop().await;
        match report {
            Ok(Some(report)) => {
                printer.finish(&report.end);
                self.usage = self.usage.plus(report.usage);
            }
            Ok(None) => {}
            Err(error) => tell_error(&error),
        }
    }
}

/// Reads lines of a person, who may edit them.
struct Editor {
    editor: DefaultEditor,
    history: Option<PathBuf>,
}

impl Editor {
    fn open() -> Result<Self, BoxError> {
        let config = Config::builder()
            .max_history_size(HISTORY_LINES_MAX)?
            .history_ignore_space(true)
            .auto_add_history(true)
            .build();
        let mut editor = DefaultEditor::with_config(config)?;
        let history = toolbus_store::state_folder().map(|folder| folder.join("chat_history"));
        if let Some(path) = &history {
            // There is none at first.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor, history })
    }

    /// The next line; `None` at the end.
    async fn read(mut self) -> Result<(Self, Option<String>), BoxError> {
        let reading = tokio::task::spawn_blocking(move || {
            let line = loop {
                match self.editor.readline("> ") {
                    Ok(line) => break Ok(Some(line)),
                    Err(ReadlineError::Eof) => break Ok(None),
                    Err(ReadlineError::Interrupted) => tell("Ctrl-D leaves."),
                    Err(error) => break Err(error),
                }
            };
            if let Some(path) = &self.history {
                let _ = self.editor.save_history(path);
            }
            line.map(|line| (self, line))
        });
        Ok(reading.await??)
    }
}

/// Tells the person something.
fn tell(text: &str) {
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "{}", terminal_text::for_stream(text, &stdout));
}

fn tell_error(error: &toolbus_agent::sessions::Error) {
    print_error(toolbus_config::on_one_line(error));
}
