//! Issues and pull requests of GitHub, from its API: pages there are made for people.

use reqwest::Url;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue, USER_AGENT};
use serde::Deserialize;
use toolbus_fetch::{BodyLimit, FetchRequest, Oversize};
use toolbus_json::Limits;

use super::WebInner;
use super::browse::ReadPage;
use crate::page::{PageError, read_text};

/// Largest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// An issue or a pull request with its labels.
const ANSWER_LIMITS: Limits = Limits::of_bytes(ANSWER_BYTES_MAX).with_values(10_000);
/// Longest name of an owner or a repository, in bytes.
const NAME_BYTES_MAX: usize = 100;

/// An issue or a pull request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GitHubItem {
    owner: String,
    repository: String,
    kind: Kind,
    number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Issue,
    PullRequest,
}

#[derive(Deserialize)]
struct Answer {
    title: Option<String>,
    state: Option<String>,
    user: Option<User>,
    created_at: Option<String>,
    updated_at: Option<String>,
    #[serde(default)]
    labels: Vec<Label>,
    html_url: Option<String>,
    body: Option<String>,
}

#[derive(Deserialize)]
struct User {
    login: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Label {
    Object { name: Option<String> },
    Name(String),
}

impl GitHubItem {
    /// The one that an address is of, whatever follows its number.
    pub(super) fn parse(url: &str) -> Option<Self> {
        let rest = strip_prefix_ignore_case(url, "https://")
            .or_else(|| strip_prefix_ignore_case(url, "http://"))?;
        let rest = strip_prefix_ignore_case(rest, "github.com/")?;
        let mut segments = rest.splitn(4, '/');
        let (owner, repository) = (segments.next()?, segments.next()?);
        let kind = match segments.next()?.to_ascii_lowercase().as_str() {
            "issues" => Kind::Issue,
            "pull" => Kind::PullRequest,
            _ => return None,
        };

        let rest = segments.next()?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number = rest[..end].parse().ok()?;
        let is_name = |name: &str| {
            (1..=NAME_BYTES_MAX).contains(&name.len())
                && !name.bytes().all(|byte| byte == b'.')
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        (is_name(owner) && is_name(repository)).then(|| Self {
            owner: owner.to_owned(),
            repository: repository.to_owned(),
            kind,
            number,
        })
    }

    /// Reads it from the API.
    pub(super) async fn read(&self, web: &WebInner) -> Result<ReadPage, PageError> {
        let headers = HeaderMap::from_iter([
            (USER_AGENT, HeaderValue::from_static("RockBot/1.0")),
            (ACCEPT, HeaderValue::from_static("application/vnd.github.v3+json")),
        ]);
        let request = FetchRequest {
            headers,
            is_internal: web.settings.github_api.is_some(),
            ..FetchRequest::get(self.url(&web.github))
        };
        let limit = BodyLimit { bytes_max: ANSWER_BYTES_MAX, oversize: Oversize::Refuse };
        let page = read_text(web.send(request).await?, limit).await?;
        let answer: Answer = toolbus_json::from_str(&page.text, &ANSWER_LIMITS)
            .map_err(|error| PageError::Binary(format!("no answer of GitHub's ({error})")))?;
        Ok(self.describe(answer))
    }

    fn url(&self, base: &Url) -> Url {
        let kind = match self.kind {
            Kind::Issue => "issues",
            Kind::PullRequest => "pulls",
        };
        let mut url = base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            let number = self.number.to_string();
            path.pop_if_empty().extend(["repos", &self.owner, &self.repository, kind, &number]);
        }
        url
    }

    fn describe(&self, answer: Answer) -> ReadPage {
        let kind = match self.kind {
            Kind::Issue => "Issue",
            Kind::PullRequest => "PR",
        };
        let place = format!("{}/{}", self.owner, self.repository);
        let line = |text: Option<String>| {
            let text = text.unwrap_or_default();
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };

        let title = format!("{kind} #{}: {} [{place}]", self.number, line(answer.title));
        let labels = answer.labels.into_iter().filter_map(|label| match label {
            Label::Object { name } => name,
            Label::Name(name) => Some(name),
        });
        let labels = labels.collect::<Vec<_>>().join(", ");
        let lines = [
            ("Repository", place),
            ("State", line(answer.state)),
            ("Author", line(answer.user.and_then(|user| user.login))),
            ("Created", line(answer.created_at)),
            ("Updated", line(answer.updated_at)),
            ("Labels", line(Some(labels))),
            ("URL", line(answer.html_url)),
        ];
        let lines = lines.into_iter().map(|(name, value)| format!("**{name}:** {value}"));
        let lines = lines.collect::<Vec<_>>().join("\n");

        let body = answer.body.filter(|body| !body.trim().is_empty());
        let body = body.map(|body| body.replace("\r\n", "\n"));
        let body = body.unwrap_or_else(|| "(no description)".to_owned());
        ReadPage { title: Some(title), content: format!("{lines}\n\n---\n\n{body}"), is_cut: false }
    }
}

fn strip_prefix_ignore_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (begin, rest) = text.split_at_checked(prefix.len())?;
    begin.eq_ignore_ascii_case(prefix).then_some(rest)
}

#[cfg(test)]
mod tests;
