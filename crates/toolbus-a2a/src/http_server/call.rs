//! A request as JSON-RPC has it: who asks for what, and the checks that every method has.

use axum::http::HeaderMap;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toolbus_json::Limits;
use toolbus_tools::Principal;
use toolbus_tools::id::ID_BYTES_MAX;

use super::HTTP_BODY_BYTES_MAX;
use crate::TaskLineage;
use crate::http_rows::caller_of;
use crate::protocol::{
    ErrorKind, HTTP_DEPTH_HEADER, HTTP_DOORS_HEADER, Method, RpcError, VERSION_HEADER, Version,
};
use crate::received::TaskKey;

/// What a request may have.
const REQUEST_LIMITS: Limits = Limits::of_bytes(HTTP_BODY_BYTES_MAX);

/// A request of a client.
pub(super) struct Call {
    /// What its answer is known by.
    pub(super) id: Value,
    pub(super) method: Method,
    pub(super) version: Version,
    pub(super) caller: String,
    /// How many agents and scopes it has come through.
    pub(super) lineage: TaskLineage,
    params: Value,
}

impl Call {
    /// Reads a request, or says why it is none, and to which one that is the answer.
    pub(super) fn read(
        body: &[u8],
        headers: &HeaderMap,
        client: &Principal,
    ) -> Result<Self, (Value, RpcError)> {
        let invalid = |what: &str| RpcError::new(ErrorKind::InvalidRequest, what);
        let read = toolbus_json::from_slice(body, &REQUEST_LIMITS);
        let mut body: Value = read.map_err(|error| {
            (Value::Null, RpcError::new(ErrorKind::Parse, format!("the body is no JSON: {error}")))
        })?;
        let Some(members) = body.as_object_mut() else {
            return Err((Value::Null, invalid("a request is one object")));
        };

        let id = members.remove("id").unwrap_or_default();
        if !matches!(id, Value::Null | Value::String(_) | Value::Number(_)) {
            return Err((Value::Null, invalid("an id is a text or a number")));
        }
        if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err((id, invalid("jsonrpc is \"2.0\"")));
        }
        let params = members.remove("params").unwrap_or_else(|| Value::Object(Default::default()));
        let read = || {
            let name = members.get("method").and_then(Value::as_str);
            let name = name.ok_or_else(|| invalid("a request names a method"))?;
            let (method, version) = Method::parse(name).ok_or_else(|| {
                RpcError::new(ErrorKind::MethodNotFound, "the agent has no such method")
            })?;
            check_version(headers, version)?;
            if !params.is_object() {
                return Err(RpcError::invalid_params("params are an object"));
            }
            let lineage = read_lineage(headers)?;
            Ok((method, version, lineage))
        };
        match read() {
            Ok((method, version, lineage)) => {
                Ok(Self { id, method, version, caller: caller_of(client), lineage, params })
            }
            Err(error) => Err((id, error)),
        }
    }

    pub(super) fn params<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        let read = T::deserialize(&self.params);
        read.map_err(|error| RpcError::invalid_params(format!("the params make no sense: {error}")))
    }

    /// The task of this id of the client. What can be no id is that of no task.
    pub(super) fn key(&self, id: &str) -> Result<TaskKey, RpcError> {
        if !is_id(id) {
            return Err(RpcError::not_found());
        }
        Ok(TaskKey { caller: self.caller.clone(), id: id.to_owned() })
    }
}

pub(super) fn is_id(text: &str) -> bool {
    (1..=ID_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// A request that names no version means 0.3.
fn check_version(headers: &HeaderMap, version: Version) -> Result<(), RpcError> {
    let named = match headers.get(VERSION_HEADER) {
        Some(named) => named.to_str().unwrap_or("?"),
        None => "",
    };
    if Version::parse(named) == Some(version) {
        return Ok(());
    }
    let named: String = named.chars().take(20).collect();
    let what = format!(
        "this method is of version {} of the protocol, and the header A2A-Version says '{named}'",
        version.as_str()
    );
    Err(RpcError::new(ErrorKind::VersionNotSupported, what))
}

fn read_lineage(headers: &HeaderMap) -> Result<TaskLineage, RpcError> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("not a text"));
    let lineage = TaskLineage::read(text(HTTP_DEPTH_HEADER), text(HTTP_DOORS_HEADER));
    lineage.map_err(|error| RpcError::new(ErrorKind::InvalidRequest, error.to_string()))
}
