//! Parts of the programs that a build may leave out: their Cargo features, and the text for a part
//! that is missing.
//!
//! This is the only list of them. Settings errors, run-time errors, logs and `doctor` take their
//! text from here, so that a missing part reads the same everywhere.

use crate::Finding;

/// A part that is compiled in by the Cargo feature of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildFeature {
    /// Embedding models that run in the process.
    Embeddings,
    /// Tools for Gmail and Google Calendar.
    Google,
    /// The allocator jemalloc in place of the system's.
    Jemalloc,
    /// Tools for jobs on LinkedIn.
    Linkedin,
    /// SQL queries of Parquet files.
    Parquet,
    /// A store in PostgreSQL.
    Postgres,
    /// Artifacts in an S3 bucket.
    S3,
}

/// A part that this build lacks. The text names the feature that adds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this build has no {}; build with --features {}", .0.capability(), .0.name())]
pub struct LeftOut(pub BuildFeature);

impl BuildFeature {
    /// Every feature, in the order of their names.
    pub const ALL: [Self; 7] = [
        Self::Embeddings,
        Self::Google,
        Self::Jemalloc,
        Self::Linkedin,
        Self::Parquet,
        Self::Postgres,
        Self::S3,
    ];

    /// The name of the Cargo feature.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embeddings => "embeddings",
            Self::Google => "google",
            Self::Jemalloc => "jemalloc",
            Self::Linkedin => "linkedin",
            Self::Parquet => "parquet",
            Self::Postgres => "postgres",
            Self::S3 => "s3",
        }
    }

    const fn capability(self) -> &'static str {
        match self {
            Self::Embeddings => "local embedding models",
            Self::Google => "Google toolkit",
            Self::Jemalloc => "jemalloc allocator",
            Self::Linkedin => "LinkedIn toolkit",
            Self::Parquet => "Parquet support",
            Self::Postgres => "PostgreSQL support",
            Self::S3 => "S3 support",
        }
    }
}

/// Lists features for a log or `doctor`, such as `PostgreSQL support (postgres), S3 support (s3)`.
#[must_use]
pub fn list(features: &[BuildFeature]) -> String {
    let parts = features.iter().map(|part| format!("{} ({})", part.capability(), part.name()));
    parts.collect::<Vec<_>>().join(", ")
}

/// Reports the parts that the build of a package leaves out. `None` if it has all of them.
#[must_use]
pub fn examine(package: &str, left_out: &[BuildFeature]) -> Option<Finding> {
    if left_out.is_empty() {
        return None;
    }
    let names: Vec<_> = left_out.iter().map(|feature| feature.name()).collect();
    let command = format!("cargo build --package {package} --features {}", names.join(","));
    let detail = format!("left out: {}", list(left_out));
    Some(Finding::note("build", detail).mended_by(command))
}

#[cfg(test)]
mod tests;
