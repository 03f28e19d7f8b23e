//! The section `artifacts` of the settings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_artifacts::{ArtifactConfig, Place, PlaceError};
use toolbus_config::{ByteSize, Mistakes, TimeSpan};
use toolbus_store::state_folder;
use toolbus_tools::Door;

/// The longest time that an artifact is kept.
const TTL_MAX: TimeSpan = TimeSpan::seconds(366 * 24 * 60 * 60);
/// What a text may have at most that is given as it is.
const INLINE_BYTES_MAX: u64 = 1 << 20;

/// Artifacts: what is too large for a caller is kept apart, and the caller gets a preview, a
/// reference, and tools that read parts of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ArtifactSettings {
    /// Whether there are any.
    pub enabled: bool,
    /// Where their bytes are kept: the path of a folder, or `s3://BUCKET/PREFIX`, which is reached
    /// as the variables say that AWS's own programs read (`AWS_ENDPOINT_URL`, `AWS_REGION`,
    /// `AWS_ACCESS_KEY_ID`, …). When not set: the folder `toolbus/artifacts` in the user's state
    /// folder. Several hosts with one `store` need one place.
    pub place: Option<String>,
    /// The most that a text or a value may have to be given to a caller as it is, at most 1 MiB.
    pub inline_bytes: ByteSize,
    /// The doors whose callers get references in the place of what is larger, of `turn`, `chain`,
    /// `mcp`, `bus`, `command-line`, `http`, `schedule` and `embedded`. What an MCP client calls on
    /// an MCP server goes as the server wrote it all the same.
    pub doors: Vec<Door>,
    /// How long an artifact is kept that nobody pins, at most a year.
    pub ttl: TimeSpan,
    /// The largest artifact.
    pub artifact_bytes_max: ByteSize,
    /// Most bytes that one session keeps.
    pub session_bytes_max: ByteSize,
    /// Most artifacts that one session keeps.
    #[schemars(range(min = 1))]
    pub session_artifacts_max: u64,
}

impl Default for ArtifactSettings {
    fn default() -> Self {
        let config = ArtifactConfig::default();
        Self {
            enabled: true,
            place: None,
            inline_bytes: ByteSize::of_bytes(config.inline_bytes as u64),
            doors: config.doors,
            ttl: TimeSpan::seconds(config.ttl.as_secs()),
            artifact_bytes_max: ByteSize::of_bytes(config.artifact_bytes_max),
            session_bytes_max: ByteSize::of_bytes(config.session_bytes_max),
            session_artifacts_max: config.session_artifacts_max,
        }
    }
}

impl ArtifactSettings {
    /// How they are kept.
    pub(crate) fn config(&self) -> ArtifactConfig {
        ArtifactConfig {
            inline_bytes: usize::try_from(self.inline_bytes.bytes()).unwrap_or(usize::MAX),
            doors: self.doors.clone(),
            ttl: self.ttl.duration(),
            artifact_bytes_max: self.artifact_bytes_max.bytes(),
            session_bytes_max: self.session_bytes_max.bytes(),
            session_artifacts_max: self.session_artifacts_max,
        }
    }

    /// Where they are kept. `None` where nothing is set and this user has no folder for it.
    pub(crate) fn place(&self) -> Option<Result<Place, PlaceError>> {
        match &self.place {
            Some(place) => Some(Place::open(place, std::env::vars())),
            None => Some(Ok(Place::folder(&state_folder()?.join("artifacts")))),
        }
    }

    /// Adds what is wrong with them, under the key that they have.
    pub(crate) fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        if self.ttl.duration().is_zero() || self.ttl > TTL_MAX {
            mistakes.add(&format!("{key}.ttl"), "it is more than nothing, at most a year");
        }
        let inline = self.inline_bytes.bytes();
        if !(64..=INLINE_BYTES_MAX).contains(&inline) {
            mistakes.add(&format!("{key}.inline_bytes"), "it is 64 bytes to 1 MiB");
        }
        if self.session_artifacts_max == 0 {
            mistakes.add(&format!("{key}.session_artifacts_max"), "it is at least 1");
        }
        if let Some(place) = &self.place {
            let key = format!("{key}.place");
            if !Place::is_well_formed(place) {
                let text = "it is an absolute path, s3://BUCKET or s3://BUCKET/PREFIX";
                mistakes.add(&key, text);
            } else if let Some(left_out) = Place::left_out(place) {
                mistakes.add(&key, left_out.to_string());
            }
        }
    }
}
