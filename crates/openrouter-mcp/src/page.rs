//! Pages of the list of models, where OpenRouter did not make them.
//!
//! OpenRouter takes `offset` and `limit` itself and its answer is passed on as it is. A gateway in
//! front of it may not know them and send the whole list; then the page is cut here, each model as
//! it came.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::endpoint::ModelsQuery;

#[cfg(test)]
mod tests;

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
}

#[derive(Serialize)]
struct Page<'a> {
    data: &'a [&'a RawValue],
    total_count: usize,
    /// Where the next page begins; `None` at the last.
    next_offset: Option<usize>,
}

/// The answer, with as many models as were asked for at most. An answer that is not a list is left
/// as it is.
pub(crate) fn of(answer: String, query: &ModelsQuery) -> String {
    let Some(limit) = query.limit.and_then(|limit| usize::try_from(limit).ok()) else {
        return answer;
    };
    let Ok(Answer { data }) = serde_json::from_str::<Answer<'_>>(&answer) else { return answer };
    if data.len() <= limit {
        return answer;
    }
    let offset = query.offset.and_then(|offset| usize::try_from(offset).ok()).unwrap_or(0);
    let begin = offset.min(data.len());
    let end = begin.saturating_add(limit).min(data.len());
    let next_offset = (end < data.len()).then_some(end);
    let page = Page { data: &data[begin..end], total_count: data.len(), next_offset };
    serde_json::to_string(&page).expect("it was JSON before")
}
