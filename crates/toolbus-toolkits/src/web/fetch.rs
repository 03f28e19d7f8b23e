//! `web_fetch`: what is at an address, as text, below some lines that say what came.

use reqwest::Url;
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;
use toolbus_fetch::{BodyLimit, Error, FetchRequest, Oversize};
use toolbus_json::Limits;
use toolbus_tools::arguments::text;
use toolbus_tools::call::Output;

use super::{WebInner, browser_headers};
use crate::html::{Page, to_text};
use crate::page::{FetchedText, PageError, parse_url, read_text};

/// Largest body, in bytes.
const BODY_BYTES_MAX: usize = 2_000_000;
/// A body as text: what is one byte in another encoding takes up to three.
const JSON_LIMITS: Limits = Limits::of_bytes(3 * BODY_BYTES_MAX);
/// Most characters of content where nobody says.
const CHARS_DEFAULT: u64 = 50_000;
const ACCEPT: &str = "text/html,application/xhtml+xml,application/json;q=0.9,text/plain;q=0.8,\
                      */*;q=0.5";

/// What stands at the end of a page that has more elements than are read.
const CUT: &str = "\n\n[The page is longer, and was cut here.]";

/// What is shown of a page.
struct Shown {
    title: Option<String>,
    content: String,
}

pub(super) async fn fetch(web: &WebInner, arguments: &Map<String, Value>) -> Output {
    let written = text(arguments, "url").unwrap_or_default().trim();
    let chars_max = match arguments.get("maxChars") {
        None => CHARS_DEFAULT,
        Some(written) => match written.as_u64() {
            Some(chars) if chars > 0 => chars,
            _ => return Output::error("Error: maxChars must be a whole number of 1 or more"),
        },
    };
    let url = match Url::parse(written) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => url,
        _ => {
            let shown: String = written.chars().take(200).collect();
            return Output::error(format!(
                "Error: only http and https URLs are supported, and '{shown}' is none"
            ));
        }
    };

    match get(web, &url).await {
        Ok(page) => {
            let chars_max = usize::try_from(chars_max).unwrap_or(usize::MAX);
            // A large page takes a while.
            let described = spawn_blocking(move || describe(&url, page, chars_max)).await;
            described.map_or_else(|_| Output::error("Error: it failed"), Output::text)
        }
        Err(error) => Output::error(describe_error(&error, written)),
    }
}

async fn get(web: &WebInner, url: &Url) -> Result<FetchedText, PageError> {
    let headers = browser_headers(ACCEPT);
    // Without the fragment, which says nothing to a server.
    let request = FetchRequest { headers, ..FetchRequest::get(parse_url(url.as_str())?) };
    let limit = BodyLimit { bytes_max: BODY_BYTES_MAX, oversize: Oversize::Refuse };
    read_text(web.send(request).await?, limit).await
}

fn describe_error(error: &PageError, url: &str) -> String {
    match error {
        PageError::Status(status) => format!("Error: HTTP {status} fetching {url}"),
        PageError::Fetch(Error::TooLarge { bytes, max }) => {
            let max = group_by_commas(*max as u64);
            match bytes {
                Some(bytes) => {
                    let bytes = group_by_commas(*bytes);
                    format!("Error: Response too large ({bytes} bytes, max {max} bytes)")
                }
                None => format!("Error: Response too large (over {max} bytes, max {max} bytes)"),
            }
        }
        PageError::Fetch(Error::TimedOut(time)) => {
            format!("Error: Request timed out after {} s fetching {url}", time.as_secs_f64())
        }
        error => format!("Error fetching {url}: {error}"),
    }
}

fn describe(asked: &Url, page: FetchedText, chars_max: usize) -> String {
    let FetchedText { url, status, content_type, text, .. } = page;
    let shown = if content_type.is_html() {
        let page = Page::parse(&text);
        let end = if page.is_cut { CUT } else { "" };
        Shown { content: to_text(&page) + end, title: page.title }
    } else if content_type.is_json() {
        Shown { title: None, content: pretty_json(text) }
    } else {
        Shown { title: None, content: text }
    };

    let mut asked = asked.clone();
    let mut lines = vec![format!("URL: {asked}")];
    asked.set_fragment(None);
    if url != asked {
        lines.push(format!("Final URL: {url}"));
    }
    lines.push(format!("Status: {status}"));
    lines.push(format!("Content-Type: {}", content_type.media_type));
    lines.extend(shown.title.map(|title| format!("Title: {title}")));

    let all = shown.content.chars().count();
    let content = cut_chars(&shown.content, chars_max);
    let kept = content.chars().count();
    lines.push(match kept < all {
        true => format!("Length: {kept} chars (truncated from {all})"),
        false => format!("Length: {all} chars"),
    });
    lines.extend([String::new(), "--- Content ---".to_owned(), String::new(), content.to_owned()]);
    if kept < all {
        lines.extend([String::new(), format!("[Content truncated at {chars_max} characters]")]);
    }
    lines.join("\n")
}

/// JSON with two blanks for each level; as it is where it cannot be read.
fn pretty_json(text: String) -> String {
    /// Nesting is written in each line.
    const GROWTH_MAX: usize = 8;
    let json = text.trim_start_matches('\u{feff}');
    let value: Option<Value> = toolbus_json::from_str(json, &JSON_LIMITS).ok();
    let pretty = value.and_then(|value| serde_json::to_string_pretty(&value).ok());
    match pretty {
        Some(pretty) if pretty.len() <= text.len().saturating_mul(GROWTH_MAX) + 4_096 => pretty,
        _ => text,
    }
}

/// The beginning of a text, without half of what is read as one character.
fn cut_chars(text: &str, chars_max: usize) -> &str {
    let Some((end, next)) = text.char_indices().nth(chars_max) else { return text };
    let joins = |c: char| {
        // Combining marks, joiners, variation selectors, skin tones.
        matches!(c, '\u{300}'..='\u{36f}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{1f3fb}'..='\u{1f3ff}' | '\u{20d0}'..='\u{20ff}')
    };
    let mut cut = &text[..end];
    let mut is_joined = joins(next) || cut.ends_with('\u{200d}');
    // No such chain is long in any writing.
    for _ in 0..16 {
        let Some(last) = cut.chars().next_back().filter(|_| is_joined) else { break };
        cut = &cut[..cut.len() - last.len_utf8()];
        is_joined = joins(last) || cut.ends_with('\u{200d}');
    }
    cut
}

/// A number with a comma between its thousands.
fn group_by_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
