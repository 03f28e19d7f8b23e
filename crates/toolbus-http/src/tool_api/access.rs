//! Who a request is from, and what they may: keys of the store, tokens of the settings, or nobody
//! in particular where the operator wants that.

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolbus_tools::Principal;
use toolbus_tools::visitors::VisitorError;
use utoipa::ToSchema;

use super::Shared;
use super::answer::now_ms;
use super::api_error::{ApiError, ApiErrorCode};
use super::keys;
use super::plans::{self, Plan, Standing};

/// The client that nobody has proven to be.
const ANYBODY: &str = "http";
/// Addresses that need no key.
const OPEN_PATHS: [&str; 2] = ["/v1/health", "/v1/openapi.json"];

/// What a caller may do. Each may do what those before it may. Which tools it may call is a
/// question for the policy.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Finds tools.
    Reader,
    /// Calls them too.
    Executor,
    /// Gives out keys too.
    Admin,
}

impl Role {
    pub(crate) const ALL: [Self; 3] = [Self::Reader, Self::Executor, Self::Admin];

    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Executor => "executor",
            Self::Admin => "admin",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// Who asks.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) role: Role,
    pub(crate) plan: Plan,
}

impl Caller {
    /// Checks that it has a role.
    pub(crate) fn need(&self, required: Role) -> Result<(), ApiError> {
        if self.role >= required {
            return Ok(());
        }
        let what = format!("this needs the role {}", required.as_str());
        let details = json!({"required": required.as_str(), "current": self.role.as_str()});
        Err(ApiError::new(ApiErrorCode::Forbidden, what).with_details(details))
    }
}

/// A request that is answered.
pub(crate) struct Admission {
    /// Who it is from, unless anybody may ask.
    pub(crate) caller: Option<Caller>,
    pub(crate) standing: Standing,
}

/// One that is not.
pub(crate) struct Refused {
    pub(crate) error: ApiError,
    pub(crate) standing: Standing,
}

/// Lets a request in, and counts it.
pub(crate) async fn admit(shared: &Shared, request: &Parts) -> Result<Admission, Refused> {
    let default = shared.config.plans.get(&shared.config.default_plan).copied();
    let fresh = Standing::untouched(default.unwrap_or_default(), now_ms());
    let refuse = |error| Refused { error, standing: Standing { remaining: 0, ..fresh } };

    shared.visitors.check_place(request).map_err(|error| refuse(error.into()))?;
    if OPEN_PATHS.contains(&request.uri.path()) || request.method == Method::OPTIONS {
        return Ok(Admission { caller: None, standing: fresh });
    }
    let caller = identify(shared, request).await.map_err(refuse)?;

    let counted = shared.counts.charge(&caller.principal, caller.plan).await;
    match counted {
        Ok(Ok(standing)) => Ok(Admission { caller: Some(caller), standing }),
        Ok(Err(exceeded)) => Err(exceeded.refusal()),
        Err(error) => Err(refuse(error.into())),
    }
}

impl plans::Exceeded {
    fn refusal(self) -> Refused {
        let error = ApiError::new(self.code, self.message).with_retry_after(self.wait);
        Refused { error, standing: self.standing }
    }
}

async fn identify(shared: &Shared, request: &Parts) -> Result<Caller, ApiError> {
    let config = &shared.config;
    let plan_of = |name: &str| config.plans.get(name).copied().unwrap_or_default();
    let Some(token) = bearer(&request.headers)? else {
        let Some(role) = config.anonymous else {
            let what = "a key is needed: Authorization: Bearer KEY";
            return Err(ApiError::new(ApiErrorCode::Unauthorized, what));
        };
        let principal = Principal::claimed(ANYBODY);
        return Ok(Caller { principal, role, plan: plan_of(&config.token_plan) });
    };

    if shared.visitors.need_tokens() {
        match shared.visitors.admit(request) {
            Ok(principal) => {
                let is_admin = config.admins.iter().any(|admin| **admin == *principal.name);
                let role = if is_admin { Role::Admin } else { Role::Executor };
                return Ok(Caller { principal, role, plan: plan_of(&config.token_plan) });
            }
            Err(VisitorError::Unauthorized) => {}
            Err(error) => return Err(error.into()),
        }
    }

    let invalid = |what: &str| ApiError::new(ApiErrorCode::InvalidToken, what);
    if !keys::is_well_formed(token) {
        return Err(invalid("the token is none that was given out"));
    }
    let key = shared.keys.find(token).await?;
    let key = key.ok_or_else(|| invalid("the key is not known, was revoked or has expired"))?;
    Ok(Caller { principal: key.principal(), role: key.role, plan: plan_of(&key.plan) })
}

/// The token of a request. `None`: it has none.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let malformed = || {
        let what = "what is needed is: Authorization: Bearer KEY";
        ApiError::new(ApiErrorCode::InvalidToken, what)
    };
    let (scheme, token) =
        value.to_str().ok().and_then(|text| text.trim().split_once(' ')).ok_or_else(malformed)?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty();
    if is_bearer { Ok(Some(token.trim())) } else { Err(malformed()) }
}
