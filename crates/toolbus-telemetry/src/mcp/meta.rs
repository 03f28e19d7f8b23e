//! `_meta` of a request, where MCP has the context of a trace.

use opentelemetry::propagation::{Extractor, Injector};
use serde_json::{Map, Value};

/// Longest piece of a context that is taken from others, in bytes: what everybody has to take by
/// W3C's rules. It goes on with every message that the request makes.
const PIECE_BYTES_MAX: usize = 512;

/// Reads or writes the context of a trace.
#[derive(Debug)]
pub struct Meta<T>(pub T);

impl Injector for Meta<&mut Map<String, Value>> {
    fn set(&mut self, key: &str, value: String) {
        // An empty `tracestate` says nothing.
        if !value.is_empty() {
            self.0.insert(key.to_owned(), Value::from(value));
        }
    }
}

impl Extractor for Meta<&Map<String, Value>> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str().filter(|piece| piece.len() <= PIECE_BYTES_MAX)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}
