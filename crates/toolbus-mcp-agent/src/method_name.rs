//! Names of protocol methods, which tools of servers must not have: `mcp:SERVER/resources/read` is
//! the subject of reads, and rules for it must not apply to a tool.

/// Client requests with a `/` in their names. Every subject of a read is one of them.
const METHODS: [&str; 11] = [
    "completion/complete",
    "logging/setLevel",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "tools/call",
    "tools/list",
];

/// Returns true if a tool with this name would have the subject of a protocol method. Ignores case,
/// and control characters, which ids leave out.
#[must_use]
pub fn is_method_name(tool: &str) -> bool {
    METHODS.into_iter().any(|method| {
        let visible = tool.chars().filter(|c| !c.is_control());
        let folded = visible.map(|c| c.to_ascii_lowercase());
        folded.eq(method.chars().map(|c| c.to_ascii_lowercase()))
    })
}

#[cfg(test)]
mod tests;
