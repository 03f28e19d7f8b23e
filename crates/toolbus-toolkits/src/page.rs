//! A page as it comes: fetched, read as text, or refused.

use reqwest::Url;
use toolbus_fetch::{BodyLimit, ContentType, Error, FetchResponse, decode_text};

/// A page as text.
#[derive(Debug)]
pub(crate) struct FetchedText {
    /// Where it came from, after all redirects.
    pub(crate) url: Url,
    pub(crate) status: u16,
    pub(crate) content_type: ContentType,
    pub(crate) text: String,
    /// There was more.
    pub(crate) is_cut: bool,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PageError {
    #[error("the URL cannot be read: {0}")]
    Url(String),
    #[error("HTTP {0}")]
    Status(u16),
    #[error("it is {0}, which cannot be read as text")]
    Binary(String),
    #[error(transparent)]
    Fetch(#[from] Error),
}

/// Reads an address as models write it. A fragment says nothing to a server.
pub(crate) fn parse_url(written: &str) -> Result<Url, PageError> {
    let mut url = Url::parse(written.trim()).map_err(|error| PageError::Url(error.to_string()))?;
    url.set_fragment(None);
    Ok(url)
}

/// Reads the answer to a request as text.
pub(crate) async fn read_text(
    response: FetchResponse,
    limit: BodyLimit,
) -> Result<FetchedText, PageError> {
    let content_type = response.content_type();
    let (url, status) = (response.url.clone(), response.status());
    if !status.is_success() {
        return Err(PageError::Status(status.as_u16()));
    }
    if !content_type.may_be_text() {
        return Err(PageError::Binary(content_type.media_type));
    }

    let body = response.read(limit).await?;
    let Some(text) = decode_text(&body.bytes, &content_type) else {
        let what = match body.bytes.starts_with(b"%PDF-") {
            true => "application/pdf",
            false => "binary",
        };
        return Err(PageError::Binary(what.to_owned()));
    };
    Ok(FetchedText { url, status: status.as_u16(), content_type, text, is_cut: body.is_cut })
}
