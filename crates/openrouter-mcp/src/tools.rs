//! The six tools: their names and definitions, their arguments, and the endpoint that each reads.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::endpoint::{CallerText, Endpoint, ModelsQuery};
use crate::error::Error;

#[cfg(test)]
mod tests;

/// Most models of one page.
const LIMIT_MAX: u32 = 1000;

/// One of the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenRouterTool {
    GetCredits,
    GetApiKeyInfo,
    ListModels,
    ListApiKeys,
    GetApiKey,
    GetGeneration,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(non_snake_case, reason = "the parameter is called so")]
struct KeyArguments {
    /// The hash of the API key, as list_api_keys tells it
    keyHash: CallerText,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(non_snake_case, reason = "the parameter is called so")]
struct GenerationArguments {
    /// The id of the generation, as its response told it, such as gen-1234567890
    generationId: CallerText,
}

impl OpenRouterTool {
    /// All of them, in the order that clients see.
    pub(crate) const ALL: [Self; 6] = [
        Self::GetCredits,
        Self::GetApiKeyInfo,
        Self::ListModels,
        Self::ListApiKeys,
        Self::GetApiKey,
        Self::GetGeneration,
    ];

    /// The tool with this name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// The name that clients call it by.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GetCredits => "get_credits",
            Self::GetApiKeyInfo => "get_api_key_info",
            Self::ListModels => "list_models",
            Self::ListApiKeys => "list_api_keys",
            Self::GetApiKey => "get_api_key",
            Self::GetGeneration => "get_generation",
        }
    }

    /// The definition that clients are given.
    pub(crate) fn definition(self) -> Tool {
        let (title, description, schema) = match self {
            Self::GetCredits => (
                "Credits",
                "Get the OpenRouter account's credits: how many were bought and how many are used, \
                 in USD. Needs a management key.",
                schema_of::<NoArguments>(),
            ),
            Self::GetApiKeyInfo => (
                "Current API key",
                "Get the limits and the usage of the OpenRouter API key that this server uses.",
                schema_of::<NoArguments>(),
            ),
            Self::ListModels => (
                "Models",
                "List the models that OpenRouter offers, with context lengths and prices. The whole \
                 list is long: give limit and offset, or filters, to get a part of it.",
                schema_of::<ModelsQuery>(),
            ),
            Self::ListApiKeys => (
                "API keys",
                "List the OpenRouter account's API keys with their hashes, limits and usage; never \
                 the keys themselves. Needs a management key.",
                schema_of::<NoArguments>(),
            ),
            Self::GetApiKey => (
                "API key",
                "Get one of the OpenRouter account's API keys by its hash: its limit and usage, \
                 never the key itself. Needs a management key.",
                schema_of::<KeyArguments>(),
            ),
            Self::GetGeneration => (
                "Generation",
                "Get what one generation cost and used, by its id: model, provider, tokens, time \
                 and price.",
                schema_of::<GenerationArguments>(),
            ),
        };

        let annotations = ToolAnnotations::with_title(title)
            .read_only(true)
            .destructive(false)
            .idempotent(true)
            .open_world(true);

        Tool::new(self.name(), description, schema).with_title(title).with_annotations(annotations)
    }

    /// The endpoint that a call with these arguments reads.
    ///
    /// # Errors
    /// When the arguments do not fit the tool.
    pub(crate) fn endpoint(self, arguments: JsonObject) -> Result<Endpoint, Error> {
        Ok(match self {
            Self::GetCredits => without_arguments(arguments, Endpoint::Credits)?,
            Self::GetApiKeyInfo => without_arguments(arguments, Endpoint::CurrentKey)?,
            Self::ListApiKeys => without_arguments(arguments, Endpoint::Keys)?,
            Self::ListModels => {
                let query: ModelsQuery = parse_arguments(arguments)?;
                if query.limit.is_some_and(|limit| !(1..=LIMIT_MAX).contains(&limit)) {
                    return Err(Error::Arguments(format!("limit is not from 1 to {LIMIT_MAX}")));
                }
                Endpoint::Models(query)
            }
            Self::GetApiKey => Endpoint::Key(parse_arguments::<KeyArguments>(arguments)?.keyHash),
            Self::GetGeneration => Endpoint::Generation(
                parse_arguments::<GenerationArguments>(arguments)?.generationId,
            ),
        })
    }
}

/// The endpoint of a tool without arguments.
fn without_arguments(arguments: JsonObject, endpoint: Endpoint) -> Result<Endpoint, Error> {
    parse_arguments::<NoArguments>(arguments).map(|NoArguments {}| endpoint)
}

fn parse_arguments<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Error> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| Error::Arguments(error.to_string()))
}

/// The JSON Schema of the arguments, without references.
fn schema_of<T: JsonSchema>() -> JsonObject {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });

    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The name and the comment of our type mean nothing to a client.
    schema.remove("title");
    schema.remove("description");
    schema.insert("additionalProperties".to_owned(), false.into());
    let mut schema = schema.ensure_object().clone();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(hide_null);
    }
    schema
}

/// Tells an optional argument as one of a single type: some APIs of models take no list of types.
/// Null is read as not given all the same.
fn hide_null(property: &mut Value) {
    let Value::Object(property) = property else { return };
    let Some(Value::Array(types)) = property.get("type") else { return };
    let mut others = types.iter().filter(|kind| *kind != "null");
    if let (Some(only), None) = (others.next().cloned(), others.next()) {
        property.insert("type".to_owned(), only);
        property.retain(|name, value| name != "default" || !value.is_null());
    }
}
