//! OpenAPI documents (3.0 and 3.1) as endpoints.
//!
//! Parameters of the path and the query become arguments of their names, and a body of JSON the
//! argument `body`. References within the document are followed, as deep and as often as bounds
//! allow; others, and circles, are refused. An operation that cannot be called so is an error that
//! names it: none is offered that fails each time.
//!
//! No operation says where a credential goes: all that have one are at one origin, that of the
//! settings or, for a file, of the document's first server.

mod schema;

use std::collections::{BTreeMap, HashSet};

use reqwest::Url;
use serde_json::{Map, Value, json};
use toolbus_config::ConfiguredAddress;

use super::settings::{AuthType, OpenApiDocument, RestEndpoint, RestMethod};
use super::template::{TEMPLATE_BYTES_MAX, origin_of};
use schema::{Resolver, shown};

/// Most operations that are imported from one document.
const OPERATIONS_MAX: usize = 500;
/// Most parameters of one operation.
const PARAMETERS_MAX: usize = 500;
/// Longest address of a server, in bytes.
const SERVER_BYTES_MAX: usize = 2_000;
/// Most variables of such an address; others are not looked at.
const SERVER_VARIABLES_MAX: usize = 50;
/// Longest name of a tool that is made of an operation, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Longest description, in characters.
const DESCRIPTION_CHARS_MAX: usize = 1_000;
const METHODS: [(&str, RestMethod); 6] = [
    ("get", RestMethod::Get),
    ("head", RestMethod::Head),
    ("post", RestMethod::Post),
    ("put", RestMethod::Put),
    ("patch", RestMethod::Patch),
    ("delete", RestMethod::Delete),
];

/// Why a document is not imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// It is none, or of another version.
    #[error("the document is not one of OpenAPI 3")]
    Version,
    /// It does not say where the API is.
    #[error("the document names no server that can be used: {0}")]
    Server(String),
    /// It has no such operation.
    #[error("the document has no operation '{0}'")]
    UnknownOperation(String),
    /// There are too many.
    #[error("the document has more than {OPERATIONS_MAX} operations: choose some")]
    TooMany,
    /// An operation cannot be called.
    #[error("the operation '{operation}' cannot be imported: {problem}")]
    Operation {
        /// Which.
        operation: String,
        /// Why.
        problem: String,
    },
}

/// An operation as it stands in the document.
struct Operation<'a> {
    id: String,
    path: &'a str,
    method: RestMethod,
    item: &'a Map<String, Value>,
    value: &'a Map<String, Value>,
}

/// A parameter, as far as it matters.
struct Parameter {
    name: String,
    place: Place,
    is_required: bool,
    schema: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Path,
    Query { is_exploded: bool },
}

/// Makes endpoints of the operations of a document, as its settings say.
///
/// # Errors
/// Why one cannot be made.
pub fn import(
    document: &Value,
    settings: &OpenApiDocument,
) -> Result<Vec<RestEndpoint>, ImportError> {
    let version = document.get("openapi").and_then(Value::as_str).unwrap_or_default();
    if !version.starts_with("3.") {
        return Err(ImportError::Version);
    }
    let operations = chosen(find_operations(document), settings.operations.as_deref())?;
    if operations.len() > OPERATIONS_MAX {
        return Err(ImportError::TooMany);
    }

    let origin = only_origin(document, settings)?;
    let mut names = HashSet::new();
    let mut endpoints = Vec::new();
    for operation in &operations {
        let mut endpoint = endpoint_of(document, operation, settings, origin.as_deref())?;
        let name = endpoint.name.clone();
        let mut number = 2;
        while !names.insert(endpoint.name.clone()) {
            endpoint.name = format!("{name}_{number}");
            number += 1;
        }
        endpoints.push(endpoint);
    }
    Ok(endpoints)
}

fn find_operations(document: &Value) -> Vec<Operation<'_>> {
    let mut operations = Vec::new();
    let paths = document.get("paths").and_then(Value::as_object);
    for (path, item) in paths.into_iter().flatten() {
        let Some(item) = item.as_object() else { continue };
        for (key, method) in METHODS {
            let Some(value) = item.get(key).and_then(Value::as_object) else { continue };
            let id = value.get("operationId").and_then(Value::as_str).filter(|id| !id.is_empty());
            let id =
                id.map_or_else(|| format!("{} {path}", key.to_ascii_uppercase()), str::to_owned);
            operations.push(Operation { id, path, method, item, value });
        }
    }
    operations
}

fn chosen<'a>(
    all: Vec<Operation<'a>>,
    wanted: Option<&[String]>,
) -> Result<Vec<Operation<'a>>, ImportError> {
    let Some(wanted) = wanted else { return Ok(all) };
    let mut by_id: BTreeMap<String, Operation<'a>> = BTreeMap::new();
    for operation in all {
        by_id.entry(operation.id.clone()).or_insert(operation);
    }
    let found = wanted
        .iter()
        .map(|id| by_id.remove(id).ok_or_else(|| ImportError::UnknownOperation(id.clone())));
    found.collect()
}

fn endpoint_of(
    document: &Value,
    operation: &Operation<'_>,
    settings: &OpenApiDocument,
    origin: Option<&str>,
) -> Result<RestEndpoint, ImportError> {
    let wrong = |problem: String| ImportError::Operation {
        operation: operation.id.chars().take(200).collect(),
        problem,
    };
    let mut resolver = Resolver::new(document);
    let parameters = parameters_of(operation, &mut resolver).map_err(wrong)?;
    let body = match operation.method.has_body() {
        true => body_of(operation, &mut resolver).map_err(wrong)?,
        false => None,
    };

    let mut properties = Map::new();
    let mut required = Vec::new();
    for parameter in &parameters {
        if properties.insert(parameter.name.clone(), parameter.schema.clone()).is_some() {
            return Err(wrong(format!("it has two parameters {}", shown(&parameter.name))));
        }
        if parameter.is_required {
            required.push(parameter.name.clone());
        }
    }
    let body_argument = body.map(|(schema, is_required)| {
        let name = if properties.contains_key("body") { "request_body" } else { "body" };
        properties.insert(name.to_owned(), schema);
        if is_required {
            required.push(name.to_owned());
        }
        name.to_owned()
    });

    let schema = json!({"type": "object", "properties": properties, "required": required});
    let server = server_of(document, operation, settings)?;
    let url_template = template_of(&server, operation.path, &parameters).map_err(wrong)?;
    let endpoint = RestEndpoint {
        name: name_of(&settings.name_prefix, &operation.id),
        description: description_of(operation),
        url_template: url_template.into(),
        method: operation.method,
        parameters_schema: Some(schema.to_string()),
        auth_type: settings.auth_type,
        auth_env_var: settings.auth_env_var.clone(),
        auth_credential: settings.auth_credential.clone(),
        send_body_as_json: body_argument.is_some(),
        body_argument,
        api_key_header: settings.api_key_header.clone(),
        internal: settings.internal,
        document: Some(settings.name.clone()),
        origin: origin.map(str::to_owned),
        ..RestEndpoint::default()
    };
    endpoint.check().map_err(wrong)?;
    Ok(endpoint)
}

/// The parameters of an operation, its own in place of those of its path.
fn parameters_of(
    operation: &Operation<'_>,
    resolver: &mut Resolver<'_>,
) -> Result<Vec<Parameter>, String> {
    let mut found: Vec<Parameter> = Vec::new();
    for holder in [operation.item, operation.value] {
        let listed = holder.get("parameters").and_then(Value::as_array);
        for written in listed.into_iter().flatten() {
            let Some(parameter) = parameter_of(written, resolver)? else { continue };
            let is_same = |other: &Parameter| {
                other.name == parameter.name
                    && (other.place == Place::Path) == (parameter.place == Place::Path)
            };
            found.retain(|other| !is_same(other));
            if found.len() == PARAMETERS_MAX {
                return Err(format!("it has more than {PARAMETERS_MAX} parameters"));
            }
            found.push(parameter);
        }
    }
    Ok(found)
}

/// A parameter; `None` where it is not needed and cannot be given.
fn parameter_of(written: &Value, resolver: &mut Resolver<'_>) -> Result<Option<Parameter>, String> {
    let written = resolver.follow(written)?;
    let text = |key: &str| written.get(key).and_then(Value::as_str);
    let name = text("name").unwrap_or_default();
    let is_required = written.get("required").and_then(Value::as_bool).unwrap_or_default();
    let is_exploded = written.get("explode").and_then(Value::as_bool);

    let place = match (text("in").unwrap_or_default(), text("style")) {
        ("path", None | Some("simple")) => Some(Place::Path),
        ("query", None | Some("form")) => {
            Some(Place::Query { is_exploded: is_exploded.unwrap_or(true) })
        }
        _ => None,
    };
    let (Some(place), Some(schema)) = (place, written.get("schema")) else {
        let place: String = text("in").unwrap_or_default().chars().take(200).collect();
        return match is_required {
            true => Err(format!("its parameter {} in {place} cannot be given", shown(name))),
            false => Ok(None),
        };
    };

    let mut schema = resolver.resolve(schema)?;
    if let (Some(description), Value::Object(schema)) = (text("description"), &mut schema) {
        schema.insert("description".to_owned(), Value::String(shorten(description)));
    }
    resolver.take_text(name)?;
    let is_required = is_required || place == Place::Path;
    Ok(Some(Parameter { name: name.to_owned(), place, is_required, schema }))
}

/// The schema of the body, and whether it is needed.
fn body_of(
    operation: &Operation<'_>,
    resolver: &mut Resolver<'_>,
) -> Result<Option<(Value, bool)>, String> {
    let Some(written) = operation.value.get("requestBody") else { return Ok(None) };
    let written = resolver.follow(written)?;
    let is_required = written.get("required").and_then(Value::as_bool).unwrap_or_default();
    let contents = written.get("content").and_then(Value::as_object);
    let mut contents = contents.into_iter().flatten();
    let is_json = |media_type: &str| {
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        media_type.eq_ignore_ascii_case("application/json")
    };

    match contents.find(|(media_type, _)| is_json(media_type)) {
        Some((_, content)) => {
            let schema = match content.get("schema") {
                Some(schema) => resolver.resolve(schema)?,
                None => json!({}),
            };
            Ok(Some((schema, is_required)))
        }
        None if is_required => Err("its body is not of JSON".to_owned()),
        None => Ok(None),
    }
}

/// The only origin that requests may go to. `None`: no credential goes along, and each operation
/// says where it is.
fn only_origin(
    document: &Value,
    settings: &OpenApiDocument,
) -> Result<Option<String>, ImportError> {
    let server = match &settings.server {
        Some(server) => server.expose().to_owned(),
        None if settings.auth_type == AuthType::None => return Ok(None),
        None => read_server(first_server(document.get("servers")))?,
    };
    let url = Url::parse(&server);
    let url = url.map_err(|error| ImportError::Server(error.to_string()))?;
    Ok(Some(origin_of(&url)))
}

fn server_of(
    document: &Value,
    operation: &Operation<'_>,
    settings: &OpenApiDocument,
) -> Result<String, ImportError> {
    if let Some(server) = &settings.server {
        return Ok(server.expose().trim_end_matches('/').to_owned());
    }
    let server = first_server(operation.value.get("servers"))
        .or_else(|| first_server(operation.item.get("servers")))
        .or_else(|| first_server(document.get("servers")));
    read_server(server)
}

/// The address of a server, without a slash at the end.
fn read_server(server: Option<&Value>) -> Result<String, ImportError> {
    let server = server.ok_or_else(|| ImportError::Server("it has none".to_owned()))?;
    let too_long = || ImportError::Server("its address is too long".to_owned());
    let bounded = |text: Option<&Value>| {
        let text = text.and_then(Value::as_str).unwrap_or_default();
        // Looked at before they are put together: an address may have many places for one default.
        if text.len() > SERVER_BYTES_MAX { Err(too_long()) } else { Ok(text.to_owned()) }
    };
    let mut url = bounded(server.get("url"))?;
    let variables = server.get("variables").and_then(Value::as_object);
    for (name, variable) in variables.into_iter().flatten().take(SERVER_VARIABLES_MAX) {
        let default = bounded(variable.get("default"))?;
        url = url.replace(&format!("{{{name}}}"), &default);
        if url.len() > SERVER_BYTES_MAX {
            return Err(too_long());
        }
    }

    match Url::parse(&url) {
        Ok(parsed) if matches!(parsed.scheme(), "http" | "https") && parsed.query().is_none() => {
            Ok(url.trim_end_matches('/').to_owned())
        }
        _ => {
            let shown = ConfiguredAddress::from(url).to_string();
            let shown: String = shown.chars().take(200).collect();
            Err(ImportError::Server(format!("'{shown}'")))
        }
    }
}

fn first_server(servers: Option<&Value>) -> Option<&Value> {
    servers?.as_array()?.first()
}

/// The address of an operation, with places for its parameters.
fn template_of(server: &str, path: &str, parameters: &[Parameter]) -> Result<String, String> {
    if !path.starts_with('/') {
        return Err("its path does not begin with '/'".to_owned());
    }
    if server.len() + path.len() > TEMPLATE_BYTES_MAX {
        return Err(format!("its address has more than {TEMPLATE_BYTES_MAX} bytes"));
    }
    let mut template = format!("{server}{path}");
    let is_in_path = |name: &str| path.contains(&format!("{{{name}}}"));
    for parameter in parameters.iter().filter(|parameter| parameter.place == Place::Path) {
        if !is_in_path(&parameter.name) {
            return Err(format!("its path has no place for {}", shown(&parameter.name)));
        }
    }
    let mut rest = path;
    while let Some((_, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        let is_known =
            |parameter: &Parameter| parameter.place == Place::Path && parameter.name == name;
        if !parameters.iter().any(is_known) {
            return Err(format!("it has no parameter '{name}', which its path has"));
        }
        rest = after;
    }

    let names = parameters.iter().filter_map(|parameter| match parameter.place {
        Place::Query { is_exploded: true } => Some(format!("{}*", parameter.name)),
        Place::Query { is_exploded: false } => Some(parameter.name.clone()),
        Place::Path => None,
    });
    let names: Vec<_> = names.collect();
    if !names.is_empty() {
        template.push_str(&format!("{{?{}}}", names.join(",")));
    }
    Ok(template)
}

/// The name of a tool: the operation's, of characters that every model's API takes.
fn name_of(prefix: &str, id: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }
    };
    let name: String = format!("{prefix}{id}").chars().map(plain).collect();
    // Several characters that are not taken are as good as one.
    let mut short = String::new();
    for c in name.trim_matches('_').chars() {
        if c != '_' || !short.ends_with('_') {
            short.push(c);
        }
    }
    let short: String = short.chars().take(NAME_CHARS_MAX - 4).collect();
    if short.is_empty() { "operation".to_owned() } else { short }
}

fn description_of(operation: &Operation<'_>) -> String {
    let text = |key: &str| operation.value.get(key).and_then(Value::as_str).unwrap_or_default();
    let (summary, description) = (text("summary").trim(), text("description").trim());
    let all = match (summary.is_empty(), description.is_empty()) {
        (false, false) if summary != description => format!("{summary}\n\n{description}"),
        (false, _) => summary.to_owned(),
        (true, false) => description.to_owned(),
        (true, true) => operation.id.clone(),
    };
    shorten(&all)
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(DESCRIPTION_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
