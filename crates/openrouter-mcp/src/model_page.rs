//! Paging of the list of models, for upstreams that do not page it themselves.
//!
//! OpenRouter applies `offset` and `limit` itself, and its answer is passed on unchanged. A gateway
//! in front of it may ignore them and send the whole list; then the page is cut here, and each
//! model stays as it was sent.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::endpoint::ModelsQuery;

#[cfg(test)]
mod tests;

#[derive(Deserialize)]
struct ModelList<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
}

#[derive(Serialize)]
struct ModelPage<'a> {
    data: &'a [&'a RawValue],
    total_count: usize,
    /// Where the next page begins; `None` at the last.
    next_offset: Option<usize>,
}

/// Cuts the answer to the page that the query asks for. An answer that is not a list of models, or
/// is short enough, is returned unchanged.
pub(crate) fn cut_page(answer: String, query: &ModelsQuery) -> String {
    let Some(limit) = query.limit.and_then(|limit| usize::try_from(limit).ok()) else {
        return answer;
    };

    // Its limits were checked when it came.
    let Ok(ModelList { data }) = toolbus_json::from_trusted::<ModelList<'_>>(&answer) else {
        return answer;
    };

    if data.len() <= limit {
        return answer;
    }

    let offset = query.offset.and_then(|offset| usize::try_from(offset).ok()).unwrap_or(0);
    let begin = offset.min(data.len());
    let end = begin.saturating_add(limit).min(data.len());
    let next_offset = (end < data.len()).then_some(end);
    let page = ModelPage { data: &data[begin..end], total_count: data.len(), next_offset };

    serde_json::to_string(&page).expect("it was JSON before")
}
