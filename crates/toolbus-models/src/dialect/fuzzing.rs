//! Schemas of tools as a target of a fuzzer.

use std::sync::Arc;

use jsonschema::{PatternOptions, ValidationOptions};
use serde_json::{Value, json};
use toolbus_json::{Limits, from_slice};
use toolbus_tools::call::{Invocation, Output};
use toolbus_tools::registry::{Offer, Registry};
use toolbus_tools::schema::Schema;
use toolbus_tools::{CallError, Tool};

use super::loose::{self, PropertyNames};
use super::strict::Strict;
use super::{Dialect, Listing, LoweredTools, lower};

/// What a text may have.
const LIMITS: Limits = Limits::of_bytes(64 << 10);
/// Longest arguments that are checked, in bytes: a check takes as long as they are large, times the
/// size of the schema.
const CHECKED_BYTES_MAX: usize = 256;

/// Lowers a schema that the registry accepts, and raises arguments, which stand behind the first
/// line or the first byte 0. Asserts that the schemas are such as APIs accept, and that arguments
/// which fit the strict one fit the tool's own once they are raised. Draft 4 is left out: 1.0 is no
/// integer there, which strict mode cannot say, and the tool's own check refuses it.
pub fn schemas(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| matches!(byte, 0 | b'\n'));
    let (schema, arguments) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(schema) = from_slice::<Value>(schema, &LIMITS) else { return };
    if Schema::compile(&schema).is_err() {
        return;
    }
    check_loose(&schema);
    let Ok(strict) = Strict::lower(&schema) else { return };
    assert!(jsonschema::draft202012::meta::is_valid(strict.schema()), "{}", strict.schema());

    let is_of_draft_4 = schema.to_string().contains("draft-04");
    let is_checked = arguments.len() <= CHECKED_BYTES_MAX && !is_of_draft_4;
    let Ok(arguments) = from_slice::<Value>(arguments, &LIMITS) else { return };
    let mut raised = arguments.clone();
    strict.raise(&mut raised);
    assert!(strict.needs_raising() || raised == arguments, "{raised}");

    let draft = jsonschema::draft202012::options().should_validate_formats(true);
    if is_checked && fits(draft, strict.schema(), &arguments) {
        let fits = fits(jsonschema::options(), &schema, &raised);
        assert!(fits, "{raised} of {arguments}, by {}", strict.schema());
    }
}

fn check_loose(schema: &Value) {
    for names in [PropertyNames::Any, PropertyNames::Restricted] {
        let told = loose::lower(schema, names).schema;
        assert_eq!(told["type"], "object", "{told}");
        for keyword in ["anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref"] {
            assert!(told.get(keyword).is_none(), "{told}");
        }

        let properties = told["properties"].as_object().expect("there are properties");
        let is_legal = |name: &String| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
            (1..=64).contains(&name.len()) && name.chars().all(is_plain)
        };
        assert!(names == PropertyNames::Any || properties.keys().all(is_legal), "{told}");
    }
}

/// Whether a value is valid by a schema, whose patterns are linear.
fn fits(options: ValidationOptions<'_>, schema: &Value, value: &Value) -> bool {
    let validator = options.with_pattern_options(PatternOptions::regex()).build(schema);
    validator.expect("it is a schema").is_valid(value)
}

/// A tool with members that may be left out, a choice, and names that not every API takes.
pub(crate) fn lowered_tools(dialect: Dialect) -> LoweredTools {
    let parameters = json!({
        "type": "object",
        "properties": {
            "q": {"type": "string"},
            "filter[id]": {"type": "integer"},
            "sort": {"anyOf": [
                {"type": "object", "properties": {
                    "by": {"enum": ["name", "size"]}, "down": {"type": "boolean"},
                }, "required": ["by"], "additionalProperties": false},
                {"type": "string"},
            ]},
        },
        "required": ["q"],
        "additionalProperties": false,
    });
    let tool = Tool::new("find.files", "Finds files.", "fuzz").with_parameters(parameters);

    let registry = Arc::new(Registry::new());
    let provider = registry.provider("fuzz");
    let errors = provider.publish(vec![Offer::new(tool, nothing)]);
    assert!(errors.is_empty(), "{errors:?}");
    lower(dialect, registry.snapshot().tools(), &Listing::default())
}

fn nothing(_: Invocation) -> std::future::Ready<Result<Output, CallError>> {
    std::future::ready(Ok(Output::default()))
}
