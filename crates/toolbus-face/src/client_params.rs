//! The params of a request as its client wrote them, which rmcp has read into its types.

use axum::http::request::Parts;
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use toolbus_wire::json::RawJson;

/// The params of the message in the body of an HTTP request.
#[derive(Clone)]
pub(crate) struct ClientParams(RawJson);

impl ClientParams {
    /// Those of a message; `None` where it has none, or is no message. rmcp reads the body once
    /// more and shows its text to nobody: this reading keeps nothing but the text of the params.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        RawJson::member_of(body, "params").map(Self)
    }

    /// Those of the HTTP request that a request came with, else none.
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> RawJson {
        let parts = context.extensions.get::<Parts>();
        let params = parts.and_then(|parts| parts.extensions.get::<Self>());
        params.map_or_else(|| RawJson::of(&serde_json::json!({})), |params| params.0.clone())
    }
}
