//! `policy`: what the rule book of the settings says, as it decides calls.

use std::collections::BTreeSet;
use std::io::Write as _;

use serde_json::json;
use toolbus::Toolbus;
use toolbus_mcp_agent::subject_of;
use toolbus_policy::matrix::{self, decision_name};
use toolbus_policy::{PolicySettings, Preset, RuleBook, principal_text};
use toolbus_runtime::service::{BoxError, Context, Exit};
use toolbus_tools::id::ToolId;
use toolbus_tools::policy::{Decision, PolicyRequest};
use toolbus_tools::scope::DoorSet;
use toolbus_tools::tool::{Annotations, Risk};
use toolbus_tools::{Audience, Door, Principal, Scope, Subject};

use super::one_shot::{CONNECT_TIMEOUT, NeededServers, OneShot};
use super::{misuse, print};
use crate::arguments::{Matrix, PolicyCommand, Show, Why};
use crate::settings::Settings;
use crate::terminal_text;

pub(super) async fn run(
    command: PolicyCommand,
    settings: &Settings,
    context: &Context,
) -> Result<Exit, BoxError> {
    // `show` prints the settings alone, so nothing has to be started.
    if let PolicyCommand::Show(options) = &command {
        return show(options, &settings.policy);
    }
    let one_shot = OneShot::start(settings, context, NeededServers::All).await?;
    one_shot.wait_for_servers(NeededServers::All, CONNECT_TIMEOUT).await;

    let subjects = subjects(one_shot.toolbus());
    let book = one_shot.policy().book();
    let (text, exit) = match command {
        PolicyCommand::Matrix(options) => {
            (show_matrix(&options, &book, one_shot.toolbus(), &subjects)?, Exit::SUCCESS)
        }
        PolicyCommand::Check => (check(&book, settings, &subjects), Exit::SUCCESS),
        PolicyCommand::Show(_) => (String::new(), Exit::SUCCESS),
        PolicyCommand::Why(options) => match find_subject(&options.tool, &one_shot, &subjects) {
            Some(asked) => explain(&options, &book, one_shot.toolbus(), &asked),
            None => {
                let tool = &options.tool;
                let what = format!("no tool is called '{tool}', and no id is: it has no `/`");
                (String::new(), misuse(what))
            }
        },
    };

    // Ids of tools are the servers' own words. Whoever closed our standard output wants no more.
    let text = terminal_text::for_stream(&text, &std::io::stdout());
    let _ = std::io::stdout().write_all(text.as_bytes());
    let exit = one_shot.exit(exit);
    one_shot.stop().await;
    Ok(exit)
}

/// Runs `policy show`.
fn show(options: &Show, policy: &PolicySettings) -> Result<Exit, BoxError> {
    let shown = match options.preset {
        Some(preset) => PolicySettings { preset: Some(preset), ..PolicySettings::default() },
        None => policy.clone(),
    };
    let is_active = options.preset.is_none_or(|preset| policy.preset == Some(preset));
    let book = RuleBook::new(&shown)?;
    let preset = shown.preset.map(Preset::as_str);

    if options.json {
        let answer = json!({
            "preset": preset,
            "activePreset": policy.preset.map(Preset::as_str),
            "revision": book.revision().as_str(),
            "policy": shown.with_preset_rules(),
        });
        print(&format!("{answer:#}\n"));
        return Ok(Exit::SUCCESS);
    }

    let name = preset.map_or_else(|| "no preset".to_owned(), |name| format!("the preset {name:?}"));
    let what = match (is_active, policy.preset) {
        (true, _) => format!("# Active: {name}. Revision {}.\n", book.revision()),
        (false, Some(active)) => format!("# Not active: {name}. Active: the preset {active}.\n"),
        (false, None) => format!("# Not active: {name}. No preset is active.\n"),
    };
    print(&format!("{what}\n{}", shown.to_toml()?));
    Ok(Exit::SUCCESS)
}

/// What calls can be about: every tool there is, and every tool of a server.
fn subjects(toolbus: &Toolbus) -> Vec<Subject> {
    let registered: Vec<Subject> =
        toolbus.tools().tools().iter().map(|entry| entry.subject()).collect();
    let servers = toolbus.directory().servers();
    let of_servers = servers.iter().flat_map(|server| {
        let tools = server.tool_names.iter();
        tools.map(|tool| subject_of(Some(server), &server.server_name, tool))
    });

    let mut seen = BTreeSet::new();
    let all = registered.into_iter().chain(of_servers);
    all.filter(|subject| seen.insert(subject.id.clone())).collect()
}

fn show_matrix(
    options: &Matrix,
    book: &RuleBook,
    toolbus: &Toolbus,
    subjects: &[Subject],
) -> Result<String, BoxError> {
    let cells = matrix::cells(book, toolbus.name(), subjects);
    if options.json {
        let all = json!({"revision": book.revision().as_str(), "cells": cells});
        return Ok(serde_json::to_string_pretty(&all)? + "\n");
    }
    Ok(matrix::table(&cells))
}

fn check(book: &RuleBook, settings: &Settings, subjects: &[Subject]) -> String {
    let mut text = format!(
        "policy {}, preset: {}, default: {}, rules: {}, limits: {}, budgets: {}\n",
        book.revision(),
        book.preset().map_or("none", Preset::as_str),
        settings.policy.default.as_str(),
        book.rule_count(),
        book.limit_names().count(),
        book.budget_count(),
    );
    for unmatched in matrix::unmatched_globs(book, subjects) {
        let line = format!(
            "warning: rule '{}': the glob '{}' matches no tool that is there now\n",
            unmatched.rule, unmatched.glob
        );
        text.push_str(&line);
    }
    text
}

/// What is asked about, and whether it is known here.
struct Asked {
    subject: Subject,
    is_known: bool,
}

/// The tool of this id or name. An id that is not known is taken at its worst.
fn find_subject(tool: &str, one_shot: &OneShot, subjects: &[Subject]) -> Option<Asked> {
    let known = |subject: Subject| Some(Asked { subject, is_known: true });
    if let Some(subject) = subjects.iter().find(|subject| subject.id.as_str() == tool) {
        return known(subject.clone());
    }
    if let Some(entry) = one_shot.toolbus().tools().find(tool) {
        return known(entry.subject());
    }

    let id = ToolId::parse(tool).ok().filter(|id| id.as_str().contains('/'))?;
    let subject = Subject {
        id,
        definition: None,
        annotations: Annotations::default(),
        risk: Risk::High,
        audience: Audience::everybody(),
    };
    Some(Asked { subject, is_known: false })
}

fn explain(options: &Why, book: &RuleBook, toolbus: &Toolbus, asked: &Asked) -> (String, Exit) {
    let Asked { subject, is_known } = asked;
    let principal = options.principal.clone().unwrap_or_else(Principal::local);
    let agent = options.agent.clone().unwrap_or_else(|| toolbus.name().clone());
    let door = options.doors.last().copied().unwrap_or(Door::CommandLine);
    let scope = Scope::new(door, principal, agent).with_session(options.session.clone());
    let scope = scope.with_earlier_doors(DoorSet::of(&options.doors));

    let request = PolicyRequest { scope: &scope, subject };
    let explanation = book.explain(&request);
    let decision = decision_name(&explanation.decision);
    let limits: Vec<&str> = book.limits_of(&request).collect();
    let reason = match &explanation.decision {
        Decision::Ask(demand) => Some(&*demand.reason),
        Decision::Deny(reason) => Some(&**reason),
        _ => None,
    };
    let preset = book.preset().map(Preset::as_str);
    let exit = if explanation.decision == Decision::Allow { Exit::SUCCESS } else { Exit::FAILURE };

    let Subject { id, annotations, risk, .. } = subject;
    if options.json {
        let answer = json!({
            "tool": id.as_str(),
            "isKnown": is_known,
            "risk": risk.as_str(),
            "readOnly": annotations.read_only,
            "idempotent": annotations.idempotent,
            "destructive": annotations.destructive,
            "door": scope.door,
            "doors": scope.doors.iter().collect::<Vec<_>>(),
            "principal": principal_text(&scope.principal),
            "agent": scope.agent.as_str(),
            "session": scope.session.as_ref().map(|session| session.as_str()),
            "decision": decision,
            "by": explanation.by.to_string(),
            "reason": reason,
            "preset": preset,
            "limits": limits,
            "budget": book.budget_of(&scope),
            "revision": book.revision().as_str(),
        });
        return (format!("{answer:#}\n"), exit);
    }

    let mut text = format!("{decision} by {}", explanation.by);
    if let Some(reason) = reason {
        text.push_str(&format!(": {reason}"));
    }
    let session = scope.session.as_ref().map_or("none", |session| session.as_str());
    let has = |flag: bool| if flag { "yes" } else { "no" };
    text.push_str(&format!(
        "\n  tool       {id}{}\n  risk       {}, read-only: {}, idempotent: {}, destructive: {}\n  \
         door       {}\n  principal  {}\n  agent      {}\n  session    {session}\n  \
         limits     {}\n  budget     {}\n  preset     {}\n",
        if *is_known { "" } else { " (not known here: taken at its worst)" },
        risk.as_str(),
        has(annotations.read_only),
        has(annotations.idempotent),
        has(annotations.destructive),
        scope.doors,
        principal_text(&scope.principal),
        scope.agent,
        if limits.is_empty() { "none".to_owned() } else { limits.join(", ") },
        book.budget_of(&scope).unwrap_or("none"),
        preset.unwrap_or("none"),
    ));
    (text, exit)
}
