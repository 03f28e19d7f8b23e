//! The closed list of OpenRouter's endpoints that this program can request. Every URL is built
//! here, and a caller's text gets into it as one path segment or one query value, whatever
//! characters it has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

#[cfg(test)]
mod tests;

/// Longest text of a caller that goes into a URL, in bytes.
const TEXT_BYTES_MAX: usize = 256;

/// One of OpenRouter's endpoints, with the caller's arguments. All of them are read by GET.
#[derive(Debug, Clone, PartialEq)]
pub enum Endpoint {
    /// Credits bought and used.
    Credits,
    /// The key that authenticates the request.
    CurrentKey,
    /// The same at its old path, which OpenRouter no longer documents. Gateways made for RockBot
    /// know only this one.
    LegacyCurrentKey,
    /// The models.
    Models(ModelsQuery),
    /// The account's keys.
    Keys,
    /// One of the account's keys, by its hash.
    Key(CallerText),
    /// One generation, by its id.
    Generation(CallerText),
}

/// Which models. The members are those of OpenRouter's own query, and OpenRouter judges what they
/// mean; without any, it gives the whole list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelsQuery {
    /// Only models whose name or slug matches this text
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q: Option<CallerText>,
    /// Only models for this use, such as programming, roleplay, translation, legal, finance
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<CallerText>,
    /// Only models with all of these parameters, with commas between, such as tools,reasoning
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supported_parameters: Option<CallerText>,
    /// Only models that take these, with commas between: text, image, audio, file
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_modalities: Option<CallerText>,
    /// Only models that give these, with commas between, such as text,image; or all. Text when not
    /// given
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_modalities: Option<CallerText>,
    /// Only models by these authors, with commas between, such as openai,mistralai
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_authors: Option<CallerText>,
    /// Only models with at least this context, in tokens
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u32>,
    /// Only models whose prompts cost at most this, in USD per million tokens
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_price: Option<f64>,
    /// The order, such as newest, most-popular, pricing-low-to-high, context-high-to-low
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort: Option<CallerText>,
    /// How many models to skip
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100_000))]
    pub offset: Option<u32>,
    /// How many models to give at most; the whole list is about 1 MiB, so ask for few
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
}

/// A text that the caller sent: 1 to 256 bytes, no control characters, and neither `.` nor `..`,
/// which no encoding keeps from meaning another folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct CallerText(String);

impl CallerText {
    /// The text as a string slice.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for CallerText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.is_empty() || text.len() > TEXT_BYTES_MAX {
            return Err(format!("the text must have 1 to {TEXT_BYTES_MAX} bytes"));
        }
        if text.chars().any(char::is_control) || text == "." || text == ".." {
            return Err("the text is no name or id".to_owned());
        }
        Ok(Self(text))
    }
}

impl JsonSchema for CallerText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string", "minLength": 1, "maxLength": TEXT_BYTES_MAX,
        })
    }
}

impl Endpoint {
    /// The URL of this endpoint below `base`.
    #[must_use]
    pub fn url(&self, base: &Url) -> Url {
        let mut url = base.clone();

        if let Ok(mut path) = url.path_segments_mut() {
            // Each segment is encoded, slashes and per cent signs too.
            path.pop_if_empty().extend(self.path_segments());
        }

        let query = self.query();
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// The path below the base, unencoded, for messages and errors.
    #[must_use]
    pub fn path(&self) -> String {
        self.path_segments().iter().fold(String::new(), |path, segment| path + "/" + segment)
    }

    /// The endpoint to try where this one is not found.
    pub(crate) fn fallback(&self) -> Option<Self> {
        matches!(self, Self::CurrentKey).then_some(Self::LegacyCurrentKey)
    }

    fn path_segments(&self) -> Vec<&str> {
        match self {
            Self::Credits => vec!["credits"],
            Self::CurrentKey => vec!["key"],
            Self::LegacyCurrentKey => vec!["auth", "key"],
            Self::Models(_) => vec!["models"],
            Self::Keys => vec!["keys"],
            Self::Key(hash) => vec!["keys", hash.as_str()],
            Self::Generation(_) => vec!["generation"],
        }
    }

    fn query(&self) -> Vec<(String, String)> {
        match self {
            Self::Generation(id) => vec![("id".to_owned(), id.as_str().to_owned())],
            Self::Models(query) => query.to_pairs(),
            _ => Vec::new(),
        }
    }
}

impl ModelsQuery {
    fn to_pairs(&self) -> Vec<(String, String)> {
        let members = serde_json::to_value(self).expect("it is texts and numbers");
        let members = members.as_object().cloned().unwrap_or_default();
        let text = |value: serde_json::Value| match value {
            serde_json::Value::String(text) => text,
            number => number.to_string(),
        };
        members.into_iter().map(|(name, value)| (name, text(value))).collect()
    }
}
