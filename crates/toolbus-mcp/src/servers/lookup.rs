//! Prompts and resources of the servers of a set.

use std::convert::Infallible;

use serde_json::{Map, Value};
use toolbus_bus::Progress;
use toolbus_wire::message::mcp::{
    McpCompleteRequest, McpCompleteResponse, McpGetPromptResponse, McpListResourcesResponse,
    McpReadResourceResponse,
};

use super::Set;
use crate::call::CallError;
use crate::lookup::{Found, Lookup, Wanted};

impl Set {
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
        match self.look_up(lookup, Wanted::Prompt { name: name.to_owned(), arguments }).await? {
            Found::Prompt(prompt) => Ok(prompt),
            _ => Err(other_answer()),
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
        match self.look_up(lookup, Wanted::Resources { cursor }).await? {
            Found::Resources(page) => Ok(page),
            _ => Err(other_answer()),
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
        match self.look_up(lookup, Wanted::Resource { uri: uri.to_owned() }).await? {
            Found::Resource(contents) => Ok(contents),
            _ => Err(other_answer()),
        }
    }

    /// What a server proposes for an argument.
    ///
    /// # Errors
    /// When it proposes nothing, not even no value; see [`CallError`].
    pub async fn complete(
        &self,
        lookup: Lookup,
        wanted: McpCompleteRequest,
    ) -> Result<McpCompleteResponse, CallError> {
        match self.look_up(lookup, Wanted::Completion(wanted)).await? {
            Found::Completion(completion) => Ok(completion),
            _ => Err(other_answer()),
        }
    }

    /// Tells of changes of a server's resources as progress, for as long as the lookup lasts. The
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
        let server = self.route(Some(&lookup.server), "resources/subscribe")?.server;
        server.subscribe(lookup, uris, progress).await
    }

    async fn look_up(&self, lookup: Lookup, wanted: Wanted) -> Result<Found, CallError> {
        let server = self.route(Some(&lookup.server), wanted.method())?.server;
        server.look_up(lookup, &wanted).await
    }
}

fn other_answer() -> CallError {
    CallError::Failed { message: "the server answered something else".to_owned() }
}
