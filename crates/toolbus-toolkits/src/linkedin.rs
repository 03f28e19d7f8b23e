//! Jobs on LinkedIn: `linkedin_jobs` and `linkedin_job_detail`, from the pages that it shows to
//! everybody.
//!
//! To wire it: check [`LinkedInSettings`] with those of the program, call [`register`], and add
//! [`guide`] to the guides.
//!
//! Invariant: no host but LinkedIn's is asked, and what it sends on to is checked like every
//! address.

pub(crate) mod pages;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::Url;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use toolbus_config::HttpUrl;
use toolbus_fetch::{
    BodyLimit, FetchConfig, FetchRequest, Fetcher, Oversize, ResolveHost, SystemResolver,
};
use toolbus_tools::arguments::text;
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::registry::{self, Registry};
use toolbus_tools::{Audience, Executor, Guide, Tool};

use crate::audience::audience_of;
use crate::linkedin_settings::LinkedInSettings;
use crate::page::{FetchedText, PageError, parse_url, read_text};
use crate::web::browser_headers;

const SOURCE: &str = "linkedin";
const OWN_URL: &str = "https://www.linkedin.com";
/// Largest page, in bytes.
const PAGE_BYTES_MAX: usize = 4 << 20;
/// How much longer than a page its call may take.
const CALL_GRACE: Duration = Duration::from_secs(15);
/// Most pages at a time: LinkedIn refuses whoever asks much.
const CONCURRENT_MAX: usize = 2;
/// How many jobs are listed where nobody says, and at most.
const JOBS_DEFAULT: usize = 10;
const JOBS_MAX: usize = 100;
const ACCEPT: &str = "text/html,application/xhtml+xml";

/// What LinkedIn's own words for filters are in an address.
type Codes = &'static [(&'static str, &'static str)];
const SINCE: Codes = &[("24hr", "r86400"), ("past week", "r604800"), ("past month", "r2592000")];
const JOB_TYPES: Codes = &[
    ("full time", "F"),
    ("part time", "P"),
    ("contract", "C"),
    ("temporary", "T"),
    ("internship", "I"),
];
const PLACES: Codes = &[("on site", "1"), ("remote", "2"), ("hybrid", "3")];
const LEVELS: Codes = &[
    ("internship", "1"),
    ("entry level", "2"),
    ("entry", "2"),
    ("associate", "3"),
    ("senior", "4"),
    ("director", "5"),
    ("executive", "6"),
];

/// What the tools reach LinkedIn with. Clones are the same.
#[derive(Clone)]
pub struct LinkedIn {
    inner: Arc<Inner>,
}

struct Inner {
    base: Url,
    is_internal: bool,
    timeout: Duration,
    fetcher: Fetcher,
    permits: Semaphore,
    audience: Audience,
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Jobs,
    Detail,
}

struct LinkedInTool {
    operation: Operation,
    linkedin: LinkedIn,
}

/// The guide to LinkedIn.
#[must_use]
pub fn guide() -> Guide {
    Guide {
        name: SOURCE.to_owned(),
        summary: "Search jobs on LinkedIn and read their descriptions".to_owned(),
        document: include_str!("linkedin/guide.md").to_owned(),
    }
}

/// Registers the tools.
///
/// # Errors
/// When a name is taken.
pub fn register(registry: &Registry, linkedin: LinkedIn) -> Result<(), registry::Error> {
    for operation in [Operation::Jobs, Operation::Detail] {
        let tool = LinkedInTool { operation, linkedin: linkedin.clone() };
        let definition = operation.definition(linkedin.inner.timeout);
        registry.register(definition.for_audience(linkedin.inner.audience.clone()), tool)?;
    }
    Ok(())
}

impl LinkedIn {
    /// Makes what LinkedIn is reached with.
    ///
    /// # Errors
    /// When the machine's certificates cannot be read.
    pub fn new(settings: &LinkedInSettings) -> Result<Self, reqwest::Error> {
        Self::with_resolver(settings, Arc::new(SystemResolver))
    }

    /// The same, by names of one's own.
    ///
    /// # Errors
    /// When the machine's certificates cannot be read.
    pub fn with_resolver(
        settings: &LinkedInSettings,
        resolver: Arc<dyn ResolveHost>,
    ) -> Result<Self, reqwest::Error> {
        let base = settings.base_url.as_ref().map_or(OWN_URL, HttpUrl::expose);
        let inner = Inner {
            base: Url::parse(base).expect("it was read as a URL"),
            is_internal: settings.base_url.is_some(),
            timeout: settings.timeout.duration(),
            fetcher: Fetcher::new(FetchConfig { allowed_hosts: Vec::new(), resolver })?,
            permits: Semaphore::new(CONCURRENT_MAX),
            audience: audience_of(&settings.principals),
        };
        Ok(Self { inner: Arc::new(inner) })
    }
}

impl Operation {
    fn definition(self, timeout: Duration) -> Tool {
        let string = |text: &str| json!({"type": "string", "description": text});
        let (name, description, parameters) = match self {
            Self::Jobs => (
                "linkedin_jobs",
                "Search for job postings on LinkedIn. Returns titles, companies, locations, dates, \
                 salaries and URLs.",
                json!({
                    "type": "object",
                    "properties": {
                        "keyword": string("What to search for"),
                        "location": string("Where the job is"),
                        "dateSincePosted": string("'past month', 'past week' or '24hr'"),
                        "jobType": string("'full time', 'part time', 'contract', 'temporary' or 'internship'"),
                        "remoteFilter": string("'on site', 'remote' or 'hybrid'"),
                        "experienceLevel": string("'internship', 'entry level', 'associate', 'senior', 'director' or 'executive'"),
                        "limit": string("How many at most; 10 by default"),
                        "sortBy": string("'recent' or 'relevant'")
                    },
                    "required": ["keyword"]
                }),
            ),
            Self::Detail => (
                "linkedin_job_detail",
                "Fetch the full job description from a LinkedIn job URL, as linkedin_jobs gives it.",
                json!({
                    "type": "object",
                    "properties": {"url": string("The URL of the job on LinkedIn")},
                    "required": ["url"]
                }),
            ),
        };

        Tool::new(name, description, SOURCE)
            .in_group(SOURCE)
            .read_only()
            .with_timeout(timeout + CALL_GRACE)
            .with_parameters(parameters)
    }
}

impl Executor for LinkedInTool {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move {
            let cancelled = call.context.cancelled.clone();
            let linkedin = &self.linkedin.inner;
            let work = async {
                let _permit = linkedin.permits.acquire().await;
                match self.operation {
                    Operation::Jobs => linkedin.jobs(&call.arguments).await,
                    Operation::Detail => linkedin.detail(&call.arguments).await,
                }
            };
            match cancelled.run_until_cancelled(work).await {
                Some(output) => Ok(output),
                None => Err(CallError::cancelled()),
            }
        })
    }

    fn coerce(&self, arguments: &mut Map<String, Value>) {
        arguments.retain(|_, value| !value.is_null());
        if let Some(limit @ Value::Number(_)) = arguments.get_mut("limit") {
            *limit = Value::String(limit.to_string());
        }
    }
}

impl Inner {
    async fn jobs(&self, arguments: &Map<String, Value>) -> Output {
        if text(arguments, "keyword").unwrap_or_default().trim().is_empty() {
            return Output::error("Error: keyword must not be empty");
        }
        let limit = limit_of(arguments);
        let read = move |page: FetchedText, base: Url| pages::list_jobs(&page.text, &base, limit);
        match self.get(self.search_url(arguments, limit), read).await {
            Ok(text) => Output::text(text),
            Err(error) => Output::error(format!("Error fetching LinkedIn jobs: {error}")),
        }
    }

    async fn detail(&self, arguments: &Map<String, Value>) -> Output {
        let written = text(arguments, "url").unwrap_or_default();
        let url = match parse_url(written) {
            Ok(url) if self.is_own(&url) => url,
            _ => return Output::error("Error: url must be the address of a job on LinkedIn"),
        };
        let read = |page: FetchedText, _| pages::describe_job(&page.text);
        match self.get(url, read).await {
            Ok(text) => Output::text(text),
            Err(error) => Output::error(format!("Error fetching LinkedIn job: {error}")),
        }
    }

    async fn get(
        &self,
        url: Url,
        read: impl FnOnce(FetchedText, Url) -> String + Send + 'static,
    ) -> Result<String, PageError> {
        let request = FetchRequest {
            headers: browser_headers(ACCEPT),
            is_internal: self.is_internal,
            timeout: self.timeout,
            ..FetchRequest::get(url)
        };
        let limit = BodyLimit { bytes_max: PAGE_BYTES_MAX, oversize: Oversize::Cut };
        let page = read_text(self.fetcher.send(request).await?, limit).await?;
        let base = self.base.clone();
        // A large page takes a while.
        let read = spawn_blocking(move || read(page, base)).await;
        read.map_err(|_| PageError::Binary("a page that cannot be read".to_owned()))
    }

    fn search_url(&self, arguments: &Map<String, Value>, limit: usize) -> Url {
        let mut url = self.base.clone();
        url.set_path("/jobs-guest/jobs/api/seeMoreJobPostings/search");
        let given =
            |name: &str| text(arguments, name).map(str::trim).filter(|text| !text.is_empty());
        let mut query = url.query_pairs_mut();

        query.append_pair("keywords", given("keyword").unwrap_or_default());
        if let Some(location) = given("location") {
            query.append_pair("location", location);
        }
        for (name, parameter, codes) in [
            ("dateSincePosted", "f_TPR", SINCE),
            ("jobType", "f_JT", JOB_TYPES),
            ("remoteFilter", "f_WT", PLACES),
            ("experienceLevel", "f_E", LEVELS),
        ] {
            // A value that is not known is passed over.
            if let Some(code) = given(name).and_then(|value| code_of(codes, value)) {
                query.append_pair(parameter, code);
            }
        }
        query.append_pair("start", "0").append_pair("count", &limit.to_string());
        if given("sortBy").is_some_and(|sort| sort.eq_ignore_ascii_case("recent")) {
            query.append_pair("sortBy", "DD");
        }
        drop(query);
        url
    }

    /// Whether an address is LinkedIn's.
    fn is_own(&self, url: &Url) -> bool {
        if url.origin() == self.base.origin() {
            return true;
        }
        let host = url.host_str().unwrap_or_default();
        let is_linkedin = host == "linkedin.com" || host.ends_with(".linkedin.com");
        !self.is_internal && is_linkedin && matches!(url.scheme(), "http" | "https")
    }
}

fn limit_of(arguments: &Map<String, Value>) -> usize {
    let written = text(arguments, "limit").and_then(|limit| limit.trim().parse::<usize>().ok());
    written.filter(|limit| *limit > 0).unwrap_or(JOBS_DEFAULT).min(JOBS_MAX)
}

fn code_of(codes: Codes, written: &str) -> Option<&'static str> {
    let plain = written.to_ascii_lowercase().replace(['-', '_'], " ");
    codes.iter().find(|(known, _)| *known == plain).map(|(_, code)| *code)
}
