//! `POST` and `GET /v1/retrieve_tools`.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolbus_discovery::{
    Category, LIMIT_DEFAULT, LIMIT_MAX, QUERY_CHARS_MAX, RetrieveError, RetrieveFilter,
    RetrieveRequest, RetrievedTool,
};
use toolbus_policy::parse_principal;
use utoipa::{IntoParams, ToSchema};

use super::super::Shared;
use super::super::access::{Caller, Role};
use super::super::answer::{Data, Failure, Success};
use super::super::api_error::ApiError;
use super::super::catalogue::ToolFilter;
use super::super::fields::Fields;

/// The header that says where a query comes from.
const SOURCE: &str = "x-agent-source";
/// Where it can come from; the first one where nobody says.
const SOURCES: [&str; 3] = ["api", "mcp", "dashboard"];
/// Longest name of a server, in characters.
const SERVER_CHARS_MAX: usize = 256;
/// Longest text of a principal, in characters.
const USER_CHARS_MAX: usize = 512;

/// What tools are wanted for.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RetrieveBody {
    /// The task in words: 1 to 500 characters.
    pub query: String,
    /// How many tools at most: 1 to 50, 5 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u64>,
    /// What holds of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<RetrieveBodyFilter>,
    /// For whom, as rules know them; for admins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// Whether each factor of the scores is answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debug: Option<bool>,
}

/// What holds of each tool that is answered.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RetrieveBodyFilter {
    /// It is provided by this server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// It is of this category.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Its score is at least this: 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_score: Option<f64>,
}

/// The same as a query.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "it describes the query, which is read field by field")]
pub(crate) struct RetrieveQuery {
    /// The task in words: 1 to 500 characters.
    query: String,
    /// How many tools at most: 1 to 50, 5 by default.
    top_k: Option<u64>,
    /// The server that provides them.
    server: Option<String>,
    /// What they are about.
    category: Option<String>,
    /// The least score: 0 to 1.
    min_score: Option<f64>,
    /// For whom, as rules know them; for admins.
    user_id: Option<String>,
    /// Whether each factor of the scores is answered.
    debug: Option<bool>,
}

/// The tools for a task.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RetrieveData {
    /// The best first.
    pub tools: Vec<RetrievedToolData>,
    /// How long it took.
    pub query_time_ms: u64,
    /// How many tools were looked at: those that the caller may use.
    pub total_tools_searched: u64,
    /// Whether they are ranked by words alone, for want of a model.
    pub keyword_only: bool,
    /// Servers that may help, where no tool does.
    pub recommended_servers: Vec<String>,
}

/// A tool that may help.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RetrievedToolData {
    /// What it is called by.
    pub name: String,
    /// Who provides it.
    pub server: String,
    /// How well it fits: 0 to 1.
    pub score: f64,
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
    /// What the score is made of, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub factors: Option<Value>,
}

/// What a request asks for.
struct Wanted {
    query: Option<String>,
    limit: usize,
    filter: ToolFilter,
    score_min: Option<f64>,
    user: Option<String>,
    debug: bool,
}

/// What is to hold of each tool.
#[derive(Default)]
struct WantedFilter {
    tools: ToolFilter,
    score_min: Option<f64>,
}

/// Finds tools for a task.
#[utoipa::path(
    post,
    path = "/v1/retrieve_tools",
    operation_id = "retrieve_tools",
    tag = "tools",
    request_body = RetrieveBody,
    responses((status = 200, body = Success<RetrieveData>), (status = "default", body = Failure)),
)]
pub(crate) async fn post(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Data<RetrieveData>, ApiError> {
    let mut fields = Fields::of_body(&headers, body)?;
    let query = fields.needed_text(&["query"], 0..=QUERY_CHARS_MAX);
    let mut filter = WantedFilter::default();
    fields.within("filter", |fields| filter = read_filter(fields));
    let wanted = read(&mut fields, query, filter);
    fields.finish()?;
    answer(&shared, &caller, &headers, wanted).await
}

/// Finds tools for a task.
#[utoipa::path(
    get,
    path = "/v1/retrieve_tools",
    operation_id = "retrieve_tools_by_query",
    tag = "tools",
    params(RetrieveQuery),
    responses((status = 200, body = Success<RetrieveData>), (status = "default", body = Failure)),
)]
pub(crate) async fn get(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Data<RetrieveData>, ApiError> {
    let mut fields = Fields::of_query(query.as_deref())?;
    let query = fields.needed_text(&["query"], 0..=QUERY_CHARS_MAX);
    let filter = read_filter(&mut fields);
    let wanted = read(&mut fields, query, filter);
    fields.finish()?;
    answer(&shared, &caller, &headers, wanted).await
}

fn read_filter(fields: &mut Fields) -> WantedFilter {
    let server = fields.text(&["server"], 1..=SERVER_CHARS_MAX);
    let category = read_category(fields);
    let score_min = fields.number("min_score", 0.0..=1.0);
    WantedFilter { tools: ToolFilter { server, category }, score_min }
}

pub(crate) fn read_category(fields: &mut Fields) -> Option<Category> {
    let known = Category::ALL.map(Category::as_str);
    fields.word("category", &known, Category::parse)
}

fn read(fields: &mut Fields, query: Option<String>, filter: WantedFilter) -> Wanted {
    if query.as_ref().is_some_and(|query| query.trim().is_empty()) {
        fields.wrong("query", "must not be empty");
    }
    let limit = fields.integer("top_k", 1..=LIMIT_MAX as u64);
    Wanted {
        query,
        limit: limit.map_or(LIMIT_DEFAULT, |limit| usize::try_from(limit).unwrap_or(LIMIT_MAX)),
        filter: filter.tools,
        score_min: filter.score_min,
        user: fields.text(&["user_id"], 1..=USER_CHARS_MAX),
        debug: fields.flag("debug").unwrap_or_default(),
    }
}

async fn answer(
    shared: &Shared,
    caller: &Caller,
    headers: &HeaderMap,
    wanted: Wanted,
) -> Result<Data<RetrieveData>, ApiError> {
    caller.need(Role::Reader)?;
    let principal = match &wanted.user {
        None => caller.principal.clone(),
        Some(user) => {
            caller.need(Role::Admin)?;
            parse_principal(user)
                .map_err(|error| ApiError::invalid(format!("user_id is no principal: {error}")))?
        }
    };
    let source = headers.get(SOURCE).and_then(|value| value.to_str().ok());
    let source = SOURCES.into_iter().find(|known| Some(*known) == source).unwrap_or(SOURCES[0]);

    let request = RetrieveRequest {
        query: wanted.query.unwrap_or_default(),
        limit: wanted.limit,
        filter: RetrieveFilter {
            server: wanted.filter.server,
            category: wanted.filter.category,
            score_min: wanted.score_min,
        },
        source: source.into(),
        debug: wanted.debug,
    };
    let scope = shared.scope_of(principal);
    let found = shared.catalogue.retrieve(&scope, &request).await;
    let found = found.map_err(refusal)?;

    Ok(Data::ok(RetrieveData {
        tools: found.tools.iter().map(tool_data).collect(),
        query_time_ms: u64::try_from(found.took.as_millis()).unwrap_or(u64::MAX),
        total_tools_searched: found.searched as u64,
        keyword_only: found.by_words_alone,
        recommended_servers: found.recommended_servers,
    }))
}

/// What a client is told that asked wrongly.
pub(crate) fn refusal(error: RetrieveError) -> ApiError {
    match error {
        RetrieveError::Invalid { field, problem } => {
            let details = json!({"problems": [{"field": field, "problem": problem}]});
            ApiError::invalid(format!("{field} {problem}")).with_details(details)
        }
        other => ApiError::invalid(other.to_string()),
    }
}

fn tool_data(found: &RetrievedTool) -> RetrievedToolData {
    let tool = &found.entry.tool;
    RetrievedToolData {
        name: tool.name.clone(),
        server: found.server.to_string(),
        score: found.score,
        description: tool.description.clone(),
        category: found.category.as_str().to_owned(),
        tags: tool.tags.clone(),
        input_schema: tool.parameters.clone(),
        factors: found.factors.map(|factors| json!(factors)),
    }
}
