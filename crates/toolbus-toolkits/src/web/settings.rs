//! The settings of the web.

use std::num::NonZeroU8;
use std::time::Duration;

use reqwest::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{ByteSize, HttpUrl, KeyReference, Mistakes, Secret, TimeSpan};
use toolbus_fetch::AllowedHost;

/// The longest time that a page may take.
const TIMEOUT_MAX: Duration = Duration::from_secs(5 * 60);
/// The longest time that a page is kept.
const PAGE_TTL_MAX: Duration = Duration::from_secs(24 * 3600);
/// The largest page, in bytes.
const PAGE_BYTES_MAX: u64 = 32 << 20;
/// The shortest chunk and the least threshold, in characters.
const CHUNK_CHARS_MIN: u32 = 500;
/// Most results of one search.
pub(super) const RESULTS_MAX: u8 = 20;
const ALLOWED_HOSTS_MAX: usize = 1_000;

/// What models reach of the web, and who answers their searches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebSettings {
    /// Whether models have the tools `web_search`, `web_browse` and `web_fetch`.
    pub enabled: bool,
    /// Who answers searches.
    pub search_provider: SearchService,
    /// Where the search provider is, if not at its own address. Needed for `searxng`. It is reached
    /// wherever it is, though its address may not be public.
    pub search_url: Option<HttpUrl>,
    /// The key of the search provider: itself, `${NAME}` for a variable of the environment, or
    /// `${vault:NAME}` for a credential of the vault, there of `web:brave` or `web:tavily`. When
    /// not set: the variable `BRAVE_API_KEY` or `TAVILY_API_KEY`. Without a key nothing is found.
    pub api_key: Option<Secret>,
    /// How results are written.
    pub search_format: SearchFormat,
    /// How many results a search has where the model does not say, from 1 to 20.
    pub max_search_results: NonZeroU8,
    /// How long a page may be, in characters, that `web_browse` gives as it is.
    pub chunking_threshold: u32,
    /// The longest chunk of a longer one, in characters. Chunks are longer where there would be
    /// more of them than working memory takes.
    pub chunk_max_length: u32,
    /// How long chunks are kept.
    pub chunk_ttl: TimeSpan,
    /// How much of a page is read by `web_browse`; what is beyond is cut off. At most 32 MiB.
    pub page_max: ByteSize,
    /// How long a page or a search may take, up to five minutes.
    pub timeout: TimeSpan,
    /// What may be reached though its address is not public: names, `*.domain`, addresses and
    /// networks such as `10.0.0.0/8`. The metadata services of clouds must be named by their
    /// addresses.
    pub allowed_hosts: Vec<AllowedHost>,
    /// Where GitHub's API is, if not at its own address.
    pub github_api: Option<HttpUrl>,
}

/// Who answers searches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SearchService {
    /// Brave, with a key.
    #[default]
    Brave,
    /// A SearXNG of one's own, without a key, whose settings allow the format `json`.
    SearXng,
    /// Tavily, with a key.
    Tavily,
}

/// How results of searches are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SearchFormat {
    /// A list of links in markdown, one result a line.
    #[default]
    Markdown,
    /// Title, address and description in lines of their own, below the query and the number of
    /// results. Without a key the tool is not offered.
    Lines,
}

impl SearchService {
    /// The variable of the environment that has its key where the settings have none. `None`: it
    /// needs no key.
    #[must_use]
    pub fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::Brave => Some("BRAVE_API_KEY"),
            Self::Tavily => Some("TAVILY_API_KEY"),
            Self::SearXng => None,
        }
    }

    /// The provider of its key in the vault.
    #[must_use]
    pub fn vault_provider(self) -> &'static str {
        match self {
            Self::Brave => "web:brave",
            Self::Tavily => "web:tavily",
            Self::SearXng => "web:searxng",
        }
    }
}

impl Default for WebSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            search_provider: SearchService::Brave,
            search_url: None,
            api_key: None,
            search_format: SearchFormat::Markdown,
            max_search_results: NonZeroU8::new(5).expect("5 is not zero"),
            chunking_threshold: 8_000,
            chunk_max_length: 4_000,
            chunk_ttl: TimeSpan::seconds(30 * 60),
            page_max: ByteSize::mebibytes(4),
            timeout: TimeSpan::seconds(30),
            allowed_hosts: Vec::new(),
            github_api: None,
        }
    }
}

impl WebSettings {
    /// Adds what is wrong with them to the mistakes of a program that has them as `web`.
    pub fn check(&self, mistakes: &mut Mistakes<'_>) {
        if self.search_provider == SearchService::SearXng && self.search_url.is_none() {
            mistakes.add("web.search_url", "searxng has no address of its own: say where it is");
        }
        if let Some(Err(problem)) = self.api_key.as_ref().map(KeyReference::parse) {
            mistakes.add("web.api_key", problem);
        }
        if self.max_search_results.get() > RESULTS_MAX {
            mistakes.add("web.max_search_results", "between 1 and 20");
        }
        if self.chunking_threshold < CHUNK_CHARS_MIN {
            mistakes.add("web.chunking_threshold", "500 or more");
        }
        if self.chunk_max_length < CHUNK_CHARS_MIN {
            mistakes.add("web.chunk_max_length", "500 or more");
        }

        if !(1 << 10..=PAGE_BYTES_MAX).contains(&self.page_max.bytes()) {
            mistakes.add("web.page_max", "between 1 KiB and 32 MiB");
        }
        if !(Duration::from_millis(100)..=TIMEOUT_MAX).contains(&self.timeout.duration()) {
            mistakes.add("web.timeout", "between 100 ms and five minutes");
        }
        if !(Duration::from_secs(1)..=PAGE_TTL_MAX).contains(&self.chunk_ttl.duration()) {
            mistakes.add("web.chunk_ttl", "between a second and a day");
        }
        if self.allowed_hosts.len() > ALLOWED_HOSTS_MAX {
            mistakes.add("web.allowed_hosts", "1000 at most");
        }
    }

    /// Where GitHub's API is.
    pub(super) fn github_url(&self) -> Url {
        url_or(self.github_api.as_ref(), "https://api.github.com")
    }

    pub(super) fn page_bytes_max(&self) -> usize {
        usize::try_from(self.page_max.bytes()).unwrap_or(usize::MAX)
    }
}

/// The URL that is set, or this one.
pub(super) fn url_or(set: Option<&HttpUrl>, own: &str) -> Url {
    let text = set.map_or(own, HttpUrl::expose);
    Url::parse(text).expect("it was read as a URL")
}
