//! `web_browse`: a page in markdown, and an index of it where it is long.

use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;
use toolbus_fetch::{BodyLimit, FetchRequest, Oversize};
use toolbus_memory::{LongText, end_of_units, utf16_len};
use toolbus_tools::arguments::text;
use toolbus_tools::call::{Invocation, Output};

use super::github;
use super::{WebInner, browser_headers};
use crate::html::{Page, to_markdown};
use crate::page::{FetchedText, PageError, parse_url, read_text};

/// The category of chunks and indexes.
const CATEGORY: &str = "web";
/// Longest address in a key, in characters.
const KEY_CHARS_MAX: usize = 80;
const ACCEPT: &str = "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5";

/// A page as models read it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadPage {
    pub(super) title: Option<String>,
    /// In markdown.
    pub(super) content: String,
    pub(super) is_cut: bool,
}

pub(super) async fn browse(web: &WebInner, call: &Invocation) -> Output {
    let written = text(&call.arguments, "url").unwrap_or_default().trim();
    if written.is_empty() {
        return Output::error("Missing required argument: url");
    }
    match read(web, written).await {
        Ok(page) => Output::text(show(web, call, written, page).await),
        Err(error) => Output::error(format!("Failed to fetch page: {error}")),
    }
}

async fn read(web: &WebInner, written: &str) -> Result<ReadPage, PageError> {
    if let Some(item) = github::GitHubItem::parse(written) {
        match item.read(web).await {
            Ok(page) => return Ok(page),
            // The page itself may still be there.
            Err(error) => tracing::debug!(
                error = &error as &dyn std::error::Error,
                "could not read from GitHub's API"
            ),
        }
    }

    let url = parse_url(written)?;
    let request = FetchRequest { headers: browser_headers(ACCEPT), ..FetchRequest::get(url) };
    let limit = BodyLimit { bytes_max: web.settings.page_bytes_max(), oversize: Oversize::Cut };
    let page = read_text(web.send(request).await?, limit).await?;
    // A large page takes a while.
    let read = spawn_blocking(move || read_page(page)).await;
    read.map_err(|_| PageError::Binary("a page that cannot be read".to_owned()))
}

fn read_page(fetched: FetchedText) -> ReadPage {
    let FetchedText { url, content_type, text, is_cut, .. } = fetched;
    let is_html = content_type.is_html()
        || (content_type.media_type.is_empty() && text.trim_start().starts_with('<'));
    if !is_html {
        return ReadPage { title: None, content: text, is_cut };
    }

    let page = Page::parse(&text);
    let (content, is_cut_here) = to_markdown(&page, &url, text.len());
    ReadPage { title: page.title, content, is_cut: is_cut || is_cut_here }
}

/// The page as it is, or an index of its chunks, or its beginning.
async fn show(web: &WebInner, call: &Invocation, written: &str, page: ReadPage) -> String {
    let ReadPage { title, content, is_cut } = page;
    let mut full = match &title {
        Some(title) => format!("# {title}\n\n{content}"),
        None => content,
    };
    if is_cut {
        full.push_str("\n\n[The page is longer, and was cut here.]");
    }

    let settings = &web.settings;
    let threshold = usize::try_from(settings.chunking_threshold).unwrap_or(usize::MAX);
    if utf16_len(&full) <= threshold {
        return full;
    }
    let beginning = cut_to(&full, threshold);
    let Some(memory) = &web.memory else { return beginning };

    let text = LongText {
        text: full,
        key: format!("web-{}", key_of(written)),
        chunk_units: usize::try_from(settings.chunk_max_length).unwrap_or(usize::MAX),
        category: CATEGORY,
        ttl: Some(settings.chunk_ttl.duration()),
    };
    match memory.keep_text(&call.scope, text).await {
        Ok(kept) => {
            let (count, index) = (kept.chunks.len(), &kept.index_key);
            let title = title.unwrap_or_else(|| written.chars().take(200).collect());
            format!(
                "Page \"{title}\" has been split into {count} chunk(s) stored in working memory.\n\
                 A document outline is stored at key `{index}`.\n\
                 Call GetFromWorkingMemory(key) for each relevant chunk BEFORE drawing \
                 conclusions.\n\
                 Do not summarise based on this index alone.\n\n\
                 | # | Heading | Key |\n|---|---------|-----|{}",
                kept.rows("Section")
            )
        }
        Err(toolbus_memory::Error::NoSession) => beginning,
        Err(error) => {
            let reason = match &error {
                toolbus_memory::Error::Store(_) => {
                    "the memory of this agent cannot be used now".to_owned()
                }
                error => error.to_string(),
            };
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, call = %call.id, "could not keep page in working memory");
            format!("{beginning}\n[the rest could not be kept in working memory: {reason}]")
        }
    }
}

/// The beginning of a page, and how much more there is.
fn cut_to(full: &str, threshold: usize) -> String {
    let end = end_of_units(full, threshold);
    let omitted = utf16_len(&full[end..]);
    format!("{}\n\n[Content truncated — {omitted} chars omitted]", &full[..end])
}

/// An address as a part of a key. Two long ones that begin alike have different keys.
fn key_of(written: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '-') { c } else { '_' };
    let sanitized: String = written.chars().map(plain).collect();
    let sanitized = sanitized.trim_start_matches('_');
    if sanitized.chars().count() <= KEY_CHARS_MAX {
        return sanitized.to_owned();
    }
    let digest = Sha256::digest(written);
    let hash: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let begin: String = sanitized.chars().take(KEY_CHARS_MAX - hash.len() - 1).collect();
    format!("{begin}-{hash}")
}

#[cfg(test)]
mod tests;
