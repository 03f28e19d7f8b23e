//! OpenAPI documents of the settings: where they are read from, and the endpoints that they make.
//!
//! A document that cannot be used takes no other one with it. Its address stands in no error: it
//! may hold a credential.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Url;
use serde_json::Value;
use serde_saphyr::Error as YamlError;
use serde_saphyr::budget::BudgetBreach;
use tokio::io::AsyncReadExt as _;
use tokio::task::spawn_blocking;
use toolbus_fetch::{
    BodyLimit, Error as FetchError, FetchConfig, FetchRequest, Fetcher, Oversize, decode_text,
};
use toolbus_json::{Error as JsonError, Limits, OverLimit, PlainValue};

use super::openapi::{ImportError, import};
use super::settings::{OpenApiDocument, RestEndpoint, RestSettings};
use super::{RestDeps, SetupError};

/// Largest document, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;
/// Most values of a document in JSON: each takes up to a hundred bytes of memory.
const DOCUMENT_VALUES_MAX: usize = 512 << 10;
/// Most values of a document in YAML, the names of members among them.
const YAML_NODES_MAX: usize = 250_000;
/// Deepest nesting of a document in YAML.
const YAML_DEPTH_MAX: usize = 64;
/// A document in JSON.
const DOCUMENT_LIMITS: Limits =
    Limits::of_bytes(DOCUMENT_BYTES_MAX).with_values(DOCUMENT_VALUES_MAX);
/// A document in YAML.
const YAML_LIMITS: Limits =
    Limits::of_bytes(DOCUMENT_BYTES_MAX).with_values(YAML_NODES_MAX).with_depth(YAML_DEPTH_MAX);
/// The longest time that a document may take to come.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// What the documents of the settings made.
#[derive(Debug, Default)]
pub struct Imported {
    /// The endpoints of those that can be used.
    pub endpoints: Vec<RestEndpoint>,
    /// Why others cannot, by their names.
    pub problems: Vec<(String, DocumentError)>,
}

/// Why a document makes no endpoints.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// Its file cannot be read.
    #[error("its file cannot be read")]
    File(#[source] io::Error),
    /// It did not come.
    #[error("it cannot be fetched: {0}")]
    Fetch(FetchError),
    /// Something else came.
    #[error("it cannot be fetched: HTTP {0}")]
    Status(u16),
    /// It is too large.
    #[error("it has more than {DOCUMENT_BYTES_MAX} bytes")]
    TooLarge,
    /// It has too many values.
    #[error("it has more than {0} values")]
    TooManyValues(usize),
    /// It is neither JSON nor YAML.
    #[error("it is neither JSON nor YAML: {0}")]
    Syntax(String),
    /// It says what cannot be used.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// One of its tools is named like another endpoint.
    #[error("there is another endpoint '{0}': set name_prefix")]
    Duplicate(String),
}

impl Imported {
    /// Reads every document of the settings, all at the same time, and makes endpoints of their
    /// operations.
    ///
    /// # Errors
    /// When the machine's certificates cannot be read.
    pub async fn read(settings: &RestSettings, deps: &RestDeps) -> Result<Self, SetupError> {
        if settings.openapi.is_empty() {
            return Ok(Self::default());
        }
        let config = FetchConfig {
            allowed_hosts: settings.allowed_hosts.clone(),
            resolver: deps.resolver.clone(),
        };
        let fetcher = Fetcher::new(config).map_err(SetupError::Http)?;
        let read = settings.openapi.iter().map(|document| endpoints_of(document, &fetcher));
        let read = join_all(read).await;

        let mut imported = Self::default();
        let mut names: HashSet<_> =
            settings.endpoints.iter().map(|endpoint| endpoint.name.clone()).collect();
        for (document, read) in settings.openapi.iter().zip(read) {
            let taken = |endpoints: &[RestEndpoint]| {
                let mut taken = endpoints.iter().filter(|endpoint| names.contains(&endpoint.name));
                taken.next().map(|endpoint| DocumentError::Duplicate(endpoint.name.clone()))
            };
            let checked = read.and_then(|endpoints| match taken(&endpoints) {
                Some(error) => Err(error),
                None => Ok(endpoints),
            });
            match checked {
                Ok(endpoints) => {
                    names.extend(endpoints.iter().map(|endpoint| endpoint.name.clone()));
                    imported.endpoints.extend(endpoints);
                }
                Err(error) => imported.problems.push((document.name.clone(), error)),
            }
        }
        Ok(imported)
    }
}

async fn endpoints_of(
    document: &OpenApiDocument,
    fetcher: &Fetcher,
) -> Result<Vec<RestEndpoint>, DocumentError> {
    let text = match document.url() {
        Some(url) => fetch(url, document, fetcher).await?,
        None => read_file(Path::new(document.document.expose())).await?,
    };

    let document = document.clone();
    // A large document takes a while.
    let imported = spawn_blocking(move || -> Result<_, DocumentError> {
        let parsed = parse(&text)?;
        Ok(import(&parsed, &document)?)
    });
    match imported.await {
        Ok(imported) => imported,
        Err(_) => Err(DocumentError::Syntax("it cannot be parsed".to_owned())),
    }
}

async fn fetch(
    url: Url,
    document: &OpenApiDocument,
    fetcher: &Fetcher,
) -> Result<String, DocumentError> {
    let request = FetchRequest {
        is_internal: document.internal,
        timeout: DOCUMENT_TIMEOUT,
        ..FetchRequest::get(url)
    };
    let response = fetcher.send(request).await.map_err(DocumentError::Fetch)?;
    if !response.status().is_success() {
        return Err(DocumentError::Status(response.status().as_u16()));
    }

    let content_type = response.content_type();
    let limit = BodyLimit { bytes_max: DOCUMENT_BYTES_MAX, oversize: Oversize::Refuse };
    let body = response.read(limit).await.map_err(DocumentError::Fetch)?;
    decode_text(&body.bytes, &content_type)
        .ok_or_else(|| DocumentError::Syntax("it is binary".to_owned()))
}

async fn read_file(path: &Path) -> Result<String, DocumentError> {
    let metadata = tokio::fs::metadata(path).await.map_err(DocumentError::File)?;
    if !metadata.is_file() {
        return Err(DocumentError::File(io::Error::other("it is no regular file")));
    }
    let file = tokio::fs::File::open(path).await.map_err(DocumentError::File)?;
    let mut text = String::new();
    let mut bounded = file.take(DOCUMENT_BYTES_MAX as u64 + 1);
    bounded.read_to_string(&mut text).await.map_err(DocumentError::File)?;
    if text.len() > DOCUMENT_BYTES_MAX {
        return Err(DocumentError::TooLarge);
    }
    Ok(text)
}

/// Reads JSON, and YAML otherwise, of which JSON is a part.
pub(crate) fn parse(text: &str) -> Result<Value, DocumentError> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('{') {
        return toolbus_json::from_str(text, &DOCUMENT_LIMITS).map_err(|error| match error {
            JsonError::OverLimit(OverLimit::Bytes { .. }) => DocumentError::TooLarge,
            JsonError::OverLimit(OverLimit::Values { max }) => DocumentError::TooManyValues(max),
            error => DocumentError::Syntax(error.to_string()),
        });
    }

    parse_yaml(text, &YAML_LIMITS)
}

/// Reads YAML. What aliases repeat counts each time.
fn parse_yaml(text: &str, limits: &Limits) -> Result<Value, DocumentError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: limits.values,
            // The ends of values are events, too.
            max_events: limits.values.saturating_mul(4),
            max_total_scalar_bytes: limits.bytes,
            max_depth: limits.depth,
        },
        // Excerpts of the document have no place in an error.
        with_snippet: false,
    };
    let read = serde_saphyr::from_str_with_options(text, options);

    read.map(|PlainValue(value)| value).map_err(|error| match cause_of(&error) {
        YamlError::Budget { breach: BudgetBreach::Nodes { .. }, .. } => {
            DocumentError::TooManyValues(limits.values)
        }
        YamlError::Budget { breach: BudgetBreach::ScalarBytes { .. }, .. } => {
            DocumentError::TooLarge
        }
        _ => DocumentError::Syntax(error.to_string()),
    })
}

/// What is wrong where an alias is used.
fn cause_of(error: &YamlError) -> &YamlError {
    let mut cause = error;
    while let YamlError::AliasError { error, .. } = cause {
        cause = error;
    }
    cause
}

#[cfg(test)]
mod tests;
