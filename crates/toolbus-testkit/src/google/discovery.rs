//! Google's published documents of its APIs, and what of a request or an answer they do not have.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// The documents of Gmail and Calendar.
pub(super) struct Discovery {
    documents: Vec<Value>,
}

/// A method of an API, as a request asks for it.
pub(super) struct Found<'a> {
    document: &'a Value,
    method: &'a Value,
    literals: usize,
}

impl Discovery {
    /// Reads them. `None` where they have not been fetched and may be missing.
    pub(super) fn load() -> Option<Self> {
        let folder = crate::parts::folder("google-apis")?;
        let documents = ["gmail.v1.json", "calendar.v3.json"].map(|name| {
            let text = fs::read_to_string(folder.join(name)).expect("a document");
            serde_json::from_str(&text).expect("JSON")
        });
        Some(Self { documents: documents.into() })
    }

    /// The method that a request asks for.
    pub(super) fn find(&self, http_method: &str, path: &str) -> Result<Found<'_>, String> {
        let mut found = Vec::new();
        for document in &self.documents {
            let service = document["servicePath"].as_str().unwrap_or_default();
            collect(document, &mut |method| {
                let template = format!("/{service}{}", method["path"].as_str().unwrap_or_default());
                if method["httpMethod"] == http_method
                    && let Some(literals) = match_path(&template, path)
                {
                    found.push(Found { document, method, literals });
                }
            });
        }
        let best = found.into_iter().max_by_key(|found| found.literals);
        best.ok_or_else(|| format!("no method is {http_method} {path}"))
    }
}

impl Found<'_> {
    pub(super) fn id(&self) -> &str {
        self.method["id"].as_str().expect("a method has an id")
    }

    /// Whether a token with one of these scopes may.
    pub(super) fn allows(&self, scopes: &[String]) -> bool {
        let allowed = self.method["scopes"].as_array().into_iter().flatten();
        allowed.filter_map(Value::as_str).any(|scope| scopes.iter().any(|given| given == scope))
    }

    pub(super) fn check_query(&self, query: &[(String, String)]) -> Result<(), String> {
        for (name, value) in query {
            let parameter = &self.method["parameters"][name];
            let parameter = match parameter["location"] == "query" {
                true => parameter,
                false => &self.document["parameters"][name],
            };
            if parameter.is_null() {
                return Err(format!("{} has no parameter {name}", self.id()));
            }
            let count = query.iter().filter(|(other, _)| other == name).count();
            if count > 1 && parameter["repeated"] != true {
                return Err(format!("{name} is not repeated"));
            }
            check_text(parameter, value).map_err(|problem| format!("{name}: {problem}"))?;
        }

        let parameters = self.method["parameters"].as_object();
        for (name, parameter) in parameters.into_iter().flatten() {
            let is_wanted = parameter["required"] == true && parameter["location"] == "query";
            if is_wanted && !query.iter().any(|(given, _)| given == name) {
                return Err(format!("{name} is required"));
            }
        }
        Ok(())
    }

    pub(super) fn check_body(&self, body: &Value) -> Result<(), String> {
        match self.method["request"]["$ref"].as_str() {
            None if body.is_null() => Ok(()),
            None => Err(format!("{} has no body", self.id())),
            Some(schema) => {
                let schema = &self.document["schemas"][schema];
                self.check_required(schema, body)?;
                self.check_value(schema, body, "body")
            }
        }
    }

    pub(super) fn check_answer(&self, answer: &Value) -> Result<(), String> {
        let schema = self.method["response"]["$ref"].as_str().unwrap_or_default();
        self.check_value(&self.document["schemas"][schema], answer, "answer")
    }

    /// Members that this method must have, by the annotations of the schema.
    fn check_required(&self, schema: &Value, value: &Value) -> Result<(), String> {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let mut wanted_by =
                property["annotations"]["required"].as_array().into_iter().flatten();
            if wanted_by.any(|id| id == self.id()) && value.get(name).is_none() {
                return Err(format!("{} must have {name}", self.id()));
            }
        }
        Ok(())
    }

    fn check_value(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        if let Some(name) = schema["$ref"].as_str() {
            return self.check_value(&self.document["schemas"][name], value, at);
        }

        let wrong = |what: &str| Err(format!("{at} is no {what}: {value}"));
        match schema["type"].as_str() {
            Some("object") => {
                let Some(members) = value.as_object() else { return wrong("object") };
                self.check_members(schema, members, at)
            }
            Some("array") => {
                let Some(items) = value.as_array() else { return wrong("array") };
                let at = format!("{at}[]");
                items.iter().try_for_each(|item| self.check_value(&schema["items"], item, &at))
            }
            Some("string") => {
                let Some(text) = value.as_str() else { return wrong("string") };
                check_text(schema, text).map_err(|problem| format!("{at}: {problem}"))
            }
            Some("boolean") if !value.is_boolean() => wrong("boolean"),
            Some("integer") if !value.is_i64() => wrong("integer"),
            Some("number") if !value.is_number() => wrong("number"),
            _ => Ok(()),
        }
    }

    fn check_members(
        &self,
        schema: &Value,
        members: &Map<String, Value>,
        at: &str,
    ) -> Result<(), String> {
        for (name, value) in members {
            let property = match &schema["properties"][name] {
                Value::Null => &schema["additionalProperties"],
                property => property,
            };
            if property.is_null() {
                return Err(format!("{at} has no member {name}"));
            }
            self.check_value(property, value, &format!("{at}.{name}"))?;
        }
        Ok(())
    }
}

/// Calls `look` with each method of a document.
fn collect<'a>(resource: &'a Value, look: &mut dyn FnMut(&'a Value)) {
    for method in resource["methods"].as_object().into_iter().flatten() {
        look(method.1);
    }
    for below in resource["resources"].as_object().into_iter().flatten() {
        collect(below.1, look);
    }
}

/// How many segments of a path are those of the template, where all fit.
fn match_path(template: &str, path: &str) -> Option<usize> {
    let (template, path): (Vec<_>, Vec<_>) =
        (template.split('/').collect(), path.split('/').collect());
    if template.len() != path.len() {
        return None;
    }
    let mut literals = 0;
    for (wanted, found) in template.iter().zip(&path) {
        match wanted.starts_with('{') {
            true if found.is_empty() || matches!(*found, "." | "..") => return None,
            true => {}
            false if wanted == found => literals += 1,
            false => return None,
        }
    }
    Some(literals)
}

fn check_text(schema: &Value, text: &str) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("'{text}' is no {what}"));
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.iter().any(|value| value == text)
    {
        return wrong("value of the list");
    }

    let bound = |name: &str| schema[name].as_str().and_then(|bound| bound.parse::<i64>().ok());
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("integer"), _) => {
            let Ok(number) = text.parse::<i64>() else { return wrong("integer") };
            let is_inside = bound("minimum").is_none_or(|min| number >= min)
                && bound("maximum").is_none_or(|max| number <= max);
            if is_inside { Ok(()) } else { wrong("number within the bounds") }
        }
        (Some("boolean"), _) if !matches!(text, "true" | "false") => wrong("boolean"),
        (_, Some("date-time")) if !is_date_time(text) => wrong("RFC 3339 time with an offset"),
        (_, Some("date")) if !is_date(text) => wrong("date"),
        (_, Some("byte")) if URL_SAFE_NO_PAD.decode(text).is_err() => wrong("base64url"),
        _ => Ok(()),
    }
}

fn is_date(text: &str) -> bool {
    has_form(text, "0000-00-00")
}

/// A time with an offset, as RFC 3339 has it.
fn is_date_time(text: &str) -> bool {
    let Some((time, offset)) = text.split_at_checked(19) else { return false };
    has_form(time, "0000-00-00T00:00:00")
        && (offset == "Z" || has_form(offset, "+00:00") || has_form(offset, "-00:00"))
}

fn has_form(text: &str, form: &str) -> bool {
    text.len() == form.len()
        && text.bytes().zip(form.bytes()).all(|(byte, wanted)| match wanted {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        })
}

/// The pairs of a query or a form.
pub(super) fn parse_form(text: &str) -> Vec<(String, String)> {
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        percent_decode_str(&text).decode_utf8_lossy().into_owned()
    };
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(name, value)| (decode(name), decode(value))).collect()
}
