//! Scripts and their outcomes.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::{Message, field};

/// What a script may take when its request does not say, in seconds.
pub const TIMEOUT_SECONDS_DEFAULT: i64 = 30;

/// The exit code that stands for a script without one: it could not be run, or nobody knows.
pub const EXIT_CODE_UNKNOWN: i32 = -1;

/// Longest prelude of a script with a channel, in bytes.
pub const PRELUDE_BYTES_MAX: usize = 256 << 10;

/// Asks for a Python script to be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScriptInvokeRequest {
    /// Id of the call. The outcome is found by it, and by nothing else where the caller is C#.
    pub tool_call_id: String,
    /// The source text.
    pub script: String,
    /// What the script reads from its environment as `ROCKBOT_INPUT`.
    pub input_data: Option<String>,
    /// What the script may take, in seconds. Whoever runs it clamps it to 1–300.
    #[serde(default = "timeout_default", deserialize_with = "timeout_or_default")]
    pub timeout_seconds: i64,
    /// Packages to be installed first, as requirement strings.
    pub pip_packages: Option<Vec<String>>,
    /// Toolbus extension: files for the script. Absent when there are none, so that a peer that
    /// does not know them sees the request it knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<ScriptFile>>,
    /// Toolbus extension: the script may send requests to its caller. Absent for most scripts. A
    /// worker that does not know it runs the script without its prelude.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<ScriptChannel>,
}

/// The channel of a script to its caller, which answers questions of the kind
/// [`AskKind::Script`](super::toolbus::AskKind::Script).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScriptChannel {
    /// Python source that is executed before the script, at most [`PRELUDE_BYTES_MAX`]. It defines
    /// `run(source, descriptor, started)`, which runs the script.
    pub prelude: String,
}

/// A request of a script to its caller, as the `params` of a question have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScriptQuestion {
    /// Counts the requests of one script from 0 on. A request that comes again, because another
    /// worker took over, has the number that it had.
    pub number: u32,
    /// The request, as the script wrote it.
    pub request: Value,
}

/// A file on its way to a script or back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScriptFile {
    /// Its name, without any folder.
    pub name: String,
    /// Its bytes, in base64.
    pub data: String,
    /// What it is, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// A file that a script left and that does not come back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedFile {
    /// Its name, made printable.
    pub name: String,
    /// Why it does not come back.
    pub reason: String,
}

impl Message for ScriptInvokeRequest {
    const TYPE: &'static str = "RockBot.Scripts.ScriptInvokeRequest";
}

/// How a script ended.
///
/// Written with a member `isSuccess`, which says whether the exit code is 0 and is not read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScriptInvokeResponse {
    /// Id of the call, from the request.
    pub tool_call_id: String,
    /// stdout and stderr merged in the order of arrival.
    pub output: Option<String>,
    /// What failed around the script. What the script itself wrote to stderr is in `output`.
    pub stderr: Option<String>,
    /// The exit code; [`EXIT_CODE_UNKNOWN`] when there is none.
    #[serde(default = "exit_code_default")]
    pub exit_code: i32,
    /// Wall time in milliseconds, with all that came before the script.
    #[serde(default, deserialize_with = "field::or_default")]
    pub elapsed_ms: u64,
    /// Toolbus extension: the two streams apart.
    pub streams: Option<ScriptStreams>,
    /// Toolbus extension: what ended the script, or kept it from running, when it did not just
    /// exit.
    pub reason: Option<ScriptReason>,
    /// Toolbus extension: the signal that ended the script.
    pub signal: Option<i32>,
    /// Toolbus extension: what the script used.
    pub usage: Option<ScriptUsage>,
    /// Toolbus extension: the files that the script left to be given back.
    pub files: Option<Vec<ScriptFile>>,
    /// Toolbus extension: what it left there and does not come back.
    pub files_refused: Option<Vec<RefusedFile>>,
}

impl Message for ScriptInvokeResponse {
    const TYPE: &'static str = "RockBot.Scripts.ScriptInvokeResponse";
}

impl ScriptInvokeResponse {
    /// The outcome of a script that did nothing yet: no output, no exit code.
    #[must_use]
    pub fn new(tool_call_id: impl Into<String>) -> Self {
        Self {
            tool_call_id: tool_call_id.into(),
            output: None,
            stderr: None,
            exit_code: EXIT_CODE_UNKNOWN,
            elapsed_ms: 0,
            streams: None,
            reason: None,
            signal: None,
            usage: None,
            files: None,
            files_refused: None,
        }
    }

    /// Whether the script ended with exit code 0.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        self.exit_code == 0
    }
}

impl Serialize for ScriptInvokeResponse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ours = [
            self.streams.is_some(),
            self.reason.is_some(),
            self.signal.is_some(),
            self.usage.is_some(),
            self.files.is_some(),
            self.files_refused.is_some(),
        ];
        let length = 6 + ours.into_iter().filter(|there| *there).count();
        let mut object = serializer.serialize_struct("ScriptInvokeResponse", length)?;
        object.serialize_field("toolCallId", &self.tool_call_id)?;
        object.serialize_field("output", &self.output)?;
        object.serialize_field("stderr", &self.stderr)?;
        object.serialize_field("exitCode", &self.exit_code)?;
        object.serialize_field("isSuccess", &self.is_success())?;
        object.serialize_field("elapsedMs", &self.elapsed_ms)?;

        if let Some(streams) = &self.streams {
            object.serialize_field("streams", streams)?;
        }
        if let Some(reason) = &self.reason {
            object.serialize_field("reason", reason)?;
        }

        if let Some(signal) = &self.signal {
            object.serialize_field("signal", signal)?;
        }
        if let Some(usage) = &self.usage {
            object.serialize_field("usage", usage)?;
        }

        if let Some(files) = &self.files {
            object.serialize_field("files", files)?;
        }
        if let Some(refused) = &self.files_refused {
            object.serialize_field("filesRefused", refused)?;
        }

        object.end()
    }
}

/// What a script wrote, by stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScriptStreams {
    /// Standard output, as far as it was kept.
    pub stdout: String,
    /// Standard error, as far as it was kept.
    pub stderr: String,
    /// Whether there was more on standard output.
    pub stdout_truncated: bool,
    /// Whether there was more on standard error.
    pub stderr_truncated: bool,
}

/// What a script used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScriptUsage {
    /// User and system time of all its processes, in milliseconds.
    pub cpu_ms: u64,
    /// Most memory resident at one time, in bytes.
    pub memory_peak_bytes: u64,
}

text_enum! {
    /// What ended a script, or kept it from running, when it did not just exit.
    pub enum ScriptReason {
        /// It took longer than it may.
        TimedOut = "timed_out",
        /// It was killed for its memory.
        OutOfMemory = "out_of_memory",
        /// A signal ended it that the runner did not send.
        Killed = "killed",
        /// It ended, and not all that it wrote was kept.
        OutputTruncated = "output_truncated",
        /// Its call was cancelled.
        Cancelled = "cancelled",
        /// There was no room for it.
        Busy = "busy",
        /// Its request cannot be run.
        Invalid = "invalid",
        /// Its packages could not be installed.
        Packages = "packages",
        /// Scripts are not run here.
        Unavailable = "unavailable",
        /// What runs scripts failed.
        Failed = "failed",
        /// It was started, and how it ended was lost.
        OutcomeUnknown = "outcome_unknown",
    }
}

const fn timeout_default() -> i64 {
    TIMEOUT_SECONDS_DEFAULT
}

const fn exit_code_default() -> i32 {
    EXIT_CODE_UNKNOWN
}

fn timeout_or_default<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(TIMEOUT_SECONDS_DEFAULT))
}
