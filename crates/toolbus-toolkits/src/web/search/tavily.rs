//! Tavily's search.

use reqwest::Method;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::json;
use toolbus_fetch::FetchRequest;

use super::{Credential, Provider, ProviderRequest, SearchResult};

pub(super) const URL: &str = "https://api.tavily.com/";

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

pub(super) fn request(
    provider: &Provider,
    key: &Credential,
    query: &str,
    count: u8,
) -> ProviderRequest<Answer> {
    let json_type = HeaderValue::from_static("application/json");
    let headers = HeaderMap::from_iter([(ACCEPT, json_type.clone()), (CONTENT_TYPE, json_type)]);
    let request = FetchRequest {
        method: Method::POST,
        headers,
        credentials: key.headers(AUTHORIZATION, "Bearer "),
        body: Some(json!({"query": query, "max_results": count}).to_string().into()),
        ..FetchRequest::get(provider.url_below(&["search"]))
    };
    ProviderRequest { request, read }
}

fn read(answer: Answer) -> Vec<SearchResult> {
    let results = answer.results.into_iter().map(|found| SearchResult {
        title: found.title.unwrap_or_default(),
        url: found.url.unwrap_or_default(),
        description: found.content.unwrap_or_default(),
    });
    results.collect()
}
