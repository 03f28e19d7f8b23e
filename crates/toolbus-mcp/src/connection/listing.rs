//! Listings of what a server offers: tools, prompts and resources, page by page, within the limits.

use std::time::Duration;

use rmcp::model::{
    ClientRequest, ErrorCode, ListPromptsRequest, ListResourceTemplatesRequest,
    ListResourcesRequest, ListToolsRequest, PaginatedRequestParams, Resource, ResourceTemplate,
    ServerResult, Tool,
};
use rmcp::service::ServiceError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use toolbus_json::Limits;
use toolbus_wire::json::RawJson;

use super::request_sender::RequestSender;
use crate::catalogue::{Catalogue, Listing, PAGES_MAX};
use crate::config::Entry;
use crate::failure::Failure;
use crate::offer::{Features, Offer, PROMPTS_MAX, RESOURCES_MAX};
use crate::transport::MESSAGE_LIMITS;

/// What a page may have. A definition that is nested too deeply is left out alone, where it is
/// read.
const PAGE_LIMITS: Limits = MESSAGE_LIMITS.with_depth(usize::MAX);

/// The entries of one page, and the cursor of the next.
type Page<T> = (Vec<T>, Option<String>);

/// What a server offers beside tools, as far as it was listed.
pub(crate) struct OfferListing {
    pub(crate) offer: Offer,
    /// Whether the prompts were listed, and are not those of the listing before.
    pub(crate) has_listed_prompts: bool,
}

/// Lists what the server of one connection offers.
pub(super) struct OfferLister<'a> {
    sender: &'a RequestSender,
}

impl<'a> OfferLister<'a> {
    pub(super) fn new(sender: &'a RequestSender) -> Self {
        Self { sender }
    }

    /// Lists the tools. The caller bounds the time.
    pub(super) async fn list_tools(&self, entry: &Entry) -> Result<Catalogue, Failure> {
        let mut listing = Listing::new(&entry.filter);
        let mut cursor: Option<String> = None;

        for _ in 0..PAGES_MAX {
            let (tools, next) = match self.list_tools_page(cursor.clone()).await {
                Ok(page) => page,
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                    (Vec::new(), None)
                }
                Err(error) => return Err(Failure::request(&error, &self.sender.eraser)),
            };

            listing.add_page(tools);
            if next.is_none() || next == cursor || listing.is_full() {
                cursor = None;
                break;
            }
            cursor = next;
        }

        if cursor.is_some() {
            listing.mark_cut("too many pages");
        }
        if let Some(reason) = listing.cut {
            tracing::warn!(server = self.sender.server, reason, "truncating list of tools");
        }
        Ok(listing.finish())
    }

    async fn list_tools_page(&self, cursor: Option<String>) -> Result<Page<RawJson>, ServiceError> {
        // Not `Peer::list_tools`: that answers from a cache, and with a stale list when the
        // server fails.
        let request = ClientRequest::ListToolsRequest(ListToolsRequest {
            method: Default::default(),
            params: PageCursor(cursor).params(),
            extensions: Default::default(),
        });
        let (written, stand_in) = self.sender.send_listing(request).await?;
        let mut page: ToolsPage = read_page(&written)?;
        remove_rejected(&mut page.tools, stand_in);
        Ok((page.tools, page.next_cursor))
    }

    /// Lists what the server offers beside tools. What it does not list within the time is as it
    /// was in the previous listing.
    pub(super) async fn list_offer(
        &self,
        previous: Option<Offer>,
        limit: Duration,
    ) -> OfferListing {
        let previous = previous.unwrap_or_default();
        let (prompts, resources) = tokio::join!(
            timeout(limit, self.list_prompts()),
            timeout(limit, self.count_resources()),
        );

        let prompts = self.ok_or_log("prompts", prompts.ok()).map(Offer::prompts_of);
        let resources = self.ok_or_log("resources", resources.ok());
        let resources = resources.unwrap_or(previous.resources);
        let has_listed_prompts = prompts.is_some();
        let offer =
            Offer { resources, features: self.read_features(), ..prompts.unwrap_or(previous) };
        OfferListing { offer, has_listed_prompts }
    }

    /// The listing, or `None` after the failure was logged. A listing that took too long is `None`.
    fn ok_or_log<T>(&self, what: &str, listing: Option<Result<T, ServiceError>>) -> Option<T> {
        let why = match listing {
            Some(Ok(listing)) => return Some(listing),
            Some(Err(error)) => Failure::request(&error, &self.sender.eraser).to_string(),
            None => "it did not answer in time".to_owned(),
        };

        tracing::info!(server = self.sender.server, why, "listing {what} failed");
        None
    }

    async fn list_prompts(&self) -> Result<Vec<RawJson>, ServiceError> {
        let info = self.sender.server_info();
        if info.is_none_or(|info| info.capabilities.prompts.is_none()) {
            return Ok(Vec::new());
        }

        let mut pages = PagedEntries::new(PROMPTS_MAX);
        while let Some(cursor) = pages.next.take() {
            let request = ListPromptsRequest {
                method: Default::default(),
                params: cursor.params(),
                extensions: Default::default(),
            };
            let request = ClientRequest::ListPromptsRequest(request);
            let (written, _) = self.sender.send_listing(request).await?;
            let page: PromptsPage = read_page(&written)?;
            pages.add_page(&cursor, page.prompts, page.next_cursor);
        }
        Ok(pages.entries)
    }

    async fn count_resources(&self) -> Result<usize, ServiceError> {
        let info = self.sender.server_info();
        if info.is_none_or(|info| info.capabilities.resources.is_none()) {
            return Ok(0);
        }

        let mut pages = PagedEntries::new(RESOURCES_MAX);
        while let Some(cursor) = pages.next.take() {
            let (resources, next) = self.list_resources_page(&cursor).await?;
            pages.add_page(&cursor, resources, next);
        }
        Ok(pages.entries.len() + self.list_templates().await?.len())
    }

    /// Lists one page of resources.
    pub(super) async fn list_resources_page(
        &self,
        cursor: &PageCursor,
    ) -> Result<Page<Resource>, ServiceError> {
        let request = ListResourcesRequest {
            method: Default::default(),
            params: cursor.params(),
            extensions: Default::default(),
        };
        match self.sender.send(ClientRequest::ListResourcesRequest(request)).await? {
            ServerResult::ListResourcesResult(page) => Ok((page.resources, page.next_cursor)),
            _ => Err(ServiceError::UnexpectedResponse),
        }
    }

    /// Lists every template of resources. A server that does not know the request has none.
    pub(super) async fn list_templates(&self) -> Result<Vec<ResourceTemplate>, ServiceError> {
        let mut pages = PagedEntries::new(RESOURCES_MAX);
        while let Some(cursor) = pages.next.take() {
            let request = ListResourceTemplatesRequest {
                method: Default::default(),
                params: cursor.params(),
                extensions: Default::default(),
            };
            match self.sender.send(ClientRequest::ListResourceTemplatesRequest(request)).await {
                Ok(ServerResult::ListResourceTemplatesResult(page)) => {
                    pages.add_page(&cursor, page.resource_templates, page.next_cursor);
                }
                Ok(_) => return Err(ServiceError::UnexpectedResponse),
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                }
                Err(error) => return Err(error),
            }
        }
        Ok(pages.entries)
    }

    /// Reads from the handshake whether the server completes arguments, and whether it reports
    /// changed resources.
    fn read_features(&self) -> Features {
        let info = self.sender.server_info();
        let capabilities = info.map(|info| info.capabilities.clone()).unwrap_or_default();
        let subscribe = capabilities.resources.and_then(|resources| resources.subscribe);

        Features {
            completions: capabilities.completions.is_some(),
            subscriptions: subscribe == Some(true),
        }
    }
}

/// A page of tools. What is not read of it is of no use without the page.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolsPage {
    tools: Vec<RawJson>,
    next_cursor: Option<String>,
}

/// A page of prompts.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptsPage {
    prompts: Vec<RawJson>,
    next_cursor: Option<String>,
}

/// Removes the tools that rmcp was shown and has taken out, because their schemas ask for headers
/// that no request can have.
fn remove_rejected(tools: &mut Vec<RawJson>, stand_in: ServerResult) {
    let ServerResult::ListToolsResult(accepted) = stand_in else { return };
    let mut accepted = accepted.tools.into_iter().peekable();
    tools.retain(|written| match toolbus_json::from_str::<Tool>(written.text(), &MESSAGE_LIMITS) {
        Ok(tool) => accepted.next_if(|accepted| accepted.name == tool.name).is_some(),
        // It was not shown: whatever is wrong with it, it is not this.
        Err(_) => true,
    });
}

/// Reads a page as its server wrote it.
fn read_page<P: DeserializeOwned>(page: &RawJson) -> Result<P, ServiceError> {
    toolbus_json::from_str(page.text(), &PAGE_LIMITS).map_err(|_| ServiceError::UnexpectedResponse)
}

/// The cursor of a requested page; the first page has none.
pub(super) struct PageCursor(pub(super) Option<String>);

impl PageCursor {
    /// The parameters of a request for the page.
    fn params(&self) -> Option<PaginatedRequestParams> {
        let cursor = self.0.clone()?;
        Some(PaginatedRequestParams::default().with_cursor(Some(cursor)))
    }
}

/// The entries of a listing, page by page, within the limits.
struct PagedEntries<T> {
    entries: Vec<T>,
    entries_max: usize,
    pages_left: usize,
    /// The page to request next.
    next: Option<PageCursor>,
}

impl<T> PagedEntries<T> {
    fn new(entries_max: usize) -> Self {
        let next = Some(PageCursor(None));
        Self { entries: Vec::new(), entries_max, pages_left: PAGES_MAX, next }
    }

    /// Adds a page, and decides whether there is another to request.
    fn add_page(&mut self, requested: &PageCursor, page: Vec<T>, next: Option<String>) {
        let room = self.entries_max - self.entries.len();
        self.entries.extend(page.into_iter().take(room));
        self.pages_left -= 1;

        let goes_on = next.is_some() && next != requested.0;
        let has_room = self.entries.len() < self.entries_max && self.pages_left > 0;
        self.next = (goes_on && has_room).then_some(PageCursor(next));
    }
}
