//! Names of protocol methods, which no tool of a server has: `mcp:SERVER/resources/read` is the
//! subject of reads, and the rules for it must not cover a tool.

/// The requests of clients that have a `/` in their names. Every subject of a read is one of them.
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

/// Returns true if a tool of this name has the subject of a protocol method. Case is ignored, and
/// so are control characters, which ids leave out.
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
