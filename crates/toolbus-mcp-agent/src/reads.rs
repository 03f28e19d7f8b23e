//! What servers offer beside tools, for front doors: prompts and resources, asked of the bridge
//! now.
//!
//! The tools of models ask for the same, see [`crate::offers`]; here the answers stay typed.

use std::time::Duration;

use toolbus_tools::call::CallError;
use toolbus_tools::invoker::ReadContext;
use toolbus_wire::Message;
use toolbus_wire::message::mcp::{
    McpCompleteRequest, McpCompleteResponse, McpGetPromptRequest, McpGetPromptResponse,
    McpListResourcesRequest, McpListResourcesResponse, McpReadResourceRequest,
    McpReadResourceResponse,
};

use crate::directory::McpDirectory;
pub use crate::manage::TIMEOUT as READ_TIMEOUT;
use crate::manage::{ask, check_answer};

/// How long a read may take for which somebody may be asked something first.
pub const READ_WITH_QUESTIONS_TIMEOUT: Duration = Duration::from_secs(120);

impl McpDirectory {
    /// A prompt of a server, filled in.
    ///
    /// # Errors
    /// When no bridge answers in time, or the server does not give it.
    pub async fn prompt(
        &self,
        wanted: &McpGetPromptRequest,
        context: ReadContext,
    ) -> Result<McpGetPromptResponse, CallError> {
        let answer: McpGetPromptResponse = self.look_up(wanted, context).await?;
        check_answer(&answer)?;
        Ok(answer)
    }

    /// One page of a server's resources, with the first page its templates.
    ///
    /// # Errors
    /// When no bridge answers in time, or the server does not list them.
    pub async fn resources(
        &self,
        wanted: &McpListResourcesRequest,
        context: ReadContext,
    ) -> Result<McpListResourcesResponse, CallError> {
        let answer: McpListResourcesResponse = self.look_up(wanted, context).await?;
        check_answer(&answer)?;
        Ok(answer)
    }

    /// The contents of a server's resource.
    ///
    /// # Errors
    /// When no bridge answers in time, or the server does not let it be read.
    pub async fn resource(
        &self,
        wanted: &McpReadResourceRequest,
        context: ReadContext,
    ) -> Result<McpReadResourceResponse, CallError> {
        let answer: McpReadResourceResponse = self.look_up(wanted, context).await?;
        check_answer(&answer)?;
        Ok(answer)
    }

    /// What a server proposes for an argument of a prompt or a place of a resource template.
    ///
    /// # Errors
    /// When no bridge answers in time, or the server does not complete arguments.
    pub async fn complete(
        &self,
        wanted: &McpCompleteRequest,
        context: ReadContext,
    ) -> Result<McpCompleteResponse, CallError> {
        let answer: McpCompleteResponse = self.look_up(wanted, context).await?;
        check_answer(&answer)?;
        Ok(answer)
    }

    async fn look_up<Q: Message, A: Message>(
        &self,
        question: &Q,
        context: ReadContext,
    ) -> Result<A, CallError> {
        let timed_out = || "no bridge answers for this MCP server in time".to_owned();
        let ReadContext { call, permit, .. } = context;
        ask(&self.inner.requester, question, call, Some(&permit), timed_out).await
    }
}
