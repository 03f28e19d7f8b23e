//! Scripts as people and models write them, each with its answer: none may fail for being held.
//!
//! Each is a file of its own below `honest`. Comments at its end say what it prints and, above
//! that, what it leaves in its output folder:
//!
//! ```text
//! # leaves: plot.png image/png
//! # prints:
//! # 42
//! ```
//!
//! What they print is the same with every Python from 3.11 on, and with every version of the
//! packages that the scientific ones ask for.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use toolbus_wire::envelope::new_id;
use toolbus_wire::message::script::{ScriptInvokeRequest, ScriptInvokeResponse};

use super::stage::Stage;
use crate::response;
use crate::runner::{Run, Runner, Script};

/// What each may take, in seconds: some compute for a while, and the machine may be busy.
const TIMEOUT_SECONDS: u32 = 120;
/// How many are run at a time.
const CONCURRENT_MAX: usize = 4;
/// How much of a wrong answer a fault quotes, in characters.
const DETAILS_CHARS_MAX: usize = 2_000;
const PRINTS: &str = "\n# prints:\n";
const LEAVES: &str = "# leaves: ";

/// A script that means no harm.
#[derive(Debug)]
pub struct Honest {
    /// What it uses or does.
    pub name: &'static str,
    text: &'static str,
    packages: &'static [&'static str],
}

macro_rules! honest {
    ($folder:literal, $packages:expr, [$($name:literal),* $(,)?]) => {
        &[$(Honest {
            name: $name,
            text: include_str!(concat!($folder, $name, ".py")),
            packages: $packages,
        }),*]
    };
}

/// Those for which the standard library is enough.
pub const ORDINARY: &[Honest] = honest!(
    "honest/",
    &[],
    [
        "a_lot_of_memory",
        "a_picture_by_hand",
        "a_sound",
        "addresses_without_a_network",
        "archives",
        "asyncio",
        "asyncio_local_server",
        "asyncio_queue",
        "bytes_and_structs",
        "code_about_code",
        "computing",
        "concurrent_futures",
        "csv_totals",
        "dataclasses_and_enums",
        "dates_and_calendars",
        "decimal_money",
        "errors_that_are_caught",
        "files_and_compression",
        "functions_and_iterators",
        "hashes_and_secrets",
        "json_report",
        "logging_to_files",
        "measuring_itself",
        "memory_maps_and_locks",
        "multiprocessing",
        "multiprocessing_manager",
        "multiprocessing_shared",
        "multiprocessing_spawn",
        "pathlib_walk",
        "pickles_and_copies",
        "re_of_a_log",
        "selectors_and_pipes",
        "settings_and_arguments",
        "signals_and_local_sockets",
        "sqlite",
        "sqlite_wal",
        "ssl_without_a_network",
        "subprocess",
        "subprocess_pipeline",
        "tempfile_kinds",
        "tests_of_its_own",
        "text_and_numbers",
        "the_c_library",
        "threads",
        "threads_that_wait",
        "unicode_texts",
        "xml_and_html",
        "zoneinfo_times",
    ]
);

/// Those that ask for packages. They ask for the same set, so it is installed once.
pub const SCIENTIFIC: &[Honest] = honest!(
    "honest/science/",
    &["matplotlib", "numpy", "pandas"],
    [
        "matplotlib_charts",
        "matplotlib_lines",
        "numpy_arrays",
        "numpy_files",
        "numpy_in_processes",
        "numpy_linear_algebra",
        "numpy_signals",
        "pandas_and_sqlite",
        "pandas_groups",
        "pandas_time",
    ]
);

/// Why an answer is not the right one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{script}: {cause}: {details}")]
pub struct Fault {
    /// The script.
    pub script: &'static str,
    /// What is wrong, in a few words that are the same for the same fault of another script.
    pub cause: String,
    /// The answer.
    pub details: String,
}

impl Honest {
    /// Its source.
    #[must_use]
    pub fn source(&self) -> &'static str {
        self.text
    }

    /// Asks for it.
    #[must_use]
    pub fn request(&self) -> ScriptInvokeRequest {
        let packages = self.packages.iter().map(|&name| name.to_owned());
        ScriptInvokeRequest {
            tool_call_id: format!("call_{}", new_id()),
            script: self.text.to_owned(),
            input_data: None,
            timeout_seconds: i64::from(TIMEOUT_SECONDS),
            pip_packages: (!self.packages.is_empty()).then(|| packages.collect()),
            files: None,
            channel: None,
        }
    }

    /// What it prints.
    ///
    /// # Panics
    /// When its file does not say.
    #[must_use]
    pub fn prints(&self) -> String {
        let (_, lines) = self.text.split_once(PRINTS).expect("a script says what it prints");
        let line = |line: &str| {
            let text = line.strip_prefix("# ").or_else(|| line.strip_prefix('#'));
            format!("{}\n", text.expect("nothing stands below what a script prints"))
        };
        lines.lines().map(line).collect()
    }

    /// The files that it leaves, each with a blank and its media type.
    fn leaves(&self) -> Vec<String> {
        let lines = self.text.lines().filter_map(|line| line.strip_prefix(LEAVES));
        lines.map(str::to_owned).collect()
    }

    /// Whether an answer is the right one.
    ///
    /// # Errors
    /// [`Fault`] when it is not.
    pub fn judge(&self, response: &ScriptInvokeResponse) -> Result<(), Fault> {
        let files = response.files.iter().flatten();
        let left = files.map(|file| {
            let kind = file.mime_type.as_deref().unwrap_or_default();
            format!("{} {kind}", file.name)
        });

        let cause = if let Some(reason) = &response.reason {
            reason.to_string()
        } else if response.exit_code != 0 {
            format!("exit code {}", response.exit_code)
        } else if response.output.as_ref() != Some(&self.prints()) {
            "another output".to_owned()
        } else if !left.eq(self.leaves()) {
            "other files".to_owned()
        } else {
            return Ok(());
        };

        let details = format!(
            "{} {} {:?}",
            response.output.as_deref().unwrap_or_default(),
            response.stderr.as_deref().unwrap_or_default(),
            response.files_refused
        );

        let details = details.chars().take(DETAILS_CHARS_MAX).collect();

        Err(Fault { script: self.name, cause, details })
    }
}

pub(super) async fn honest_scripts_are_not_disturbed(stage: Stage) {
    let run = |script: &'static Honest| {
        let stage = stage.clone();
        async move { script.judge(&stage.ask(script.request()).await) }
    };
    assert_none_fails(ORDINARY.iter().map(run).collect()).await;
}

/// Runs the scientific scripts by a runner that can install packages.
///
/// # Panics
/// When one does not answer as it must.
pub async fn scientific_scripts_are_not_disturbed(runner: &dyn Runner) {
    let timeout = Duration::from_secs(TIMEOUT_SECONDS.into());
    let run = |honest: &'static Honest| async move {
        let script = Script {
            source: honest.text.to_owned(),
            input: String::new(),
            timeout,
            packages: honest.packages.iter().map(|&name| name.to_owned()).collect(),
            files: Vec::new(),
            prelude: None,
        };

        let call_id = honest.name;
        let response = match runner.run(script, Run::alone(call_id)).await {
            Ok(outcome) => response::outcome_response(call_id, outcome, timeout),
            Err(error) => response::error_response(call_id, &error),
        };

        honest.judge(&response)
    };

    assert_none_fails(SCIENTIFIC.iter().map(run).collect()).await;
}

/// Runs them, a few at a time.
async fn assert_none_fails(runs: Vec<impl Future<Output = Result<(), Fault>>>) {
    let mut answers = stream::iter(runs).buffer_unordered(CONCURRENT_MAX);
    let mut faults = Vec::new();
    while let Some(answer) = answers.next().await {
        faults.extend(answer.err().map(|fault| fault.to_string()));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
