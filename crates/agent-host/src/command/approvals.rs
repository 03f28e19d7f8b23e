//! `approvals`: shows and answers calls that wait for approval, in any process at the same store.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use toolbus_approvals::{
    Answer, Approval, ApprovalState, ApprovalStore, Approve, BoundPrincipal, Error, ForChain,
    Remember, Remembered, ShownArguments,
};
use toolbus_runtime::service::{BoxError, Exit};
use toolbus_tools::call::ARGUMENTS_LIMITS;
use toolbus_tools::scope::{Principal, Proof};
use toolbus_wire::clock::unix_now;

use super::fail;
use crate::arguments::{Approvals, ApprovalsCommand};
use crate::settings::Settings;
use crate::{state, terminal_text};

/// Most characters of arguments in a list.
const LISTED_CHARACTERS_MAX: usize = 60;
/// Characters of an id in a list, which tell it from all others for most purposes.
const LISTED_ID_CHARACTERS: usize = 12;

/// Why nothing is shown or answered.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Approvals(#[from] Error),
    #[error("the arguments are not JSON: {0}")]
    Arguments(#[from] toolbus_json::Error),
    #[error("the arguments cannot be written to {}: {_1}", _0.display())]
    File(PathBuf, #[source] std::io::Error),
    #[error("there is no remembered answer '{0}'")]
    NothingRevoked(String),
}

/// What is printed: lines for people, or a value.
struct Report {
    text: String,
    value: Value,
}

pub(super) async fn run(options: Approvals, settings: &Settings) -> Result<Exit, BoxError> {
    let Some(lazy) = state::store(settings) else {
        return Err("there is no place for state: set `store`".into());
    };
    let store = ApprovalStore::new(lazy.clone(), settings.approvals.allow_self_approval);
    let is_empty = !lazy.may_hold_something();
    let remember_for = settings.approvals.remember_for.duration();

    let done = match options.command {
        // A look makes no file.
        ApprovalsCommand::List { .. } | ApprovalsCommand::Remembered if is_empty => {
            Ok(Report { text: String::new(), value: json!([]) })
        }
        ApprovalsCommand::Show { id, .. }
        | ApprovalsCommand::Approve { id, .. }
        | ApprovalsCommand::Deny { id, .. }
        | ApprovalsCommand::Revoke { id }
            if is_empty =>
        {
            Err(Error::NotFound(id).into())
        }
        command => answer(command, &store, remember_for).await,
    };
    lazy.close().await;

    match done {
        Ok(report) if options.json => {
            let _ = writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&report.value)?);
        }
        Ok(report) => {
            // Names and arguments are the words of strangers.
            let text = terminal_text::for_stream(&report.text, &std::io::stdout());
            let _ = write!(std::io::stdout(), "{text}");
        }
        Err(failure) => return Ok(fail(failure)),
    }
    Ok(Exit::SUCCESS)
}

async fn answer(
    command: ApprovalsCommand,
    store: &ApprovalStore,
    remember_for: Duration,
) -> Result<Report, Failure> {
    match command {
        ApprovalsCommand::List { all, limit } => {
            let state = (!all).then_some(ApprovalState::Pending);
            let listed = store.list(state, limit).await?;
            Ok(Report { text: list_text(&listed), value: json!(listed) })
        }
        ApprovalsCommand::Show { id, arguments_to } => {
            let shown = store.find(&id).await?;
            if let Some(file) = arguments_to {
                let text = ShownArguments::text_of(&shown.binding.arguments);
                fs::write(&file, text).map_err(|error| Failure::File(file, error))?;
            }
            Ok(Report { text: show_text(&shown), value: json!(shown) })
        }
        ApprovalsCommand::Approve {
            id,
            arguments,
            remember,
            chain_calls,
            matching,
            remember_for: time,
            note,
        } => {
            let read = |text: &str| toolbus_json::from_str::<Value>(text, &ARGUMENTS_LIMITS);
            let matching = matching.as_deref().map(read).transpose()?;
            let asked = store.find(&id).await?;
            let verdict = match (arguments, chain_calls) {
                (Some(arguments), _) => Approve::With(read(&arguments)?),
                (None, Some(calls)) => {
                    let arguments = matching.unwrap_or_default();
                    Approve::ForChain(ForChain { calls, arguments })
                }
                (None, None) => {
                    let remember = remember.as_deref().and_then(Remember::parse);
                    Approve::yes(&asked.binding, remember, time, remember_for)
                }
            };

            say(store, &asked, verdict, note).await
        }
        ApprovalsCommand::Deny { id, note } => {
            let asked = store.find(&id).await?;
            say(store, &asked, Approve::No, note).await
        }
        ApprovalsCommand::Remembered => {
            let remembered = store.remembered().await?;
            Ok(Report { text: remembered_text(&remembered), value: json!(remembered) })
        }
        ApprovalsCommand::Revoke { id } => match store.revoke(&id).await? {
            0 => Err(Failure::NothingRevoked(id)),
            count => Ok(Report {
                text: format!("{count} taken back\n"),
                value: json!({"revoked": count}),
            }),
        },
    }
}

async fn say(
    store: &ApprovalStore,
    asked: &Approval,
    verdict: Approve,
    note: Option<String>,
) -> Result<Report, Failure> {
    let answer = Answer { verdict, by: local_person(), note };
    let said = store.answer(&asked.id, answer).await?;
    let text = format!("{}: {} is {}\n", said.id, said.binding.subject, said.state);
    Ok(Report { text, value: json!(said) })
}

/// Whoever runs this, by the name that the system has for them.
fn local_person() -> BoundPrincipal {
    let name = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    let name = name.unwrap_or_else(|_| "local".to_owned());
    let claimed = Principal::claimed(&name);
    BoundPrincipal::of(&Principal { proof: Proof::Local, ..claimed })
}

fn list_text(approvals: &[Approval]) -> String {
    let mut text = String::new();
    for approval in approvals {
        let arguments = approval.binding.arguments.to_string();
        let shown: String = arguments.chars().take(LISTED_CHARACTERS_MAX).collect();
        let more = if shown.len() < arguments.len() { "…" } else { "" };
        let _ = writeln!(
            text,
            "{}  {:8}  {:>8}  {}  {}  {shown}{more}",
            short_id(&approval.id),
            approval.state.as_str(),
            age(approval.asked_ms),
            approval.requester(),
            approval.binding.subject,
        );
    }
    text
}

fn show_text(approval: &Approval) -> String {
    let Approval { binding, .. } = approval;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:12} {value}");
    };
    line("id", &approval.id);
    line("state", approval.state.as_str());
    line("tool", &binding.subject);
    line("called as", &approval.tool);
    line("risk", &approval.risk);
    line("rule", &binding.rule);
    line("why", &approval.reason);
    line(
        "a yes covers",
        match binding.default_remember() {
            Remember::Tool => "every later call of this tool, with any arguments",
            _ => "this call",
        },
    );
    line("asked by", &binding.principal.to_string());
    line("agent", &approval.agent);
    line("came by", &approval.door);
    line("session", binding.session.as_deref().unwrap_or("-"));
    line("chain", binding.chain.as_deref().unwrap_or("-"));
    line("definition", binding.definition.as_deref().unwrap_or("-"));
    line("digest", &approval.digest);
    line("asked", &format!("{} ago", age(approval.asked_ms)));
    if let Some(by) = &approval.answered_by {
        line("answered by", by);
    }
    if let Some(note) = &approval.note {
        line("note", note);
    }

    for (name, arguments) in [
        ("asked for with", approval.asked_arguments.as_ref()),
        ("arguments", Some(&binding.arguments)),
    ] {
        if let Some(arguments) = arguments {
            let whole = "--arguments-to FILE writes all of it";
            let shown = ShownArguments::of(arguments).to_text(whole);
            let _ = writeln!(text, "{name}\n{shown}");
        }
    }
    text
}

fn remembered_text(all: &[Remembered]) -> String {
    let mut text = String::new();
    for remembered in all {
        let Remembered { binding, .. } = remembered;
        let holds_for = match remembered.remember {
            Remember::Once => String::new(),
            Remember::Session => binding.session.clone().unwrap_or_default(),
            Remember::Tool => match &binding.agent {
                Some(agent) => format!("any arguments, for the agent {agent}"),
                None => "any arguments".to_owned(),
            },
            Remember::Arguments => binding.arguments.to_string(),
        };

        let _ = writeln!(
            text,
            "{}  {:9}  {}  {}  {holds_for}  by {}, for {} more",
            short_id(&remembered.id),
            remembered.remember.as_str(),
            binding.principal,
            binding.subject,
            remembered.made_by,
            span(remembered.expires_ms - now_ms()),
        );
    }
    text
}

fn short_id(id: &str) -> &str {
    id.get(..LISTED_ID_CHARACTERS).unwrap_or(id)
}

fn now_ms() -> i64 {
    i64::try_from(unix_now().as_millis()).unwrap_or(i64::MAX)
}

/// How long ago that was, by the clock of this host.
fn age(ms: i64) -> String {
    span(now_ms() - ms)
}

/// A length of time in its largest unit.
fn span(ms: i64) -> String {
    let seconds = ms.max(0) / 1_000;
    match seconds {
        ..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m", seconds / 60),
        7_200..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
