//! What holds for every schema.

use jsonschema::Validator;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use toolbus_tools::schema::Schema;

use super::schemas::{Dice, any_schema, value_of};
use super::*;

/// Keywords of schemas in strict mode.
const STRICT_KEYWORDS: [&str; 18] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "enum",
    "anyOf",
    "$ref",
    "$defs",
    "description",
    "pattern",
    "format",
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
];

fn assert_strict(schema: &Value) {
    let members = schema.as_object().expect("a schema is an object");
    for (keyword, value) in members {
        match keyword.as_str() {
            "properties" | "$defs" => value.as_object().unwrap().values().for_each(assert_strict),
            "items" => assert_strict(value),
            "anyOf" => value.as_array().unwrap().iter().for_each(assert_strict),
            "exclusiveMaximum" => {}
            keyword => assert!(STRICT_KEYWORDS.contains(&keyword), "{keyword}"),
        }
    }
    if let Some(properties) = schema["properties"].as_object() {
        let names: Vec<_> = properties.keys().collect();
        assert_eq!(schema["required"], json!(names));
        assert_eq!(schema["additionalProperties"], json!(false));
    }
    let says_something = ["type", "anyOf", "$ref"].iter().filter(|k| schema.get(**k).is_some());
    assert_eq!(says_something.count(), 1, "{schema}");
}

fn validator(schema: &Value) -> Validator {
    let options = jsonschema::draft202012::options().should_validate_formats(true);
    options.build(schema).expect("it is a schema")
}

/// Checks that values of the lowered schema fit the tool's own when they are raised, and answers
/// how many there were.
fn check_raising(schema: &Value, strict: &Strict, seed: u64) -> usize {
    let own = Schema::compile(schema).expect("the registry accepts it");
    let lowered = validator(strict.schema());
    let mut dice = Dice(seed);
    let mut count = 0;
    for _ in 0..20 {
        let value = value_of(strict.schema(), strict.schema(), &mut dice, 24);
        if !lowered.is_valid(&value) {
            continue;
        }
        count += 1;
        let mut raised = value.clone();
        strict.raise(&mut raised);
        if let Err(violations) = own.check(&raised) {
            panic!("{violations:?}\n{schema}\n{}\n{value}\n{raised}", strict.schema());
        }
    }
    count
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, max_global_rejects: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn what_fits_the_strict_schema_fits_the_tools_own_once_raised(
        schema in any_schema(), seed in any::<u64>()
    ) {
        prop_assume!(Schema::compile(&schema).is_ok());
        if let Ok(strict) = Strict::lower(&schema) {
            assert_strict(strict.schema());
            assert!(jsonschema::draft202012::meta::is_valid(strict.schema()));
            check_raising(&schema, &strict, seed);
        }
    }

    #[test]
    fn every_schema_that_the_registry_accepts_is_told(schema in any_schema()) {
        prop_assume!(Schema::compile(&schema).is_ok());
        for names in [PropertyNames::Any, PropertyNames::Restricted] {
            let told = loose::lower(&schema, names).schema;
            assert!(jsonschema::draft202012::meta::is_valid(&told), "{told}");
            assert!(jsonschema::draft202012::options().build(&told).is_ok(), "{told}");
            assert!(told["type"] == "object" && told["properties"].is_object());
            for keyword in ["anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref"] {
                assert!(told.get(keyword).is_none(), "{keyword}");
            }
        }
    }
}

/// The properties above would hold if nothing were ever strict.
#[test]
fn many_schemas_are_strict_and_have_values() {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let (mut accepted, mut strict_ones, mut raised, mut values) = (0, 0, 0, 0);
    for seed in 0..2_000 {
        let schema = any_schema().new_tree(&mut runner).unwrap().current();
        if Schema::compile(&schema).is_err() {
            continue;
        }
        accepted += 1;
        let Ok(strict) = Strict::lower(&schema) else { continue };
        strict_ones += 1;
        raised += usize::from(strict.needs_raising());
        values += check_raising(&schema, &strict, seed);
    }
    let counts = (accepted, strict_ones, raised, values);
    assert!(accepted > 1_000 && strict_ones > 200 && raised > 50 && values > 1_000, "{counts:?}");
}
