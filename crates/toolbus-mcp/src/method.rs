//! The methods of MCP that are requested of servers for callers.

use serde::de::DeserializeOwned;
use toolbus_bus::port::BODY_BYTES_MAX;
use toolbus_json::Limits;
use toolbus_tools::call::ARGUMENTS_VALUES_MAX;
use toolbus_wire::json::RawJson;

/// What the params of a request may have: the largest arguments, and what is around them.
const PARAMS_LIMITS: Limits =
    Limits::of_bytes(BODY_BYTES_MAX).with_values(ARGUMENTS_VALUES_MAX + 4_096);

/// A method of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Calls a tool.
    CallTool,
    /// Gets a prompt, filled in.
    GetPrompt,
    /// Reads a resource.
    ReadResource,
    /// Lists resources, page by page.
    ListResources,
    /// Lists templates of resources, page by page.
    ListResourceTemplates,
    /// Proposes values for an argument that was begun.
    Complete,
}

impl Method {
    const ALL: [Self; 6] = [
        Self::CallTool,
        Self::GetPrompt,
        Self::ReadResource,
        Self::ListResources,
        Self::ListResourceTemplates,
        Self::Complete,
    ];

    /// The method of this name; `None` where it is none that callers may request.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// Its name in the protocol.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CallTool => "tools/call",
            Self::GetPrompt => "prompts/get",
            Self::ReadResource => "resources/read",
            Self::ListResources => "resources/list",
            Self::ListResourceTemplates => "resources/templates/list",
            Self::Complete => "completion/complete",
        }
    }
}

/// Reads the params of a request, without the meta of its caller, which is merged into what is
/// sent.
///
/// # Errors
/// When they are none of this type, or exceed a limit.
pub(crate) fn read_params<P: DeserializeOwned>(params: &RawJson) -> Result<P, toolbus_json::Error> {
    toolbus_json::from_str(params.with_member("_meta", None).text(), &PARAMS_LIMITS)
}
