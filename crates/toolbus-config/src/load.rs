//! Loading: merges the layers, lowest first, and validates what comes of them as a whole.
//!
//! Invariant: all mistakes that the layers and the schema show are reported at once. The rules
//! between fields are checked only when each value is right by itself.

use serde_json::Value;

use crate::environment::Setting;
use crate::mistake::{Errors, Explainer, Mistake, Mistakes};
use crate::origin::{Merged, Origins};
use crate::{Loaded, Settings, Sources, environment, file, schema, values};

/// Reads and checks the settings.
///
/// # Errors
///
/// With every mistake of the file, the environment and the arguments.
pub fn load<T: Settings>(sources: Sources<'_>) -> Result<Loaded<T>, Errors> {
    let schema = schema::of::<T>();
    let mut mistakes = Vec::new();

    let (merged, warnings) = merge_sources(sources, &schema, &mut mistakes);
    let (values, origins) = merged.into_parts(|values, path, text| {
        let node = schema::at(&schema, values, path).unwrap_or(&Value::Null);
        environment::coerce(node, text)
    });
    check_values(&schema, &values, &origins, &mut mistakes);
    Errors::of(mistakes)?;

    let read = serde_path_to_error::deserialize::<_, T>(values);
    let mut mistakes = Mistakes::new(&origins);
    match &read {
        Ok(settings) => settings.check(&mut mistakes),
        // The schema let pass what the type does not take; reading stops at the first such value.
        Err(error) => mistakes.add(&error.path().to_string(), error.inner().to_string()),
    }
    Errors::of(mistakes.into_found())?;

    let settings = read.expect("an error was returned as a mistake just now");
    Ok(Loaded { settings, warnings, origins })
}

fn merge_sources(
    sources: Sources<'_>,
    schema: &Value,
    mistakes: &mut Vec<Mistake>,
) -> (Merged, Vec<String>) {
    let Sources { file, aliases, derived, environment, arguments } = sources;
    let mut merged = Merged::default();

    for entry in file::read(&file, mistakes) {
        merged.put(entry);
    }

    let mut put_setting = |merged: &mut Merged, setting: Setting| match setting.into_entry(schema) {
        Some(Ok(entry)) => merged.put(entry),
        Some(Err(mistake)) => mistakes.push(mistake),
        None => {}
    };
    for setting in derived.into_iter().chain(environment::read_aliases(environment, aliases)) {
        put_setting(&mut merged, setting);
    }

    let (entries, warnings) = environment::entries(environment, schema, aliases);
    for entry in entries {
        merged.put(entry);
    }
    for setting in arguments {
        put_setting(&mut merged, setting);
    }

    (merged, warnings)
}

fn check_values(schema: &Value, values: &Value, origins: &Origins, mistakes: &mut Vec<Mistake>) {
    let options = values::FORMATS
        .iter()
        .fold(jsonschema::options().should_validate_formats(true), |options, format| {
            options.with_format(format.name, |text| (format.check)(text).is_ok())
        });

    let validator = options.build(schema).expect("a schema made from a type is a valid schema");
    let explainer = Explainer { schema, values, origins };
    mistakes.extend(validator.iter_errors(values).flat_map(|error| explainer.explain(&error)));
}
