//! The fields of a request, of its body or of its query, read so that every mistake is told at
//! once. A field that is not known is a mistake: it may be another one misspelt.

use std::ops::RangeInclusive;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolbus_json::{Limits, OverLimit};
use utoipa::ToSchema;

use super::api_error::{ApiError, ApiErrorCode};
use crate::BODY_BYTES_MAX;

/// What a body may have.
const BODY_LIMITS: Limits = Limits::of_bytes(BODY_BYTES_MAX).with_values(256 << 10);
/// Most mistakes that are told.
const PROBLEMS_MAX: usize = 100;
/// Longest name of a field that is told, in bytes.
const FIELD_BYTES_MAX: usize = 100;

/// A mistake in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Problem {
    /// Which field.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

/// The fields of a request that are not read yet, and what was wrong with those that are.
pub(crate) struct Fields {
    members: Map<String, Value>,
    /// Values are texts, whatever they stand for.
    is_query: bool,
    prefix: &'static str,
    problems: Vec<Problem>,
    is_something_missing: bool,
    is_something_wrong: bool,
}

impl Fields {
    /// Those of a body, which is a JSON object.
    pub(crate) fn of_body(
        headers: &HeaderMap,
        body: Result<Bytes, BytesRejection>,
    ) -> Result<Self, ApiError> {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
        // A page can send other types to anybody without being asked.
        if !kind.eq_ignore_ascii_case("application/json") {
            let error = ApiError::invalid("the body of a request is application/json");
            return Err(error.with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        let body = body.map_err(|rejected| match rejected.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                ApiError::invalid(rejected.body_text()).with_status(rejected.status())
            }
            // The client was too slow, or has gone away.
            _ => ApiError::invalid("the body did not come, or not in time")
                .with_status(StatusCode::REQUEST_TIMEOUT),
        })?;

        let not_json = |what: String| ApiError::new(ApiErrorCode::InvalidJson, what);
        match toolbus_json::from_slice(&body, &BODY_LIMITS) {
            Ok(Value::Object(members)) => Ok(Self::of(members, false)),
            Ok(_) => Err(ApiError::invalid("the body must be a JSON object")),
            Err(toolbus_json::Error::OverLimit(OverLimit::Values { max })) => {
                Err(not_json(format!("the body has more than {max} values")))
            }
            Err(error) => Err(not_json(format!("the body is not JSON: {error}"))),
        }
    }

    /// Those of a query.
    pub(crate) fn of_query(query: Option<&str>) -> Result<Self, ApiError> {
        let mut members = Map::new();
        for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if members.len() >= PROBLEMS_MAX {
                return Err(ApiError::invalid("the query has too many fields"));
            }
            let twice = members.insert(name.clone().into_owned(), Value::String(value.into()));
            if twice.is_some() {
                return Err(ApiError::invalid(format!("{} is given twice", cut(&name))));
            }
        }
        Ok(Self::of(members, true))
    }

    fn of(members: Map<String, Value>, is_query: bool) -> Self {
        let problems = Vec::new();
        Self {
            members,
            is_query,
            prefix: "",
            problems,
            is_something_missing: false,
            is_something_wrong: false,
        }
    }

    /// Nothing more is to be read.
    pub(crate) fn finish(mut self) -> Result<(), ApiError> {
        self.refuse_rest();
        if self.problems.is_empty() {
            return Ok(());
        }
        let texts: Vec<_> = self.problems.iter().map(Problem::to_string).collect();
        let code = match self.is_something_missing && !self.is_something_wrong {
            true => ApiErrorCode::MissingRequiredField,
            false => ApiErrorCode::InvalidRequest,
        };
        let error = ApiError::new(code, texts.join("; "));
        Err(error.with_details(json!({"problems": self.problems})))
    }

    pub(crate) fn missing(&mut self, field: &str) {
        self.is_something_missing = true;
        self.tell(field, "is missing".to_owned());
    }

    pub(crate) fn wrong(&mut self, field: &str, problem: impl Into<String>) {
        self.is_something_wrong = true;
        self.tell(field, problem.into());
    }

    /// The value of a field, by the first of its names that is there. `null` is as good as nothing.
    pub(crate) fn take(&mut self, names: &[&str]) -> Option<Value> {
        let mut taken = None;
        for name in names {
            match self.members.remove(*name) {
                None | Some(Value::Null) => {}
                Some(value) if taken.is_none() => taken = Some(value),
                Some(_) => self.wrong(name, format!("is the same as {}: give one", names[0])),
            }
        }
        taken
    }

    /// A text of so many characters.
    pub(crate) fn text(&mut self, names: &[&str], chars: RangeInclusive<usize>) -> Option<String> {
        match self.take(names)? {
            Value::String(text) if chars.contains(&text.chars().count()) => Some(text),
            Value::String(_) => {
                let (least, most) = (chars.start(), chars.end());
                self.wrong(names[0], format!("must have {least} to {most} characters"));
                None
            }
            _ => {
                self.wrong(names[0], "must be a string");
                None
            }
        }
    }

    /// The same, which must be there.
    pub(crate) fn needed_text(
        &mut self,
        names: &[&str],
        chars: RangeInclusive<usize>,
    ) -> Option<String> {
        if names.iter().all(|name| self.members.get(*name).is_none_or(Value::is_null)) {
            self.take(names);
            self.missing(names[0]);
            return None;
        }
        self.text(names, chars)
    }

    /// A whole number.
    pub(crate) fn integer(&mut self, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.take(&[name])?;
        let number = match &value {
            Value::String(text) if self.is_query => text.parse().ok(),
            value => value.as_u64(),
        };
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            let (least, most) = (range.start(), range.end());
            self.wrong(name, format!("must be a whole number from {least} to {most}"));
        }
        number
    }

    /// A number.
    pub(crate) fn number(&mut self, name: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let value = self.take(&[name])?;
        let number = match &value {
            Value::String(text) if self.is_query => text.parse().ok(),
            value => value.as_f64(),
        };
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            let (least, most) = (range.start(), range.end());
            self.wrong(name, format!("must be a number from {least} to {most}"));
        }
        number
    }

    /// Yes or no.
    pub(crate) fn flag(&mut self, name: &str) -> Option<bool> {
        match self.take(&[name])? {
            Value::Bool(flag) => Some(flag),
            Value::String(text) if self.is_query && text == "true" => Some(true),
            Value::String(text) if self.is_query && text == "false" => Some(false),
            _ => {
                self.wrong(name, "must be true or false");
                None
            }
        }
    }

    /// A JSON object.
    pub(crate) fn object(&mut self, names: &[&str]) -> Option<Map<String, Value>> {
        match self.take(names)? {
            Value::Object(object) => Some(object),
            _ => {
                self.wrong(names[0], "must be a JSON object");
                None
            }
        }
    }

    /// One of a few words.
    pub(crate) fn word<T>(
        &mut self,
        name: &str,
        known: &[&str],
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let text = match self.take(&[name])? {
            Value::String(text) => text,
            _ => String::new(),
        };
        let parsed = parse(&text);
        if parsed.is_none() {
            self.wrong(name, format!("must be one of {}", known.join(", ")));
        }
        parsed
    }

    /// Reads the fields of an object within. Its names are told with the name of the object.
    pub(crate) fn within(&mut self, name: &'static str, read: impl FnOnce(&mut Self)) {
        let Some(members) = self.object(&[name]) else { return };
        let outer = std::mem::replace(&mut self.members, members);
        let prefix = std::mem::replace(&mut self.prefix, name);
        read(self);
        self.refuse_rest();
        self.members = outer;
        self.prefix = prefix;
    }

    fn refuse_rest(&mut self) {
        for name in std::mem::take(&mut self.members).keys() {
            self.wrong(name, "is not a field of this request");
        }
    }

    fn tell(&mut self, field: &str, problem: String) {
        if self.problems.len() >= PROBLEMS_MAX {
            return;
        }
        let field = match self.prefix {
            "" => cut(field).to_owned(),
            prefix => format!("{prefix}.{}", cut(field)),
        };
        self.problems.push(Problem { field, problem });
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.field, self.problem)
    }
}

fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(FIELD_BYTES_MAX)]
}
