//! A form as a person fills it in: fields, what is shown of each, and what a typed line means.

use serde_json::{Map, Value, json};
use toolbus_tools::schema::{Schema, describe};

use super::LINE_LIMITS;

/// Most fields of a form.
const FIELDS_MAX: usize = 64;
/// Most choices of a field.
const CHOICES_MAX: usize = 200;

/// A form.
pub(super) struct Form {
    fields: Vec<Field>,
}

/// One field.
pub(super) struct Field {
    name: String,
    kind: Kind,
    /// The field's own part of the schema.
    schema: Value,
    /// Checks an object with this one field.
    check: Schema,
    is_required: bool,
}

/// How a line is read.
enum Kind {
    Text,
    Number,
    Boolean,
    Choice(Vec<FieldChoice>),
    Choices(Vec<FieldChoice>),
}

struct FieldChoice {
    value: Value,
    title: String,
}

/// What a typed line comes to.
#[derive(Debug, PartialEq)]
pub(super) enum FieldEntry {
    Value(Value),
    /// The field stays empty.
    LeftOut,
    /// The person does not want to give what is required.
    Declined,
    /// It does not fit, and why.
    Wrong(String),
}

impl Form {
    /// Reads the schema of a form.
    pub(super) fn from_schema(schema: &Value) -> Result<Self, String> {
        let empty = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&empty);
        if properties.len() > FIELDS_MAX {
            return Err(format!("a form of {} fields is too long", properties.len()));
        }

        let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        let field = |(name, schema): (&String, &Value)| {
            let is_required = required.iter().any(|other| other == name);
            Field::from_schema(name, schema, is_required)
        };

        Ok(Self { fields: properties.iter().map(field).collect::<Result<_, _>>()? })
    }

    pub(super) fn fields(&self) -> &[Field] {
        &self.fields
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}

impl Field {
    fn from_schema(name: &str, schema: &Value, is_required: bool) -> Result<Self, String> {
        let alone = json!({"type": "object", "properties": {name: schema}});
        let check = Schema::compile(&alone)
            .map_err(|error| format!("the field '{name}' is none that can be checked: {error}"))?;

        let kind = match schema["type"].as_str() {
            Some("boolean") => Kind::Boolean,
            Some("number" | "integer") => Kind::Number,
            Some("array") => Kind::Choices(read_choices(&schema["items"])?),
            Some("string") | None => match read_choices(schema)? {
                choices if choices.is_empty() => Kind::Text,
                choices => Kind::Choice(choices),
            },
            Some(other) => return Err(format!("the field '{name}' is of an unknown type {other}")),
        };

        Ok(Self { name: name.to_owned(), kind, schema: schema.clone(), check, is_required })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What is shown before the first try.
    pub(super) fn describe(&self) -> String {
        let title = self.schema["title"].as_str().unwrap_or(&self.name);
        let mut text = format!("\n{title}");
        if let Some(description) = self.schema["description"].as_str() {
            text += &format!(": {description}");
        }

        text.push('\n');
        if let Kind::Choice(choices) | Kind::Choices(choices) = &self.kind {
            for (number, choice) in choices.iter().enumerate() {
                text += &format!("  {}. {}\n", number + 1, choice.title);
            }
        }

        text
    }

    /// What is shown before each try.
    pub(super) fn prompt(&self) -> String {
        let how = match &self.kind {
            Kind::Text => self.schema["format"].as_str().unwrap_or("text"),
            Kind::Number => self.schema["type"].as_str().unwrap_or("number"),
            Kind::Boolean => "y/n",
            Kind::Choice(_) => "one of them",
            Kind::Choices(_) => "some of them, with commas between",
        };

        let empty = match (self.schema.get("default"), self.is_required) {
            (Some(default), _) => format!(", default {}", plain_text(default)),
            (None, true) => String::new(),
            (None, false) => ", or nothing".to_owned(),
        };

        format!("{} ({how}{empty}): ", self.name)
    }

    /// What a line means.
    pub(super) fn read_line(&self, line: &str) -> FieldEntry {
        let line = line.trim();
        if line.is_empty() {
            return match (self.schema.get("default"), self.is_required) {
                (Some(default), _) => FieldEntry::Value(default.clone()),
                (None, true) => FieldEntry::Declined,
                (None, false) => FieldEntry::LeftOut,
            };
        }

        let value = match self.parse_value(line) {
            Ok(value) => value,
            Err(why) => return FieldEntry::Wrong(why),
        };
        let entered = json!({&self.name: value});

        match self.check.check(&entered) {
            Ok(()) => FieldEntry::Value(value),
            Err(violations) => FieldEntry::Wrong(describe(&violations, None)),
        }
    }

    fn parse_value(&self, line: &str) -> Result<Value, String> {
        match &self.kind {
            Kind::Text => Ok(json!(line)),
            Kind::Number => match toolbus_json::from_str(line, &LINE_LIMITS) {
                Ok(number @ Value::Number(_)) => Ok(number),
                _ => Err(format!("{line} is no number")),
            },
            Kind::Boolean => match line.to_lowercase().as_str() {
                "y" | "yes" | "true" | "1" => Ok(json!(true)),
                "n" | "no" | "false" | "0" => Ok(json!(false)),
                _ => Err("y or n, please".to_owned()),
            },
            Kind::Choice(choices) => find_choice(choices, line),
            Kind::Choices(choices) => {
                let chosen = line.split(',').map(|part| find_choice(choices, part.trim()));
                chosen.collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
        }
    }
}

/// A choice by its value or title, else by its number.
fn find_choice(choices: &[FieldChoice], line: &str) -> Result<Value, String> {
    let is_named =
        |choice: &&FieldChoice| plain_text(&choice.value) == line || choice.title == line;
    let by_number = || choices.get(line.parse::<usize>().ok()?.checked_sub(1)?);
    let chosen = choices.iter().find(is_named).or_else(by_number);
    chosen.map(|choice| choice.value.clone()).ok_or_else(|| format!("{line} is none of them"))
}

/// The choices that a schema leaves, by any of the ways in which MCP writes them.
fn read_choices(schema: &Value) -> Result<Vec<FieldChoice>, String> {
    let titled = |choice: &Value| {
        let value = choice["const"].clone();
        let title = choice["title"].as_str().map_or_else(|| plain_text(&value), str::to_owned);
        FieldChoice { value, title }
    };
    let list = |name: &str| schema.get(name).and_then(Value::as_array);

    let choices: Vec<FieldChoice> = if let Some(choices) = list("oneOf").or_else(|| list("anyOf")) {
        choices.iter().map(titled).collect()
    } else {
        let titles = list("enumNames").map_or(&[][..], Vec::as_slice);
        let values = list("enum").map_or(&[][..], Vec::as_slice);
        let choice = |(at, value): (usize, &Value)| {
            let title = titles.get(at).and_then(Value::as_str);
            FieldChoice {
                title: title.map_or_else(|| plain_text(value), str::to_owned),
                value: value.clone(),
            }
        };
        values.iter().enumerate().map(choice).collect()
    };

    match choices.len() {
        ..=CHOICES_MAX => Ok(choices),
        many => Err(format!("{many} choices are too many")),
    }
}

fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain_text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
