//! What servers offer beside tools, for front doors: prompts and resources, asked of the bridge now.
//!
//! The tools of models ask for the same, see [`crate::offers`]; here the answers stay typed.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolbus_bus::{Asker, Deadline};
use toolbus_tools::call::CallError;
use toolbus_wire::Message;
use toolbus_wire::message::mcp::{
    McpCompleteRequest, McpCompleteResponse, McpGetPromptRequest, McpGetPromptResponse,
    McpListResourcesRequest, McpListResourcesResponse, McpReadResourceRequest,
    McpReadResourceResponse,
};

use crate::directory::McpDirectory;
use crate::manage::{self, Limits, ask};

/// How long an answer may take that somebody may be asked for first.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

impl McpDirectory {
    /// A prompt of a server, filled in. `cancelled` fires when nobody wants it any more; `asker`
    /// answers what the server asks first.
    ///
    /// # Errors
    /// When no bridge answers in time, or the server does not give it.
    pub async fn prompt(
        &self,
        wanted: &McpGetPromptRequest,
        cancelled: &CancellationToken,
        asker: &Asker,
    ) -> Result<McpGetPromptResponse, CallError> {
        let answer: McpGetPromptResponse = self.look_up(wanted, cancelled, asker).await?;
        refused(answer.error.as_deref())?;
        Ok(answer)
    }

    /// One page of a server's resources, with the first page its templates.
    ///
    /// # Errors
    /// When no bridge answers in time, or the server does not list them.
    pub async fn resources(
        &self,
        wanted: &McpListResourcesRequest,
        cancelled: &CancellationToken,
    ) -> Result<McpListResourcesResponse, CallError> {
        let nobody = &Asker::none();
        let answer: McpListResourcesResponse = self.look_up(wanted, cancelled, nobody).await?;
        refused(answer.error.as_deref())?;
        Ok(answer)
    }

    /// The contents of a server's resource. `asker` answers what the server asks first.
    ///
    /// # Errors
    /// When no bridge answers in time, or the server does not let it be read.
    pub async fn resource(
        &self,
        wanted: &McpReadResourceRequest,
        cancelled: &CancellationToken,
        asker: &Asker,
    ) -> Result<McpReadResourceResponse, CallError> {
        let answer: McpReadResourceResponse = self.look_up(wanted, cancelled, asker).await?;
        refused(answer.error.as_deref())?;
        Ok(answer)
    }

    /// What a server proposes for an argument of a prompt or a place of a resource template.
    ///
    /// # Errors
    /// When no bridge answers in time, or the server does not complete arguments.
    pub async fn complete(
        &self,
        wanted: &McpCompleteRequest,
        cancelled: &CancellationToken,
    ) -> Result<McpCompleteResponse, CallError> {
        let nobody = &Asker::none();
        let answer: McpCompleteResponse = self.look_up(wanted, cancelled, nobody).await?;
        refused(answer.error.as_deref())?;
        Ok(answer)
    }

    async fn look_up<Q: Message, A: Message>(
        &self,
        question: &Q,
        cancelled: &CancellationToken,
        asker: &Asker,
    ) -> Result<A, CallError> {
        let time = if asker.is_there() { ANSWER_TIMEOUT } else { manage::TIMEOUT };
        let limits = Limits { deadline: Deadline::after(time), cancelled, asker: asker.clone() };
        let timed_out = || "no bridge answers for this MCP server in time".to_owned();
        ask(&self.inner.requester, question, limits, timed_out).await
    }
}

/// What the bridge says instead of an answer.
fn refused(error: Option<&str>) -> Result<(), CallError> {
    error.map_or(Ok(()), |error| Err(CallError::execution_failed(error)))
}
