//! Arguments of calls, of whatever form a model wrote them in.

use serde_json::Value;

use crate::dialect::LoweredTool;
use crate::message::CallArguments;

/// Longest text of a model that is shown to it again where it is not JSON, in characters.
const SHOWN_CHARS_MAX: usize = 4_000;

/// Arguments that are an object, for this tool; `None` where the model was not told of such a tool.
pub(crate) fn raised(object: Value, tool: Option<&LoweredTool>) -> CallArguments {
    let value = match tool {
        Some(tool) => tool.raise(object),
        None => object,
    };
    CallArguments::Json { value }
}

/// Arguments of which there is only the beginning.
pub(crate) fn cut_off(text: &str) -> CallArguments {
    unreadable(text, "they were cut off: the answer had as many tokens as it may have")
}

/// Arguments that cannot be used.
pub(crate) fn unreadable(text: &str, problem: &str) -> CallArguments {
    let text = text.chars().take(SHOWN_CHARS_MAX).collect();
    CallArguments::NotJson { text, problem: problem.to_owned() }
}
