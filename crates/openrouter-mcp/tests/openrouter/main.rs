//! `openrouter-mcp` as a process, between MCP clients and a server in OpenRouter's place.

#![expect(clippy::unwrap_used, reason = "test code")]

mod answers;
mod hostile;
mod process;
mod support;
mod upstream;
