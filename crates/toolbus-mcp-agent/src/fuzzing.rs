//! The parsers of this crate as targets of a fuzzer.

use std::collections::HashSet;

use serde_json::Value;
use toolbus_json::from_slice;
use toolbus_tools::call::ARGUMENTS_LIMITS;
use toolbus_wire::json;
use toolbus_wire::message::mcp::McpServersIndexed;

use crate::index::Index;
use crate::resolve::{read_object, resolve_call, resolve_read};

/// Takes an announcement of servers in, which ends with the first line or the first byte 0, and
/// finds what the arguments behind it name. Asserts that no server is known twice, and that names
/// which were made exact stay what they are.
pub fn names(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| matches!(byte, 0 | b'\n'));
    let index = Index::default();
    if let Ok(announcement) = json::read::<McpServersIndexed>(parts.next().unwrap_or_default()) {
        index.apply(announcement.clone(), |_| ());
        index.begin_generation();
        index.apply(announcement, |_| ());
        index.sweep_unconfirmed();
    }

    let servers = index.servers();
    let names = servers.iter().map(|server| server.server_name.to_ascii_lowercase());
    assert_eq!(names.collect::<HashSet<_>>().len(), servers.len());
    assert_eq!(index.list_indexed().0.len(), servers.len());
    for server in servers.iter() {
        let _ = (index.is_away(&server.server_name), index.request_topic(&server.server_name));
    }

    let arguments = from_slice(parts.next().unwrap_or_default(), &ARGUMENTS_LIMITS);
    let mut arguments: Value = arguments.unwrap_or_default();
    read_object(&mut arguments);
    let Value::Object(mut arguments) = arguments else { return };
    let _ = resolve_read(&servers, &mut arguments.clone(), "resources/read");
    let subject = resolve_call(&servers, &mut arguments);
    // A call in a call is taken out a few times, and what is left in it then is not exact.
    if !matches!(arguments.get("tool_name").and_then(Value::as_str), Some(NESTED | NESTED_SHORT)) {
        let exact = arguments.clone();
        assert_eq!(resolve_call(&servers, &mut arguments), subject);
        assert_eq!(arguments, exact);
    }
}

/// What a call is named that has another one in it.
const NESTED: &str = "mcp_invoke_tool";
const NESTED_SHORT: &str = "invoke_tool";
