//! Prompts and resources of the servers of a pool.

use std::convert::Infallible;

use serde_json::{Map, Value};
use toolbus_bus::Progress;
use toolbus_wire::json::RawJson;
use toolbus_wire::message::mcp::{
    McpGetPromptResponse, McpListResourcesResponse, McpReadResourceResponse,
};

use super::ServerPool;
use crate::call::CallError;
use crate::lookup::{Lookup, ReadRequest, ReadResponse, clean_page};
use crate::method::Method;

impl ServerPool {
    /// Gets a prompt of a server, filled in.
    ///
    /// # Errors
    /// When there is none; see [`CallError`].
    pub async fn prompt(
        &self,
        lookup: Lookup,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<McpGetPromptResponse, CallError> {
        match self.read(lookup, ReadRequest::Prompt { name: name.to_owned(), arguments }).await? {
            ReadResponse::Prompt(prompt) => Ok(prompt),
            _ => Err(unexpected_response()),
        }
    }

    /// Lists one page of a server's resources, with the first page its templates.
    ///
    /// # Errors
    /// When there is none; see [`CallError`].
    pub async fn resources(
        &self,
        lookup: Lookup,
        cursor: Option<String>,
    ) -> Result<McpListResourcesResponse, CallError> {
        match self.read(lookup, ReadRequest::Resources { cursor }).await? {
            ReadResponse::Resources(page) => Ok(page),
            _ => Err(unexpected_response()),
        }
    }

    /// Reads a resource of a server.
    ///
    /// # Errors
    /// When it cannot be read; see [`CallError`].
    pub async fn resource(
        &self,
        lookup: Lookup,
        uri: &str,
    ) -> Result<McpReadResourceResponse, CallError> {
        match self.read(lookup, ReadRequest::Resource { uri: uri.to_owned() }).await? {
            ReadResponse::Resource(contents) => Ok(contents),
            _ => Err(unexpected_response()),
        }
    }

    /// Reports changes of a server's resources as progress, for as long as the lookup lasts. The
    /// first progress says that they are subscribed to.
    ///
    /// # Errors
    /// Why it has ended.
    pub async fn subscribe(
        &self,
        lookup: Lookup,
        uris: &[String],
        progress: &Progress,
    ) -> Result<Infallible, CallError> {
        let server = self.shared_router().find_read_server(&lookup)?;
        let server = server.session_of(&lookup.caller)?;
        server.watch_resources(lookup, uris, progress).await
    }

    /// Makes a request that only reads, and returns the result as the server wrote it.
    ///
    /// # Errors
    /// When there is none; see [`CallError`].
    pub async fn relay_read(
        &self,
        lookup: Lookup,
        method: Method,
        params: RawJson,
    ) -> Result<RawJson, CallError> {
        match self.read(lookup, ReadRequest::Relay(method, params)).await? {
            ReadResponse::Relay(page)
                if matches!(method, Method::ListResources | Method::ListResourceTemplates) =>
            {
                clean_page(page).map_err(|error| CallError::Failed {
                    message: format!("the list of resources cannot be used: {error}"),
                    server_error: None,
                    retry_after: None,
                })
            }
            ReadResponse::Relay(result) => Ok(result),
            _ => Err(unexpected_response()),
        }
    }

    async fn read(&self, lookup: Lookup, request: ReadRequest) -> Result<ReadResponse, CallError> {
        let server = self.shared_router().find_read_server(&lookup)?;
        let server = server.session_of(&lookup.caller)?;
        server.read(lookup, &request).await
    }
}

fn unexpected_response() -> CallError {
    CallError::Failed {
        message: "the server answered something else".to_owned(),
        server_error: None,
        retry_after: None,
    }
}
