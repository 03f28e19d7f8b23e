//! `toolkits`: which groups of tools are on, and why others are not.

use std::fmt::Write as _;
use std::io::Write as _;

use toolbus_runtime::service::{BoxError, Context, Exit};

use crate::arguments::ToolkitsOptions;
use crate::settings::Settings;
use crate::toolkits::{ToolkitDeps, ToolkitStatus, Toolkits};
use crate::{state, terminal_text};

pub(super) async fn run(
    options: ToolkitsOptions,
    settings: &Settings,
    context: &Context,
) -> Result<Exit, BoxError> {
    let store = state::store(settings);
    let vault = store.as_ref().and_then(|store| state::vault(settings, store));
    let deps = ToolkitDeps { memory: None, vault: vault.clone() };
    let toolkits = Toolkits::start(settings, &context.health, deps).await;
    let toolkits = toolkits.describe(vault.as_ref()).await;
    if let Some(store) = store {
        store.close().await;
    }

    let text = if options.json {
        serde_json::to_string_pretty(&toolkits)? + "\n"
    } else {
        // Reasons may have words of the system, and names of endpoints are the settings'.
        let text = as_text(&toolkits);
        terminal_text::for_stream(&text, &std::io::stdout()).into_owned()
    };
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(Exit::SUCCESS)
}

/// One line for each toolkit, one for whom it is there if not for everybody, and one for each tool
/// that does not work in one that is on.
fn as_text(toolkits: &[ToolkitStatus]) -> String {
    let width = toolkits.iter().map(|toolkit| toolkit.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for toolkit in toolkits {
        let name = toolkit.name;
        if let Some(reason) = &toolkit.reason {
            let _ = writeln!(text, "{name:width$}  off  {reason}");
            continue;
        }

        let working = toolkit.tools.iter().filter(|tool| tool.on);
        let working: Vec<&str> = working.map(|tool| tool.name.as_str()).collect();
        let _ = writeln!(text, "{name:width$}  on   {}", working.join(", "));
        if !toolkit.is_for_everybody() {
            let _ = writeln!(text, "{:width$}       for {}", "", toolkit.principals.join(", "));
        }
        for tool in &toolkit.tools {
            if let Some(reason) = &tool.reason {
                let _ = writeln!(text, "{:width$}       {} is off: {reason}", "", tool.name);
            }
        }
    }
    text
}
