//! Prompts and resources on one connection.

use std::collections::HashMap;
use std::time::Duration;

use rmcp::model::{
    ArgumentInfo, ClientRequest, CompleteRequest, CompleteRequestParams, CompletionContext,
    ErrorCode, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest,
    PaginatedRequestParams, Prompt, Reference, Resource, ResourceTemplate, ServerResult,
};
use rmcp::service::ServiceError;
use tokio::time::{Instant, sleep_until, timeout};
use toolbus_bus::Progress;
use toolbus_wire::message::mcp::McpCompleteRequest;

use super::rounds::{Exchange, Terms, What};
use super::{Connection, Ended};
use crate::call::{Call, CallError};
use crate::catalogue::PAGES_MAX;
use crate::lookup::{Found, Wanted, completion, contents, page, prompt};
use crate::offer::{Features, Offer, PROMPTS_MAX, RESOURCES_MAX};

/// The entries of one page, and what asks for the next.
type Page<T> = (Vec<T>, Option<String>);

impl Connection {
    /// What the server offers beside tools. What it does not tell within the time is as it was
    /// known: tools must not wait for it.
    pub(crate) async fn offer(&self, known: Option<Offer>, limit: Duration) -> Offer {
        let known = known.unwrap_or_default();
        let (prompts, resources) =
            tokio::join!(timeout(limit, self.prompts()), timeout(limit, self.count_resources()),);
        let prompts = self.told("prompts", prompts.ok()).map(Offer::prompts_of);
        let resources = self.told("resources", resources.ok());
        let resources = resources.unwrap_or(known.resources);
        Offer { resources, features: self.features(), ..prompts.unwrap_or(known) }
    }

    fn told<T>(&self, what: &str, listed: Option<Result<T, ServiceError>>) -> Option<T> {
        let why = match listed {
            Some(Ok(listed)) => return Some(listed),
            Some(Err(error)) => error.to_string(),
            None => "it did not answer in time".to_owned(),
        };
        let why = self.eraser.erase(&why).into_owned();
        tracing::info!(server = self.server, why, "the list of its {what} is not known");
        None
    }

    async fn prompts(&self) -> Result<Vec<Prompt>, ServiceError> {
        let capabilities = self.peer.peer_info().map(|info| info.capabilities.prompts.is_some());
        if capabilities != Some(true) {
            return Ok(Vec::new());
        }
        let mut pages = Pages::new(PROMPTS_MAX);
        while let Some(cursor) = pages.next.take() {
            let request = ListPromptsRequest {
                method: Default::default(),
                params: cursor.params(),
                extensions: Default::default(),
            };
            match self.request(ClientRequest::ListPromptsRequest(request)).await? {
                ServerResult::ListPromptsResult(page) => {
                    pages.take(&cursor, page.prompts, page.next_cursor);
                }
                _ => return Err(ServiceError::UnexpectedResponse),
            }
        }
        Ok(pages.entries)
    }

    async fn count_resources(&self) -> Result<usize, ServiceError> {
        let capabilities = self.peer.peer_info().map(|info| info.capabilities.resources.is_some());
        if capabilities != Some(true) {
            return Ok(0);
        }
        let mut pages = Pages::new(RESOURCES_MAX);
        while let Some(cursor) = pages.next.take() {
            let (resources, next) = self.resources(&cursor).await?;
            pages.take(&cursor, resources, next);
        }
        Ok(pages.entries.len() + self.templates().await?.len())
    }

    async fn resources(&self, cursor: &Cursor) -> Result<Page<Resource>, ServiceError> {
        let request = ListResourcesRequest {
            method: Default::default(),
            params: cursor.params(),
            extensions: Default::default(),
        };
        match self.request(ClientRequest::ListResourcesRequest(request)).await? {
            ServerResult::ListResourcesResult(page) => Ok((page.resources, page.next_cursor)),
            _ => Err(ServiceError::UnexpectedResponse),
        }
    }

    /// Every template. A server that does not know the request has none.
    async fn templates(&self) -> Result<Vec<ResourceTemplate>, ServiceError> {
        let mut pages = Pages::new(RESOURCES_MAX);
        while let Some(cursor) = pages.next.take() {
            let request = ListResourceTemplatesRequest {
                method: Default::default(),
                params: cursor.params(),
                extensions: Default::default(),
            };
            match self.request(ClientRequest::ListResourceTemplatesRequest(request)).await {
                Ok(ServerResult::ListResourceTemplatesResult(page)) => {
                    pages.take(&cursor, page.resource_templates, page.next_cursor);
                }
                Ok(_) => return Err(ServiceError::UnexpectedResponse),
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                }
                Err(error) => return Err(error),
            }
        }
        Ok(pages.entries)
    }

    /// Asks for one thing, within the limits of `call`.
    pub(crate) async fn look_up(
        &self,
        wanted: &Wanted,
        call: &Call,
        until: Instant,
    ) -> Result<Found, Ended> {
        let what = match wanted {
            Wanted::Resources { .. } | Wanted::Completion(_) => {
                let found = tokio::select! {
                    biased;
                    found = self.find(wanted) => found,
                    () = call.cancelled.cancelled() => return Err(Ended::Cancelled),
                    () = sleep_until(until) => return Err(Ended::TimedOut),
                };
                return match found {
                    Ok(found) => Ok(found),
                    Err(error) => Err(self.not_found(wanted, error).await),
                };
            }
            Wanted::Prompt { name, arguments } => What::Prompt { name, arguments },
            Wanted::Resource { uri } => What::Resource { uri },
        };
        let progress = &Progress::none();
        let terms = Terms { until, cancelled: &call.cancelled, progress, asker: &call.asker };
        let Exchange { response, mark, .. } = self.exchange(what, terms).await?;
        match response {
            Ok(ServerResult::GetPromptResult(result)) => prompt(result)
                .map(Found::Prompt)
                .map_err(|why| self.failed(&format!("failed: {why}"))),
            Ok(ServerResult::ReadResourceResult(result)) => Ok(Found::Resource(contents(result))),
            Ok(_) => Err(self.failed(&format!("gave no answer to {}", wanted.method()))),
            Err(ServiceError::McpError(error)) => {
                Err(self.not_found(wanted, ServiceError::McpError(error)).await)
            }
            Err(error) => Err(self.explain(call, &mark, error, || true).await),
        }
    }

    /// Asks for what no server asks back for.
    async fn find(&self, wanted: &Wanted) -> Result<Found, ServiceError> {
        match wanted {
            Wanted::Completion(wanted) => self.complete(wanted).await,
            Wanted::Resources { cursor } => self.resource_page(cursor.clone()).await,
            _ => Err(ServiceError::UnexpectedResponse),
        }
    }

    async fn complete(&self, wanted: &McpCompleteRequest) -> Result<Found, ServiceError> {
        let reference = match (&wanted.prompt_name, &wanted.uri_template) {
            (Some(prompt), _) => Reference::for_prompt(prompt.clone()),
            (None, uri) => Reference::for_resource(uri.clone().unwrap_or_default()),
        };
        let argument = ArgumentInfo::new(&wanted.argument_name, &wanted.argument_value);
        let decided = wanted.arguments.iter();
        let decided =
            decided.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        let decided: HashMap<_, _> = decided.collect();
        let mut params = CompleteRequestParams::new(reference, argument);
        params.context = (!decided.is_empty()).then(|| CompletionContext::with_arguments(decided));
        let request = CompleteRequest::new(params);
        match self.request(ClientRequest::CompleteRequest(request)).await? {
            ServerResult::CompleteResult(result) => {
                Ok(Found::Completion(completion(result.completion)))
            }
            _ => Err(ServiceError::UnexpectedResponse),
        }
    }

    /// Whether the server completes arguments, and whether it tells of changed resources.
    pub(super) fn features(&self) -> Features {
        let info = self.peer.peer_info();
        let capabilities = info.map(|info| info.capabilities.clone()).unwrap_or_default();
        let subscribe = capabilities.resources.and_then(|resources| resources.subscribe);
        Features {
            completions: capabilities.completions.is_some(),
            subscriptions: subscribe == Some(true),
        }
    }

    async fn resource_page(&self, cursor: Option<String>) -> Result<Found, ServiceError> {
        // The templates go along with the first page only.
        let templates = match &cursor {
            None => self.templates().await?,
            Some(_) => Vec::new(),
        };
        let (resources, next_cursor) = self.resources(&Cursor(cursor)).await?;
        Ok(Found::Resources(page(resources, templates, next_cursor)))
    }

    async fn not_found(&self, wanted: &Wanted, error: ServiceError) -> Ended {
        match error {
            ServiceError::McpError(error) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                self.failed(&format!("does not know {}", wanted.method()))
            }
            ServiceError::McpError(error) => {
                let message = self.told_by(&error);
                Ended::With(CallError::Failed { message })
            }
            ServiceError::TransportClosed => Ended::Lost(self.why_over().await),
            ServiceError::TransportSend(error) => self.not_carried(error),
            other => Ended::Lost(crate::failure::Failure::request(&other, &self.eraser)),
        }
    }
}

/// Which page is asked for; none is the first.
struct Cursor(Option<String>);

impl Cursor {
    fn params(&self) -> Option<PaginatedRequestParams> {
        let cursor = self.0.clone()?;
        Some(PaginatedRequestParams::default().with_cursor(Some(cursor)))
    }
}

/// The entries of a listing, page by page, within the limits.
struct Pages<T> {
    entries: Vec<T>,
    entries_max: usize,
    pages_left: usize,
    /// The page to ask for next.
    next: Option<Cursor>,
}

impl<T> Pages<T> {
    fn new(entries_max: usize) -> Self {
        let next = Some(Cursor(None));
        Self { entries: Vec::new(), entries_max, pages_left: PAGES_MAX, next }
    }

    fn take(&mut self, asked: &Cursor, page: Vec<T>, next: Option<String>) {
        let room = self.entries_max - self.entries.len();
        self.entries.extend(page.into_iter().take(room));
        self.pages_left -= 1;
        let goes_on = next.is_some() && next != asked.0;
        let has_room = self.entries.len() < self.entries_max && self.pages_left > 0;
        self.next = (goes_on && has_room).then_some(Cursor(next));
    }
}
