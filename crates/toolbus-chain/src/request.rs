//! What a chain asks of its host, as `prelude.py` writes it.

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A request of a chain.
#[derive(Debug)]
pub(crate) enum Request {
    /// Says that the program starts.
    Started,
    /// The names of the tools that there are.
    Names,
    /// Calls a tool.
    Call {
        /// Its name.
        tool: String,
        /// Its arguments.
        arguments: Map<String, Value>,
    },
    /// Sends the next piece of a file that becomes an artifact.
    Put(Put),
    /// Reads a piece of an artifact.
    Read {
        /// Its reference.
        artifact: String,
        /// Where the piece begins, in bytes.
        offset: u64,
        /// How long it is at most, in bytes.
        length: u64,
    },
}

/// A piece of a file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Put {
    /// What tells the file from others that are sent at the same time.
    #[serde(rename = "put")]
    pub(crate) upload: String,
    /// What the file is called.
    #[serde(default)]
    pub(crate) name: String,
    /// What it is, where the chain says so.
    #[serde(default)]
    pub(crate) media_type: Option<String>,
    /// The piece, in base64.
    pub(crate) data: String,
    /// Whether it is the last.
    pub(crate) last: bool,
}

#[derive(Deserialize)]
struct Call {
    call: String,
    arguments: Map<String, Value>,
}

#[derive(Deserialize)]
struct Read {
    read: String,
    offset: u64,
    length: u64,
}

/// A request that makes no sense. Only a script that does not use the prelude sends one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no request of a chain: it has one of `started`, `names`, `call`, `put`, `read`")]
pub(crate) struct Malformed;

impl Request {
    /// Reads a request.
    pub(crate) fn parse(request: Value) -> Result<Self, Malformed> {
        let has = |name: &str| request.get(name).is_some();
        if has("call") {
            let Call { call, arguments } = read(request)?;
            return Ok(Self::Call { tool: call, arguments });
        }
        if has("put") {
            return Ok(Self::Put(read(request)?));
        }
        if has("read") {
            let Read { read: artifact, offset, length } = read(request)?;
            return Ok(Self::Read { artifact, offset, length });
        }
        if has("started") {
            return Ok(Self::Started);
        }
        if has("names") { Ok(Self::Names) } else { Err(Malformed) }
    }
}

fn read<T: serde::de::DeserializeOwned>(request: Value) -> Result<T, Malformed> {
    serde_json::from_value(request).map_err(|_| Malformed)
}

/// The response to a request that failed.
pub(crate) fn error_response(code: &str, message: &str) -> Value {
    json!({"error": {"code": code, "message": message}})
}

#[cfg(test)]
mod tests;
