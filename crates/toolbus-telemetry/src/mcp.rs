//! Requests of the Model Context Protocol, by OpenTelemetry's names
//! (<https://github.com/open-telemetry/semantic-conventions-genai>): what those who ask and those
//! who answer say alike, and the record of those who answer.
//!
//! The context of the span of whoever asks goes along in the `_meta` of its request (SEP-414), and
//! the span of whoever answers is its child. What others make up (names of tools that nobody lists,
//! ids of requests) is in spans, shortened, and in no metric; no argument or result is in either.

mod about;
mod labels;
mod meta;
mod server;

use crate::{CALL_SECONDS, Kind, Metric, Span, SpanKind};

pub use about::{About, SpanName};
pub use labels::{Labels, Tags};
pub use meta::Meta;
pub use server::{Failure, Operation, Recorder, Session, Transport};

/// The name that the operator has given an MCP server of the fleet.
pub const SERVER: &str = "toolbus.mcp.server";
/// The method of a request.
pub const METHOD: &str = "mcp.method.name";
/// The revision of the protocol.
pub const PROTOCOL: &str = "mcp.protocol.version";
/// The id of a session, which only the older era has. In spans alone, and in no log: whoever has it
/// may speak in the session.
pub const SESSION: &str = "mcp.session.id";
/// The address of a resource, without what follows its path.
pub const RESOURCE: &str = "mcp.resource.uri";
/// [`EXECUTE_TOOL`], where a tool is called.
pub const OPERATION: &str = "gen_ai.operation.name";
/// The name of a tool.
pub const TOOL: &str = "gen_ai.tool.name";
/// The name of a prompt.
pub const PROMPT: &str = "gen_ai.prompt.name";
/// Why there is no result, or one that tells of an error.
pub const ERROR: &str = "error.type";
/// The code of an error of JSON-RPC.
pub const STATUS: &str = "rpc.response.status_code";
/// The id of a request.
pub const REQUEST: &str = "jsonrpc.request.id";
/// `pipe` or `tcp`.
pub const TRANSPORT: &str = "network.transport";
/// The name or address of a server.
pub const ADDRESS: &str = "server.address";
/// The port of a server.
pub const PORT: &str = "server.port";

/// What a call of a tool is to OpenTelemetry.
pub const EXECUTE_TOOL: &str = "execute_tool";
/// The error of a result that says by itself that it is one.
pub const TOOL_ERROR: &str = "tool_error";

/// How long requests of clients took.
pub const SERVER_OPERATION_DURATION: Metric = Metric {
    name: "mcp.server.operation.duration",
    kind: Kind::Histogram(CALL_SECONDS),
    unit: "s",
    description: "How long requests of MCP clients took, of a subscription as long as it was held; a \
                  tool that is not listed has no name; with the server at whose path of the face it \
                  was",
    attributes: &[SERVER, TRANSPORT, METHOD, PROTOCOL, OPERATION, TOOL, ERROR, STATUS],
};
/// How long sessions of clients lasted.
pub const SERVER_SESSION_DURATION: Metric = Metric {
    name: "mcp.server.session.duration",
    kind: Kind::Histogram(CALL_SECONDS),
    unit: "s",
    description: "How long sessions of MCP clients lasted, which only those up to 2025-11-25 have",
    attributes: &[SERVER, TRANSPORT, PROTOCOL],
};

/// The metrics of those who answer MCP clients.
pub const METRICS: &[Metric] = &[SERVER_OPERATION_DURATION, SERVER_SESSION_DURATION];

/// The spans of those who answer MCP clients.
pub const SPANS: &[Span] = &[
    Span {
        name: "tools/call {tool}",
        kind: SpanKind::Server,
        description: "A call of a tool by an MCP client; the parent is the span that the client \
                      names in `_meta`. Without the tool where it is not listed",
        attributes: &[
            SERVER, TRANSPORT, METHOD, PROTOCOL, SESSION, REQUEST, OPERATION, TOOL, ERROR, STATUS,
        ],
    },
    Span {
        name: "{method}",
        kind: SpanKind::Server,
        description: "Any other request of an MCP client, such as `tools/list` or `prompts/get`",
        attributes: &[
            SERVER, TRANSPORT, METHOD, PROTOCOL, SESSION, REQUEST, PROMPT, RESOURCE, ERROR, STATUS,
        ],
    },
];
