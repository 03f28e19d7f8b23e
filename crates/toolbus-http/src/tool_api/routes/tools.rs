//! `GET /v1/tools` and `GET /v1/tools/{name}`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolbus_discovery::ListedTool;
use toolbus_policy::Period;
use toolbus_tools::Scope;
use toolbus_tools::policy::PolicyRequest;
use toolbus_tools::registry::ToolEntry;
use utoipa::{IntoParams, ToSchema};

use super::super::Shared;
use super::super::access::{Caller, Role};
use super::super::answer::{Data, Failure, Success};
use super::super::api_error::{ApiError, ApiErrorCode};
use super::super::catalogue::ToolFilter;
use super::super::execution::not_found;
use super::super::fields::Fields;
use super::retrieve::{read_category, refusal};
use super::{PAGE_DEFAULT, PAGE_MAX, Pagination};

/// Longest name of a server, in characters.
const SERVER_CHARS_MAX: usize = 256;

/// Which tools are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "it describes the query, which is read field by field")]
pub(crate) struct ToolsQuery {
    /// How many: 1 to 100, 20 by default.
    limit: Option<u64>,
    /// How many are left out before.
    offset: Option<u64>,
    /// The server that provides them.
    server: Option<String>,
    /// What they are about.
    category: Option<String>,
}

/// A page of tools.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ToolsData {
    /// The tools.
    pub items: Vec<ToolSummary>,
    /// Where the page is.
    pub pagination: Pagination,
}

/// A tool in a list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ToolSummary {
    /// What it is called by.
    pub name: String,
    /// Who provides it.
    pub server: String,
    /// What it does.
    pub description: String,
    /// What it is about.
    pub category: String,
    /// Words for it.
    pub tags: Vec<String>,
}

/// A tool.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ToolData {
    /// What it is called by.
    pub name: String,
    /// Who provides it.
    pub server: String,
    /// What it does.
    pub description: String,
    /// What it is about.
    pub category: String,
    /// Words for it.
    pub tags: Vec<String>,
    /// The JSON Schema of its arguments.
    #[serde(rename = "inputSchema")]
    #[schema(value_type = Object)]
    pub input_schema: Value,
    /// The JSON Schema of its results, where it has one.
    #[serde(rename = "outputSchema")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    /// Calls of it with their results, where it has some.
    pub examples: Vec<ToolExample>,
    /// Whether a call needs a key.
    pub authentication_required: bool,
    /// The narrowest limit of calls, where there is one.
    pub rate_limit: Option<ToolRateLimit>,
}

/// A call and its result.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ToolExample {
    /// The arguments.
    #[schema(value_type = Object)]
    pub input: Value,
    /// The result.
    #[schema(value_type = Value)]
    pub output: Value,
}

/// A limit of calls.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ToolRateLimit {
    /// How many calls.
    pub limit: u64,
    /// In which time: `second`, `minute`, `hour`, `day` or `month`.
    pub per: String,
}

/// Lists the tools.
#[utoipa::path(
    get,
    path = "/v1/tools",
    operation_id = "list_tools",
    tag = "tools",
    params(ToolsQuery),
    responses((status = 200, body = Success<ToolsData>), (status = "default", body = Failure)),
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Data<ToolsData>, ApiError> {
    caller.need(Role::Reader)?;
    let mut fields = Fields::of_query(query.as_deref())?;
    let limit = fields.integer("limit", 1..=PAGE_MAX).unwrap_or(PAGE_DEFAULT);
    let offset = fields.integer("offset", 0..=u64::from(u32::MAX)).unwrap_or_default();
    let server = fields.text(&["server"], 1..=SERVER_CHARS_MAX);
    let filter = ToolFilter { server, category: read_category(&mut fields) };
    fields.finish()?;

    let scope = shared.scope_of(caller.principal);
    if let Some(server) = &filter.server {
        let servers = shared.catalogue.servers(&scope);
        if !servers.iter().any(|known| known.name == *server) {
            let what = format!("there is no server '{server}'");
            return Err(ApiError::new(ApiErrorCode::ServerNotFound, what));
        }
    }
    let to_size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let listed = shared.catalogue.list(&scope, filter, to_size(limit), to_size(offset));
    let listed = listed.map_err(refusal)?;
    Ok(Data::ok(ToolsData {
        items: listed.tools.iter().map(summary_of).collect(),
        pagination: Pagination::of(limit, offset, listed.total as u64),
    }))
}

/// Describes a tool, by its name or by SERVER/NAME.
#[utoipa::path(
    get,
    path = "/v1/tools/{name}",
    operation_id = "describe_tool",
    tag = "tools",
    params(("name" = String, Path, description = "What it is called by, or SERVER/NAME")),
    responses((status = 200, body = Success<ToolData>), (status = "default", body = Failure)),
)]
pub(crate) async fn describe(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Data<ToolData>, ApiError> {
    caller.need(Role::Reader)?;
    let scope = shared.scope_of(caller.principal);
    match shared.catalogue.describe(&scope, &name) {
        Ok(listed) => Ok(Data::ok(data_of(&shared, &scope, &listed))),
        Err(other) => Err(not_found(&name, other)),
    }
}

fn summary_of(listed: &ListedTool) -> ToolSummary {
    let tool = &listed.entry.tool;
    ToolSummary {
        name: tool.name.clone(),
        server: listed.server.to_string(),
        description: tool.description.clone(),
        category: listed.category.as_str().to_owned(),
        tags: tool.tags.clone(),
    }
}

fn data_of(shared: &Shared, scope: &Scope, listed: &ListedTool) -> ToolData {
    let entry = &*listed.entry;
    let ToolSummary { name, server, description, category, tags } = summary_of(listed);
    ToolData {
        name,
        server,
        description,
        category,
        tags,
        input_schema: entry.tool.parameters.clone(),
        output_schema: entry.tool.output_schema.clone(),
        examples: examples_of(&entry.tool.parameters),
        authentication_required: shared.config.anonymous.is_none(),
        rate_limit: rate_limit_of(shared, scope, entry),
    }
}

/// What the schema gives as examples of arguments. Nobody knows their results.
fn examples_of(schema: &Value) -> Vec<ToolExample> {
    let examples = schema.get("examples").and_then(Value::as_array);
    let examples = examples.into_iter().flatten().filter(|example| example.is_object());
    let example = |input: &Value| ToolExample { input: input.clone(), output: json!(null) };
    examples.map(example).collect()
}

fn rate_limit_of(shared: &Shared, scope: &Scope, entry: &ToolEntry) -> Option<ToolRateLimit> {
    let subject = entry.subject();
    let limits = shared.catalogue.policy.limits_of(&PolicyRequest { scope, subject: &subject });
    let a_month = |per: Period| match per {
        Period::Second => 31 * 24 * 60 * 60,
        Period::Minute => 31 * 24 * 60,
        Period::Hour => 31 * 24,
        Period::Day => 31,
        Period::Month => 1_u64,
    };
    let calls_a_month = |calls: u32, per: Period| u64::from(calls).saturating_mul(a_month(per));
    let narrowest =
        limits.into_iter().min_by_key(|limit| calls_a_month(limit.calls.get(), limit.per))?;
    let per = serde_json::to_value(narrowest.per).ok()?;
    let per = per.as_str().unwrap_or_default().to_owned();
    Some(ToolRateLimit { limit: narrowest.calls.get().into(), per })
}
