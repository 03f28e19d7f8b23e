//! How large a schema in strict mode may be.

use serde_json::Value;

use super::{NotStrict, not_strict};

/// Most properties, in all objects together.
const PROPERTIES_MAX: usize = 5_000;
/// Most objects in one another. Newer models take ten.
const LEVELS_MAX: usize = 5;
/// Most literal values.
const LITERALS_MAX: usize = 1_000;
/// Longest names and literal values, all together, in characters.
const TEXT_MAX: usize = 120_000;
/// So many literal values of one schema may have any length.
const LONG_LITERALS_MAX: usize = 250;
/// Longest literal values of one schema that has more, all together, in characters.
const LITERALS_TEXT_MAX: usize = 15_000;

/// What a schema has so far.
#[derive(Debug, Default)]
pub(super) struct Limits {
    properties: usize,
    literals: usize,
    text: usize,
}

impl Limits {
    pub(super) fn check_level(&self, level: usize) -> Result<(), NotStrict> {
        if level > LEVELS_MAX { not_strict("its objects are nested too deep") } else { Ok(()) }
    }

    pub(super) fn add_property(&mut self, name: &str) -> Result<(), NotStrict> {
        self.properties += 1;
        if self.properties > PROPERTIES_MAX {
            return not_strict("it has too many properties");
        }
        self.add_text(name)
    }

    pub(super) fn add_text(&mut self, text: &str) -> Result<(), NotStrict> {
        self.text += text.chars().count();
        if self.text > TEXT_MAX { not_strict("its names are too long") } else { Ok(()) }
    }

    pub(super) fn add_literals(&mut self, values: &[Value]) -> Result<(), NotStrict> {
        self.literals += values.len();
        if self.literals > LITERALS_MAX {
            return not_strict("it has too many literal values");
        }

        let texts = values.iter().filter_map(Value::as_str);
        let length: usize = texts.clone().map(|text| text.chars().count()).sum();
        if values.len() > LONG_LITERALS_MAX && length > LITERALS_TEXT_MAX {
            return not_strict("its literal values are too long");
        }
        texts.into_iter().try_for_each(|text| self.add_text(text))
    }
}
