//! `docs/configuration.md` says what the programs really read.

use std::fmt::Write as _;
use std::path::Path;

use toolbus_config::shared_settings::SHARED_ALIASES;
use toolbus_config::{Alias, Settings, reference};

const HEAD: &str = "\
# Configuration

Made from the settings' own types; `UPDATE_DOCS=1 cargo test -p e2e reference` writes it anew.

Every program takes `--config FILE`, `--name NAME`, `--log FILTER` and `--quiet`, services take
`--health ADDRESS`, all but `openrouter-mcp` take `--bus URL`, and `--help` tells the rest. `--print-config` shows the
settings that hold, where each comes from, and no secrets. All mistakes are told at once.

With `--quiet` a program says nothing on standard error but errors: no progress, no warnings, and of the log only
errors. Commands that do one thing and end, such as `agent-host invoke`, go by a log filter of `--log`, `TOOLBUS_LOG` or
`RUST_LOG`, and not by that of the settings file or of `TOOLBUS_LOG__FILTER`: those mean the services beside them. Errors
are coloured at a terminal, unless `NO_COLOR` is set.

A file is TOML, with the keys below: `bus.url` is `url` in the table `[bus]`. Times are written as
`30s`, `2m` or `500ms`, sizes as `256MiB`.

";

fn section<T: Settings>(page: &mut String, program: &str, aliases: &[Alias]) {
    let all = [SHARED_ALIASES, aliases].concat();
    // One level below the page's own headline.
    writeln!(page, "#{}", reference::<T>(program, &all)).unwrap();
}

#[test]
fn the_page_of_settings_is_true() {
    let mut page = HEAD.to_owned();
    section::<agent_host::settings::Settings>(
        &mut page,
        "agent-host",
        agent_host::settings::ALIASES,
    );
    section::<mcp_bridge::settings::Settings>(
        &mut page,
        "mcp-bridge",
        mcp_bridge::settings::ALIASES,
    );
    section::<scripts_manager::settings::Settings>(&mut page, "scripts-manager", &[]);
    section::<openrouter_mcp::settings::Settings>(
        &mut page,
        "openrouter-mcp",
        openrouter_mcp::settings::ALIASES,
    );
    let page = format!("{}\n", page.trim_end());

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }

    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/configuration.md is stale: UPDATE_DOCS=1 cargo test -p e2e reference"
    );
}
