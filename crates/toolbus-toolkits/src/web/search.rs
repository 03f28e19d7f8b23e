//! `web_search`, and the port behind which the providers are.

mod brave;
mod searxng;
mod tavily;

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use toolbus_fetch::{BodyLimit, Error, FetchRequest, Fetcher, Oversize};
use toolbus_json::Limits;
use toolbus_tools::arguments::text;
use toolbus_tools::call::Output;

use super::settings::{RESULTS_MAX, SearchFormat, SearchService, WebSettings, url_or};
use super::{CredentialPlaces, WebInner};
use crate::credential::{Credential, CredentialReference};
use crate::html::inline_text;

/// Longest query, in characters. What is beyond is cut off.
const QUERY_CHARS_MAX: usize = 400;
/// Largest answer of a provider, in bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// An answer of a provider.
const ANSWER_LIMITS: Limits = Limits::of_bytes(ANSWER_BYTES_MAX);
/// Longest title and description that are shown, in characters.
const TITLE_CHARS_MAX: usize = 300;
const DESCRIPTION_CHARS_MAX: usize = 1_000;
/// Longest address that is shown, in bytes; a longer one leads nowhere when it is cut.
const URL_BYTES_MAX: usize = 2_000;

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// What the page is called; empty where that is not said.
    pub title: String,
    /// Where it is.
    pub url: String,
    /// What it is about; empty where that is not said.
    pub description: String,
}

/// Why a search has no results. The texts are for models, and hold no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// There is no key for the provider.
    #[error("{0}")]
    NoKey(String),
    /// The provider took too long.
    #[error("the search provider did not answer in time")]
    TimedOut,
    /// The provider answered with this status.
    #[error("the search provider answered with HTTP {0}")]
    Status(u16),
    /// Something else.
    #[error("{0}")]
    Failed(String),
}

/// Answers searches.
pub trait SearchProvider: Send + Sync + 'static {
    /// What it is called.
    fn name(&self) -> &str;

    /// Finds at most so many pages.
    fn search<'a>(
        &'a self,
        query: &'a str,
        count: u8,
    ) -> BoxFuture<'a, Result<Vec<SearchResult>, SearchError>>;
}

/// The provider of the settings.
pub(super) struct Provider {
    service: SearchService,
    url: reqwest::Url,
    is_internal: bool,
    key: CredentialReference,
    fetcher: Fetcher,
    timeout: Duration,
}

/// A request to a provider, and how its answer is read.
struct ProviderRequest<T> {
    request: FetchRequest,
    read: fn(T) -> Vec<SearchResult>,
}

impl Provider {
    pub(super) fn new(settings: &WebSettings, fetcher: Fetcher, places: &CredentialPlaces) -> Self {
        let own = match settings.search_provider {
            SearchService::Brave => brave::URL,
            SearchService::Tavily => tavily::URL,
            // Checked settings have one.
            SearchService::SearXng => searxng::URL,
        };
        let service = settings.search_provider;
        let (variable, provider) = (service.key_variable(), service.vault_provider());
        Self {
            service,
            url: url_or(settings.search_url.as_ref(), own),
            is_internal: settings.search_url.is_some(),
            key: places.find(settings.api_key.as_ref(), variable, provider),
            fetcher,
            timeout: settings.timeout.duration(),
        }
    }

    /// Whether a key is needed that is not there, and cannot come.
    pub(super) fn has_no_key(&self) -> bool {
        self.service != SearchService::SearXng && self.key.is_absent()
    }

    async fn load_key(&self) -> Result<Credential, SearchError> {
        self.key.load().await.map_err(|error| SearchError::NoKey(error.to_string()))
    }

    /// The address of a path below that of the provider.
    fn url_below(&self, segments: &[&str]) -> reqwest::Url {
        let mut url = self.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        ask: ProviderRequest<T>,
        key: Option<&Credential>,
    ) -> Result<Vec<SearchResult>, SearchError> {
        let request = FetchRequest {
            is_internal: self.is_internal,
            timeout: self.timeout,
            // A key in a header is for this address alone.
            redirects_max: 0,
            ..ask.request
        };
        let failed = |error: Error| match error {
            Error::TimedOut(_) => SearchError::TimedOut,
            error => SearchError::Failed(erased(key, &error.to_string())),
        };

        let response = self.fetcher.send(request).await.map_err(failed)?;
        if !response.status().is_success() {
            return Err(SearchError::Status(response.status().as_u16()));
        }
        let limit = BodyLimit { bytes_max: ANSWER_BYTES_MAX, oversize: Oversize::Refuse };
        let body = response.read(limit).await.map_err(failed)?;
        let answer: T = toolbus_json::from_slice(&body.bytes, &ANSWER_LIMITS).map_err(|error| {
            let problem = format!("the search provider's answer cannot be read: {error}");
            SearchError::Failed(erased(key, &problem))
        })?;

        let mut results = (ask.read)(answer);
        for result in &mut results {
            for text in [&mut result.title, &mut result.url, &mut result.description] {
                *text = erased(key, text);
            }
        }
        Ok(results)
    }
}

fn erased(key: Option<&Credential>, text: &str) -> String {
    key.map_or_else(|| text.to_owned(), |key| key.erase(text).into_owned())
}

impl SearchProvider for Provider {
    fn name(&self) -> &str {
        match self.service {
            SearchService::Brave => "Brave",
            SearchService::SearXng => "SearXNG",
            SearchService::Tavily => "Tavily",
        }
    }

    fn search<'a>(
        &'a self,
        query: &'a str,
        count: u8,
    ) -> BoxFuture<'a, Result<Vec<SearchResult>, SearchError>> {
        Box::pin(async move {
            match self.service {
                SearchService::Brave => {
                    let key = self.load_key().await?;
                    self.ask(brave::request(self, &key, query, count), Some(&key)).await
                }
                SearchService::Tavily => {
                    let key = self.load_key().await?;
                    self.ask(tavily::request(self, &key, query, count), Some(&key)).await
                }
                SearchService::SearXng => self.ask(searxng::request(self, query), None).await,
            }
        })
    }
}

pub(super) async fn search(web: &WebInner, arguments: &Map<String, Value>) -> Output {
    let format = web.settings.search_format;
    let written = text(arguments, "query").unwrap_or_default().trim();
    let query: String = written.chars().take(QUERY_CHARS_MAX).collect();
    let query = query.trim_end();
    if query.is_empty() {
        return Output::error(match format {
            SearchFormat::Markdown => "Missing required argument: query",
            SearchFormat::Lines => "Error: query must not be empty",
        });
    }
    let count = read_count(arguments, web.settings.max_search_results.get());
    let Some(count) = count else {
        return Output::error("Error: count must be a whole number from 1 to 20");
    };

    let found = web.search.search(query, count).await;
    let found = found.map(|found| {
        found.into_iter().filter_map(tidy_result).take(usize::from(count)).collect::<Vec<_>>()
    });
    if let Err(error) = &found {
        let provider = web.search.name();
        tracing::debug!(error = error as &dyn std::error::Error, provider, "search failed");
    }
    match format {
        SearchFormat::Markdown => write_markdown(found),
        SearchFormat::Lines => write_lines(query, found),
    }
}

/// How many results are wanted; `None` where that is no whole number.
fn read_count(arguments: &Map<String, Value>, default: u8) -> Option<u8> {
    let Some(written) = arguments.get("count") else { return Some(default) };
    let number = written.as_i64().or_else(|| written.as_u64().map(|_| i64::MAX))?;
    u8::try_from(number.clamp(1, i64::from(RESULTS_MAX))).ok()
}

/// A result without marks, in lines that are bounded; `None` where it leads nowhere.
fn tidy_result(result: SearchResult) -> Option<SearchResult> {
    let url = result.url.trim();
    let is_address = !url.is_empty()
        && url.len() <= URL_BYTES_MAX
        && !url.contains(|c: char| c.is_control() || c.is_whitespace());
    is_address.then(|| SearchResult {
        title: inline_text(&result.title).chars().take(TITLE_CHARS_MAX).collect(),
        url: url.to_owned(),
        description: inline_text(&result.description).chars().take(DESCRIPTION_CHARS_MAX).collect(),
    })
}

fn write_markdown(found: Result<Vec<SearchResult>, SearchError>) -> Output {
    match found {
        // Models are not told of keys.
        Err(SearchError::NoKey(_)) => Output::text("No results found."),
        Err(error) => Output::error(format!("Search failed: {error}")),
        Ok(results) if results.is_empty() => Output::text("No results found."),
        Ok(results) => {
            let lines = results.iter().enumerate().map(|(at, result)| {
                let SearchResult { title, url, description } = result;
                let title = if title.is_empty() { url } else { title };
                let title = title.replace('[', "\\[").replace(']', "\\]");
                let link = format!("{}. [{title}]({})", at + 1, url.replace(')', "%29"));
                match description.is_empty() {
                    true => link,
                    false => format!("{link} — {description}"),
                }
            });
            Output::text(lines.collect::<Vec<_>>().join("\n"))
        }
    }
}

fn write_lines(query: &str, found: Result<Vec<SearchResult>, SearchError>) -> Output {
    let results = match found {
        Ok(results) => results,
        Err(SearchError::TimedOut) => return Output::error("Search request timed out"),
        Err(SearchError::Status(status)) => {
            return Output::error(format!("Error: search provider returned HTTP {status}"));
        }
        Err(error) => return Output::error(format!("Error searching the web: {error}")),
    };
    if results.is_empty() {
        return Output::text(format!("No results found for: {query}"));
    }

    let mut lines =
        vec![format!("Search: \"{query}\""), format!("Results: {}", results.len()), String::new()];
    for (at, SearchResult { title, url, description }) in results.iter().enumerate() {
        let title = if title.is_empty() { "(no title)" } else { title };
        lines.push(format!("{}. {title}", at + 1));
        lines.push(format!("   {url}"));
        if !description.is_empty() {
            lines.push(format!("   {description}"));
        }
        lines.push(String::new());
    }
    Output::text(lines.join("\n").trim_end())
}

#[cfg(test)]
mod tests;
