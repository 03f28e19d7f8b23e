//! The question whether a call may run.

use serde_json::{Value, json};
use toolbus_approvals::ShownArguments;
use toolbus_wire::message::toolbus::AskError;

use super::{Keyboard, LINE_LIMITS, TRIES_MAX, to_printable, write_line};
use crate::terminal_text;

/// Scope of the approval that each key gives. `y` gives the scope that the question states.
const YES: [(&str, &str); 4] = [("o", "once"), ("s", "session"), ("t", "tool"), ("a", "arguments")];
/// Choices for a question whose yes covers one call.
const CHOICES: &str =
    "[y]es, once; yes, for [s]ession, [t]ool or same [a]rguments; [e]dit arguments; [N]o: ";
/// Choices for a question whose yes covers the tool.
const CHOICES_ONCE_PER_TOOL: &str = "\
A yes covers every later call of this tool, with any arguments.
[y]es; yes, [o]nce, for [s]ession or same [a]rguments; [e]dit arguments; [N]o: ";

/// Shows the call and asks. Whatever is none of the keys is a no.
pub(super) async fn ask(keyboard: &mut Keyboard, params: &Value) -> Result<Value, AskError> {
    let text = |member: &str| to_printable(params[member].as_str().unwrap_or_default());
    let shown = match ShownArguments::read(params) {
        Ok(shown) => shown.to_text(&format!(
            "agent-host approvals show {} --arguments-to FILE writes all of it",
            text("approvalId")
        )),
        Err(error) => {
            write_line(&format!("\r\x1b[2K\nAn approval cannot be shown: {error}\n"));
            return Ok(denied());
        }
    };
    let shown = terminal_text::clean(&shown);
    write_line(&format!(
        "\r\x1b[2K\nApproval {}\n'{}' wants to run. Risk: {}. Why you are asked: {} (rule '{}').\n\
         Arguments:\n{shown}\n",
        text("approvalId"),
        text("subject"),
        text("risk"),
        text("reason"),
        text("rule"),
    ));

    let is_once_per_tool = params["remember"] == "tool";
    write_line(if is_once_per_tool { CHOICES_ONCE_PER_TOOL } else { CHOICES });
    let line = keyboard.next_line().await?.unwrap_or_default();
    let key = line.trim().to_lowercase();
    if key == "e" {
        return edit(keyboard).await;
    }
    let plain = if is_once_per_tool { "tool" } else { "once" };
    let yes = YES.into_iter().chain([("y", plain)]).find(|(yes, _)| *yes == key);
    Ok(match yes {
        Some((_, remember)) => json!({"action": "approve", "remember": remember}),
        None => denied(),
    })
}

/// Asks for other arguments.
async fn edit(keyboard: &mut Keyboard) -> Result<Value, AskError> {
    for _ in 0..TRIES_MAX {
        write_line("The arguments as JSON, in one line; an empty line denies: ");
        let line = keyboard.next_line().await?.unwrap_or_default();
        if line.trim().is_empty() {
            break;
        }
        match toolbus_json::from_str::<Value>(&line, &LINE_LIMITS) {
            Ok(arguments) if arguments.is_object() => {
                return Ok(json!({"action": "modify", "modifiedArguments": arguments}));
            }
            Ok(_) => write_line("  it must be an object\n"),
            Err(error) => write_line(&format!("  {error}\n")),
        }
    }
    Ok(denied())
}

fn denied() -> Value {
    write_line("Denied.\n");
    json!({"action": "deny"})
}
