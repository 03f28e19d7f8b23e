//! What is the matter with the sandbox of the settings, for `doctor`.

use toolbus_config::Finding;

use crate::Unavailable;
use crate::settings::ScriptsSettings;

const SANDBOX: &str = "sandbox";
const PYTHON: &str = "python";
const MEMORY: &str = "memory";

/// Tries the sandbox of scripts out, as a program does that runs them.
pub async fn examine(settings: &ScriptsSettings) -> Vec<Finding> {
    let sandbox = match settings.sandbox().await {
        Ok(sandbox) => sandbox,
        Err(unavailable) => return vec![describe_failure(&unavailable)],
    };

    let bwrap = sandbox.bwrap().display();
    let held = format!("{bwrap} makes user namespaces, and kept a script in that tried to get out");
    let limit = settings.memory;
    let memory = match sandbox.memory_accounting() {
        "control group" => Finding::ok(MEMORY, format!("{limit} a script, by a control group")),
        _ => Finding::note(
            MEMORY,
            format!("{limit} a script, by sampling: one may have more for a moment"),
        )
        .mended_by("run it in a systemd unit with Delegate=yes, or see docs/security.md"),
    };
    vec![Finding::ok(SANDBOX, held), Finding::ok(PYTHON, sandbox.describe_python()), memory]
}

fn describe_failure(unavailable: &Unavailable) -> Finding {
    let text = unavailable.to_string();

    match unavailable {
        Unavailable::BubblewrapMissing { path } => {
            Finding::wrong(SANDBOX, format!("bubblewrap was not found at {}", path.display()))
                .mended_by("apt-get install bubblewrap, dnf install bubblewrap, or scripts.bwrap")
        }
        Unavailable::BubblewrapOld { path, found } => {
            let detail = format!("{} is too old or does not work ({found})", path.display());
            Finding::wrong(SANDBOX, detail)
                .mended_by("install bubblewrap 0.8 or later, there or at scripts.bwrap")
        }
        Unavailable::Kernel { .. } => Finding::wrong(SANDBOX, text)
            .mended_by("a kernel of 5.14 or later, or scripts on another machine (TOOLBUS_BUS)"),
        Unavailable::Interpreter { reason } => {
            Finding::wrong(PYTHON, format!("no usable interpreter: {reason}"))
                .mended_by("install Python 3.8 or later as python3, or name one by scripts.python")
        }
        Unavailable::Setting { .. } => {
            Finding::wrong(SANDBOX, text).mended_by("correct the section scripts of the settings")
        }
        Unavailable::Start { reason, advice } => {
            Finding::wrong(SANDBOX, format!("it does not start: {reason}")).mended_by(*advice)
        }
        Unavailable::Leak { .. } => Finding::wrong(SANDBOX, text)
            .mended_by("run no scripts here: TOOLBUS_BUS, and a scripts-manager elsewhere"),
    }
}
