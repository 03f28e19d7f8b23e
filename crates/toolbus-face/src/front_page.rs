//! The page at `/`: what answers here, and where MCP clients connect.
//!
//! It is for people, and for programs that look before they know a path. Which MCP servers there
//! are is a read like any other: it passes the gates, and each server is one that clients see.
//! Where that is refused, the page says no more than which program answers. No address is absolute:
//! a proxy in front has names and a scheme of its own.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::timeout;
use toolbus_mcp_agent::seen_summary;
use toolbus_tools::{Principal, Subject, View};

use crate::FaceDeps;
use crate::clients::{Clients, refuse_visitor};
use crate::handler::client_scope;
use crate::resource_requests::read_call;

/// Most servers on the page.
const SERVERS_MAX: usize = 100;
/// How long a visitor waits until it is known whether they may see which servers there are.
const LISTING_TIMEOUT: Duration = Duration::from_secs(2);
/// The tool that lists servers: who may not call it is not shown any.
const LIST_TOOL: &str = "mcp_list_services";
/// All that a path takes as it is.
const URI_UNRESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const INTRODUCTION: &str =
    "MCP clients connect to these paths of this address, by streamable HTTP:";
const DOCUMENTATION: &str = "How a client connects is in docs/install.md of Toolbus, how MCP \
                             servers are added in docs/mcp-json.md.";
const OTHER_ORDER: &str = "The path of a server may also be written as /NAME/mcp, for clients that \
                           take no path but one that ends in /mcp.";

/// Answers whoever looks at the root.
pub(crate) struct FrontPage {
    deps: FaceDeps,
    view: View,
    clients: Arc<Clients>,
}

/// What is on the page.
struct Page {
    title: String,
    /// The names of the servers.
    servers: Vec<String>,
    /// How many there are beside these.
    more: usize,
}

impl FrontPage {
    pub(crate) fn new(deps: FaceDeps, view: View, clients: Arc<Clients>) -> Self {
        Self { deps, view, clients }
    }

    /// The page, as HTML for who asks for that, else as text.
    pub(crate) async fn serve(&self, request: &Parts) -> Response {
        // A page of somebody else must not read it through its reader's browser.
        let visitor = match self.clients.admit_visitor(request) {
            Ok(visitor) => visitor,
            Err(error) => return refuse_visitor(error),
        };

        let page = self.page(visitor).await;
        let (kind, body) = match prefers_html(&request.headers) {
            true => ("text/html; charset=utf-8", page.to_html()),
            false => ("text/plain; charset=utf-8", page.to_text()),
        };
        let headers = [
            (CONTENT_TYPE, kind),
            (CACHE_CONTROL, "no-store"),
            (VARY, "accept"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (CONTENT_SECURITY_POLICY, "default-src 'none'"),
        ];
        (StatusCode::OK, headers, body).into_response()
    }

    async fn page(&self, visitor: Principal) -> Page {
        let mut servers = match timeout(LISTING_TIMEOUT, self.seen_servers(visitor)).await {
            Ok(Some(servers)) => servers,
            _ => Vec::new(),
        };
        servers.sort();
        let more = servers.len().saturating_sub(SERVERS_MAX);
        servers.truncate(SERVERS_MAX);
        let title = format!("Toolbus {}, agent {}", env!("CARGO_PKG_VERSION"), self.deps.agent);
        Page { title, servers, more }
    }

    /// The servers that this visitor sees; `None` where they may not be listed.
    async fn seen_servers(&self, visitor: Principal) -> Option<Vec<String>> {
        // The registry has it from the first server on.
        let subject: Subject = self.deps.invoker.registry().find(LIST_TOOL)?.subject();
        let scope = client_scope(&self.deps, self.view.clone(), visitor);
        let read = |_| {
            let known = self.deps.directory.servers();
            let seen = known.iter().filter_map(|known| seen_summary(known, &self.view));
            ready(Ok(seen.map(|seen| seen.server_name.clone()).collect()))
        };
        let call = read_call(&Arc::clone(&scope), "servers/list");
        self.deps.read_list(call, subject, read).await.ok()
    }
}

impl Page {
    /// Each path where a client may connect, and what is there.
    fn endpoints(&self) -> Vec<(String, String)> {
        let own = ("/mcp".to_owned(), "the agent's own tools".to_owned());
        let of_server = |name: &String| {
            let path = format!("/mcp/{}", utf8_percent_encode(name, URI_UNRESERVED));
            (path, format!("the MCP server {name}"))
        };
        std::iter::once(own).chain(self.servers.iter().map(of_server)).collect()
    }

    /// What stands behind the list.
    fn notes(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("{} more servers are not listed.", self.more));
        let order = (!self.servers.is_empty()).then(|| OTHER_ORDER.to_owned());
        more.into_iter().chain(order).chain([DOCUMENTATION.to_owned()]).collect()
    }

    fn to_text(&self) -> String {
        let mut text = format!("{}\n\n{INTRODUCTION}\n", self.title);
        for (path, what) in self.endpoints() {
            text.push_str(&format!("  {path}  {what}\n"));
        }
        for note in self.notes() {
            text.push_str(&format!("\n{note}\n"));
        }
        text
    }

    fn to_html(&self) -> String {
        let title = escape(&self.title);
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
             <h1>{title}</h1>\n<p>{INTRODUCTION}</p>\n<ul>\n"
        );
        for (path, what) in self.endpoints() {
            html.push_str(&format!("<li><code>{path}</code> {}</li>\n", escape(&what)));
        }
        html.push_str("</ul>\n");
        for note in self.notes() {
            html.push_str(&format!("<p>{}</p>\n", escape(&note)));
        }
        html.push_str("</html>\n");
        html
    }
}

/// Whether a visitor is a browser, or says that it reads what those read.
fn prefers_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = accepted.flat_map(|value| value.split(','));
    kinds.any(|kind| {
        let mut parts = kind.split(';').map(str::trim);
        let is_html = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("text/html"));
        is_html && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other if other.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
