//! A SearXNG.

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use serde::Deserialize;
use toolbus_fetch::FetchRequest;

use super::{Provider, ProviderRequest, SearchResult};

/// Where one is on a machine of one's own.
pub(super) const URL: &str = "http://localhost:8080/";

#[derive(Deserialize)]
pub(super) struct Answer {
    #[serde(default)]
    results: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    title: Option<String>,
    url: Option<String>,
    content: Option<String>,
}

pub(super) fn request(provider: &Provider, query: &str) -> ProviderRequest<Answer> {
    let mut url = provider.url_below(&["search"]);
    url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
    let accept = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
    ProviderRequest { request: FetchRequest { headers: accept, ..FetchRequest::get(url) }, read }
}

fn read(answer: Answer) -> Vec<SearchResult> {
    let results = answer.results.into_iter().map(|found| SearchResult {
        title: found.title.unwrap_or_default(),
        url: found.url.unwrap_or_default(),
        description: found.content.unwrap_or_default(),
    });
    results.collect()
}
