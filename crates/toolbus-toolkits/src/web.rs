//! The web: `web_search`, `web_browse` and `web_fetch`.
//!
//! Two systems have such tools, and both are here, on one guard (`toolbus_fetch`) and one set of
//! search providers. `web_browse` gives a page in markdown and keeps long ones in working memory;
//! `web_fetch` gives a page in plain text with what came along. `web_search` has two formats, of
//! which a setting chooses one.
//!
//! To wire it: check [`WebSettings`] with those of the program, make [`Web::new`] with the working
//! memory of the agent and the places of credentials (`web:brave` or `web:tavily` is the provider
//! in the vault), call [`register`], and add [`guide`] to the guides.
//!
//! Invariants: nothing but public addresses is reached, and what the settings allow; a key goes to
//! its provider and nowhere else; pages are bounded before and after they are written.

mod browse;
mod fetch;
mod github;
mod search;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::Url;
use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE, HeaderMap, HeaderValue, USER_AGENT};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use toolbus_fetch::{
    FetchConfig, FetchRequest, FetchResponse, Fetcher, ResolveHost, SystemResolver,
};
use toolbus_memory::WorkingMemory;
use toolbus_tools::arguments::whole_number;
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::registry::{self, Registry};
use toolbus_tools::{Executor, Guide, Tool};

use crate::credential::CredentialPlaces;
use crate::page::PageError;
use search::Provider;
pub use search::{SearchError, SearchProvider, SearchResult};
pub use settings::{SearchFormat, SearchService, WebSettings};

const SOURCE: &str = "web";
/// What says that an argument is missing, as models of RockBot know it.
const MISSING: &str = "Missing required argument: {}";
/// Most pages and searches at a time; others wait.
const CONCURRENT_MAX: usize = 8;
/// How much longer than a fetch its call may take: for a place, and for reading the page.
const CALL_GRACE: Duration = Duration::from_secs(30);
/// Pages refuse agents that do not look like browsers.
const BROWSER: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like \
                       Gecko) Chrome/131.0.0.0 Safari/537.36";

/// What the tools reach the web with. Clones are the same.
#[derive(Clone)]
pub struct Web {
    inner: Arc<WebInner>,
}

struct WebInner {
    settings: WebSettings,
    fetcher: Fetcher,
    search: Arc<dyn SearchProvider>,
    /// There is no key for searches, and none can come.
    has_no_key: bool,
    github: Url,
    memory: Option<WorkingMemory>,
    permits: Semaphore,
}

/// What the tools work with.
#[derive(Clone)]
pub struct WebDeps {
    /// Keeps long pages. Without it they are cut.
    pub memory: Option<WorkingMemory>,
    /// Where the key of the search provider is looked for.
    pub credentials: CredentialPlaces,
    /// Finds the addresses of names.
    pub resolver: Arc<dyn ResolveHost>,
    /// Answers searches in place of the provider of the settings.
    pub search: Option<Arc<dyn SearchProvider>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Search,
    Browse,
    Fetch,
}

struct WebTool {
    operation: Operation,
    web: Web,
}

impl Default for WebDeps {
    fn default() -> Self {
        Self {
            memory: None,
            credentials: CredentialPlaces::of_process(),
            resolver: Arc::new(SystemResolver),
            search: None,
        }
    }
}

/// The guide to the web.
#[must_use]
pub fn guide() -> Guide {
    Guide {
        name: SOURCE.to_owned(),
        summary: "Search the web and read its pages".to_owned(),
        document: include_str!("web/guide.md").to_owned(),
    }
}

/// Registers the tools. With [`SearchFormat::Lines`] there is no `web_search` without a key, as the
/// system has it whose format that is.
///
/// # Errors
/// When a name is taken.
pub fn register(registry: &Registry, web: Web) -> Result<(), registry::Error> {
    let is_without_search =
        web.inner.has_no_key && web.inner.settings.search_format == SearchFormat::Lines;
    for operation in [Operation::Search, Operation::Browse, Operation::Fetch] {
        if operation == Operation::Search && is_without_search {
            tracing::info!("not offering web_search: no key is set for the search provider");
            continue;
        }
        let tool = WebTool { operation, web: web.clone() };
        registry.register(operation.definition(&web.inner.settings), tool)?;
    }
    Ok(())
}

impl Web {
    /// Makes what the tools reach the web with.
    ///
    /// # Errors
    /// When the machine's certificates cannot be read.
    pub fn new(settings: &WebSettings, deps: WebDeps) -> Result<Self, reqwest::Error> {
        let fetcher = Fetcher::new(FetchConfig {
            allowed_hosts: settings.allowed_hosts.clone(),
            resolver: deps.resolver,
        })?;
        let provider = Provider::new(settings, fetcher.clone(), &deps.credentials);
        let has_no_key = deps.search.is_none() && provider.has_no_key();

        let inner = WebInner {
            fetcher,
            has_no_key,
            search: deps.search.unwrap_or_else(|| Arc::new(provider)),
            github: settings.github_url(),
            memory: deps.memory,
            permits: Semaphore::new(CONCURRENT_MAX),
            settings: settings.clone(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }
}

impl WebInner {
    /// Sends a request.
    async fn send(&self, request: FetchRequest) -> Result<FetchResponse, PageError> {
        let timeout = self.settings.timeout.duration();
        Ok(self.fetcher.send(FetchRequest { timeout, ..request }).await?)
    }
}

impl Operation {
    fn definition(self, settings: &WebSettings) -> Tool {
        let tool = |name: &str, description: &str| {
            Tool::new(name, description, SOURCE)
                .in_group(SOURCE)
                .read_only()
                .with_timeout(settings.timeout.duration() + CALL_GRACE)
                .with_missing_argument(MISSING)
                .with_parameters(self.parameters())
        };

        match self {
            Self::Search => tool(
                "web_search",
                "Search the web and return a list of results with titles, URLs and descriptions. \
                 Read the pages that matter with web_browse.",
            ),
            Self::Browse => tool(
                "web_browse",
                "Fetch a web page and return its content as markdown. A long page is split into \
                 chunks in working memory, and a table of them is returned.",
            ),
            Self::Fetch => tool(
                "web_fetch",
                "Fetch content from a URL and return it as readable text. Supports HTML (converted \
                 to plain text), JSON (pretty-printed), and plain text. GET requests only.",
            ),
        }
    }

    fn parameters(self) -> Value {
        let url = json!({"type": "string", "description": "The address, http or https"});

        match self {
            Self::Search => json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What to search for"},
                    "count": {
                        "type": "integer",
                        "description": "How many results, from 1 to 20"
                    }
                },
                "required": ["query"]
            }),
            Self::Browse => json!({
                "type": "object", "properties": {"url": url}, "required": ["url"]
            }),
            Self::Fetch => json!({
                "type": "object",
                "properties": {
                    "url": url,
                    "maxChars": {
                        "type": "integer",
                        "description": "Most characters of content; 50000 by default"
                    }
                },
                "required": ["url"]
            }),
        }
    }
}

impl Executor for WebTool {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move {
            let cancelled = call.context.cancelled.clone();
            let web = &self.web.inner;
            let work = async {
                let _permit = web.permits.acquire().await;
                match self.operation {
                    Operation::Search => search::search(web, &call.arguments).await,
                    Operation::Browse => browse::browse(web, &call).await,
                    Operation::Fetch => fetch::fetch(web, &call.arguments).await,
                }
            };
            // Whatever is dropped here closes its connection.
            match cancelled.run_until_cancelled(work).await {
                Some(output) => Ok(output),
                None => Err(CallError::cancelled()),
            }
        })
    }

    fn coerce(&self, arguments: &mut Map<String, Value>) {
        arguments.retain(|_, value| !value.is_null());
        for name in ["count", "maxChars"] {
            if let Some(number) = arguments.get(name).and_then(whole_number) {
                arguments.insert(name.to_owned(), number.into());
            }
        }
    }
}

/// The headers of a browser.
pub(crate) fn browser_headers(accept: &'static str) -> HeaderMap {
    HeaderMap::from_iter([
        (USER_AGENT, HeaderValue::from_static(BROWSER)),
        (ACCEPT, HeaderValue::from_static(accept)),
        (ACCEPT_LANGUAGE, HeaderValue::from_static("en-US,en;q=0.9")),
    ])
}
