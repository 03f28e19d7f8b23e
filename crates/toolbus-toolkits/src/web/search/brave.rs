//! Brave's search.

use reqwest::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use toolbus_fetch::FetchRequest;

use super::{Credential, Provider, ProviderRequest, SearchResult};

pub(super) const URL: &str = "https://api.search.brave.com/";

#[derive(Deserialize)]
pub(super) struct Answer {
    #[serde(default)]
    web: Option<Web>,
}

#[derive(Deserialize)]
struct Web {
    #[serde(default)]
    results: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    title: Option<String>,
    url: Option<String>,
    description: Option<String>,
}

pub(super) fn request(
    provider: &Provider,
    key: &Credential,
    query: &str,
    count: u8,
) -> ProviderRequest<Answer> {
    let mut url = provider.url_below(&["res", "v1", "web", "search"]);
    url.query_pairs_mut().append_pair("q", query).append_pair("count", &count.to_string());

    let accept = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
    let name = HeaderName::from_static("x-subscription-token");
    let credentials = key.headers(name, "");
    let request = FetchRequest { headers: accept, credentials, ..FetchRequest::get(url) };
    ProviderRequest { request, read }
}

fn read(answer: Answer) -> Vec<SearchResult> {
    let found = answer.web.map(|web| web.results).unwrap_or_default().into_iter();
    let results = found.map(|found| SearchResult {
        title: found.title.unwrap_or_default(),
        url: found.url.unwrap_or_default(),
        description: found.description.unwrap_or_default(),
    });
    results.collect()
}
