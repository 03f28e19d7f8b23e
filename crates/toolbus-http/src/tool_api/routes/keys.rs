//! `POST` and `GET /v1/keys`, `DELETE /v1/keys/{id}`: for admins.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::Shared;
use super::super::access::{Caller, Role};
use super::super::answer::{Data, Failure, Success, iso_time};
use super::super::api_error::{ApiError, ApiErrorCode};
use super::super::fields::Fields;
use super::super::keys::{IssuedKey, Key, KeyKind, NewKey, NotIssued};
use super::{PAGE_DEFAULT, PAGE_MAX, Pagination};

/// Longest name of a key, in characters.
const NAME_CHARS_MAX: usize = 64;
/// The longest that a key can be of use, in seconds: ten years.
const LIFETIME_S_MAX: u64 = 10 * 366 * 24 * 60 * 60;

/// A key that is wanted.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct NewKeyBody {
    /// What it is called by: letters, digits, `-`, `_` and `.`. Rules know its holder as
    /// `token:toolbus-keys/NAME`.
    pub name: String,
    /// `live`, `test` or `dev`; `live` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `reader`, `executor` or `admin`; `executor` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// One of the plans of the settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// After how many seconds it is of no more use; never where it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<u64>,
}

/// A key as it is shown once.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct IssuedKeyData {
    /// Its id.
    pub id: String,
    /// The key itself. It is not shown again.
    pub key: String,
    /// What webhooks of its jobs are signed with, where the agent has a vault. It is not shown
    /// again.
    pub webhook_secret: Option<String>,
    /// What is shown of it later.
    pub details: KeyData,
}

/// What is shown of a key later.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct KeyData {
    /// Its id.
    pub id: String,
    /// What it is called by.
    pub name: String,
    /// Its beginning.
    pub key: String,
    /// `live`, `test` or `dev`.
    pub kind: String,
    /// What its holder may do.
    pub role: Role,
    /// How much of that.
    pub plan: String,
    /// When it was given out: UTC, ISO 8601.
    pub created_at: String,
    /// When it is of no more use.
    pub expires_at: Option<String>,
    /// When it was revoked.
    pub revoked_at: Option<String>,
}

/// A page of keys.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct KeysData {
    /// The newest first.
    pub items: Vec<KeyData>,
    /// Where the page is.
    pub pagination: Pagination,
}

impl KeyData {
    fn of(key: &Key) -> Self {
        Self {
            id: key.id.clone(),
            name: key.name.clone(),
            key: format!("{}…", key.shown),
            kind: key.kind.clone(),
            role: key.role,
            plan: key.plan.clone(),
            created_at: iso_time(key.created_ms),
            expires_at: key.expires_ms.map(iso_time),
            revoked_at: key.revoked_ms.map(iso_time),
        }
    }
}

/// Gives out a key.
#[utoipa::path(
    post,
    path = "/v1/keys",
    operation_id = "create_key",
    tag = "keys",
    request_body = NewKeyBody,
    responses((status = 201, body = Success<IssuedKeyData>), (status = "default", body = Failure)),
)]
pub(crate) async fn create(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Data<IssuedKeyData>, ApiError> {
    caller.need(Role::Admin)?;
    let mut fields = Fields::of_body(&headers, body)?;
    let new = read(&shared, &mut fields);
    fields.finish()?;
    let Some(new) = new else { return Err(ApiError::invalid("there is no name")) };

    let name = new.name.clone();
    let issued = shared.keys.issue(new).await?.map_err(|error| match error {
        NotIssued::NameTaken => ApiError::invalid(format!("another key is called '{name}'")),
        NotIssued::Full => ApiError::invalid("there are too many keys"),
        NotIssued::NoRandomness => {
            ApiError::new(ApiErrorCode::InternalError, "the system gives no random bytes")
        }
    })?;
    let IssuedKey { key, token, webhook_secret } = issued;
    tracing::info!(key = key.id, name = key.name, by = %caller.principal.name, "issued a key");
    let details = KeyData::of(&key);
    let data = IssuedKeyData { id: key.id, key: token, webhook_secret, details };
    Ok(Data(StatusCode::CREATED, data))
}

fn read(shared: &Shared, fields: &mut Fields) -> Option<NewKey> {
    let name = fields.needed_text(&["name"], 1..=NAME_CHARS_MAX);
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.as_ref().is_some_and(|name| !name.chars().all(is_allowed)) {
        fields.wrong("name", "must be of letters, digits, '-', '_' and '.'");
    }
    let kinds = KeyKind::ALL.map(KeyKind::as_str);
    let kind = fields.word("kind", &kinds, KeyKind::parse).unwrap_or(KeyKind::Live);
    let roles = Role::ALL.map(Role::as_str);
    let role = fields.word("role", &roles, Role::parse).unwrap_or(Role::Executor);
    let plans: Vec<&str> = shared.config.plans.keys().map(String::as_str).collect();
    let plan = fields.word("plan", &plans, |text| {
        shared.config.plans.contains_key(text).then(|| text.to_owned())
    });
    let lifetime = fields.integer("expires_in", 1..=LIFETIME_S_MAX);
    let lifetime_ms = lifetime.map(|seconds| i64::try_from(seconds * 1_000).unwrap_or(i64::MAX));
    let plan = plan.unwrap_or_else(|| shared.config.default_plan.clone());
    Some(NewKey { name: name?, kind, role, plan, lifetime_ms })
}

/// Lists the keys, without what could be used of them.
#[utoipa::path(
    get,
    path = "/v1/keys",
    operation_id = "list_keys",
    tag = "keys",
    params(
        ("limit" = Option<u64>, Query, description = "How many: 1 to 100, 20 by default"),
        ("offset" = Option<u64>, Query, description = "How many are left out before"),
    ),
    responses((status = 200, body = Success<KeysData>), (status = "default", body = Failure)),
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Data<KeysData>, ApiError> {
    caller.need(Role::Admin)?;
    let mut fields = Fields::of_query(query.as_deref())?;
    let limit = fields.integer("limit", 1..=PAGE_MAX).unwrap_or(PAGE_DEFAULT);
    let offset = fields.integer("offset", 0..=u64::from(u32::MAX)).unwrap_or_default();
    fields.finish()?;

    let to_row = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let (keys, total) = shared.keys.list(to_row(limit), to_row(offset)).await?;
    let total = u64::try_from(total).unwrap_or_default();
    let items = keys.iter().map(KeyData::of).collect();
    Ok(Data::ok(KeysData { items, pagination: Pagination::of(limit, offset, total) }))
}

/// Revokes a key. It is of no use at once, and stays in the list.
#[utoipa::path(
    delete,
    path = "/v1/keys/{id}",
    operation_id = "revoke_key",
    tag = "keys",
    params(("id" = String, Path, description = "Its id")),
    responses((status = 200, body = Success<KeyData>), (status = "default", body = Failure)),
)]
pub(crate) async fn revoke(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Data<KeyData>, ApiError> {
    caller.need(Role::Admin)?;
    let revoked = shared.keys.revoke(&id).await?;
    let key = revoked.ok_or_else(|| {
        ApiError::invalid(format!("there is no key '{id}'")).with_status(StatusCode::NOT_FOUND)
    })?;
    tracing::info!(key = key.id, name = key.name, by = %caller.principal.name, "revoked a key");
    shared.keys.sweep_secrets().await;
    Ok(Data::ok(KeyData::of(&key)))
}
