//! Schemas of a document as JSON Schema has them, with their references resolved.

use serde_json::{Map, Value, json};

/// How deep a schema may be nested, references included.
const DEPTH_MAX: usize = 40;
/// How many values one operation may have when its references are resolved.
const VALUES_MAX: usize = 10_000;
/// How many bytes of texts and names it may have then. More than its endpoint takes, because not
/// all of it is kept.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// How many references may follow each other.
const CHAIN_MAX: usize = 16;
/// Longest reference, in bytes.
const REFERENCE_BYTES_MAX: usize = 4 << 10;
/// Members that are OpenAPI's alone, or long and of no use to models.
const DROPPED: [&str; 7] =
    ["discriminator", "xml", "externalDocs", "example", "examples", "nullable", "deprecated"];

/// Resolves references of one operation.
pub(super) struct Resolver<'a> {
    document: &'a Value,
    values_left: usize,
    bytes_left: usize,
    /// What is being resolved, so that a circle is seen.
    open: Vec<String>,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(document: &'a Value) -> Self {
        Self { document, values_left: VALUES_MAX, bytes_left: TEXT_BYTES_MAX, open: Vec::new() }
    }

    /// What a reference stands for, and other values as they are. What is in it is not resolved.
    pub(super) fn follow(&self, written: &'a Value) -> Result<&'a Value, String> {
        let mut value = written;
        for _ in 0..CHAIN_MAX {
            let Some(reference) = reference_of(value) else { return Ok(value) };
            value = self.find(reference)?;
        }
        Err("references follow each other without an end".to_owned())
    }

    /// Counts a text that is copied.
    pub(super) fn take_text(&mut self, text: &str) -> Result<(), String> {
        let left = self.bytes_left.checked_sub(text.len());
        self.bytes_left = left.ok_or("its schema is too large")?;
        Ok(())
    }

    fn take_value(&mut self) -> Result<(), String> {
        self.values_left = self.values_left.checked_sub(1).ok_or("its schema is too large")?;
        Ok(())
    }

    /// Counts a value that is copied as it is, with all that is in it. Its depth was bounded when
    /// the document was read.
    fn take_whole(&mut self, value: &Value) -> Result<(), String> {
        self.take_value()?;
        match value {
            Value::String(text) => self.take_text(text),
            Value::Array(values) => values.iter().try_for_each(|value| self.take_whole(value)),
            Value::Object(members) => members.iter().try_for_each(|(name, value)| {
                self.take_text(name)?;
                self.take_whole(value)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    /// A schema without references.
    pub(super) fn resolve(&mut self, schema: &Value) -> Result<Value, String> {
        self.resolve_below(schema, 0)
    }

    fn resolve_below(&mut self, schema: &Value, depth: usize) -> Result<Value, String> {
        if depth > DEPTH_MAX {
            return Err("its schema is nested too deeply".to_owned());
        }
        self.take_value()?;

        match schema {
            Value::Object(members) => match reference_of(schema) {
                Some(reference) => self.resolve_reference(reference, members, depth),
                None => self.resolve_members(members, depth),
            },
            Value::Array(values) => {
                let values = values.iter().map(|value| self.resolve_below(value, depth + 1));
                Ok(Value::Array(values.collect::<Result<_, _>>()?))
            }
            Value::String(text) => {
                self.take_text(text)?;
                Ok(schema.clone())
            }
            plain => Ok(plain.clone()),
        }
    }

    fn resolve_reference(
        &mut self,
        reference: &str,
        members: &Map<String, Value>,
        depth: usize,
    ) -> Result<Value, String> {
        if self.open.iter().any(|open| open == reference) {
            return Err(format!("its schema contains itself ({})", shown(reference)));
        }
        self.take_text(reference)?;
        let target = self.find(reference)?;
        self.open.push(reference.to_owned());
        let resolved = self.resolve_below(target, depth + 1);
        self.open.pop();

        let mut resolved = resolved?;
        if let (Value::Object(resolved), Some(Value::String(description))) =
            (&mut resolved, members.get("description"))
        {
            self.take_text(description)?;
            resolved.insert("description".to_owned(), Value::String(description.clone()));
        }
        Ok(resolved)
    }

    fn resolve_members(
        &mut self,
        members: &Map<String, Value>,
        depth: usize,
    ) -> Result<Value, String> {
        let mut resolved = Map::new();
        for (key, value) in members {
            self.take_text(key)?;
            if DROPPED.contains(&key.as_str()) || key.starts_with("x-") {
                continue;
            }

            let value = match key.as_str() {
                // What is in them are names, not members of schemas.
                "properties" | "patternProperties" | "$defs" | "definitions" => {
                    self.resolve_named(value, depth)?
                }
                // Values, whatever is in them.
                "enum" | "const" | "default" | "required" => {
                    self.take_whole(value)?;
                    value.clone()
                }
                _ => self.resolve_below(value, depth + 1)?,
            };
            resolved.insert(key.clone(), value);
        }
        modernize(&mut resolved, members);
        Ok(Value::Object(resolved))
    }

    fn resolve_named(&mut self, named: &Value, depth: usize) -> Result<Value, String> {
        let Value::Object(named) = named else { return Ok(json!({})) };
        let mut resolved = Map::new();
        for (name, schema) in named {
            self.take_text(name)?;
            resolved.insert(name.clone(), self.resolve_below(schema, depth + 1)?);
        }
        Ok(Value::Object(resolved))
    }

    /// The value that a reference within the document points to.
    fn find(&self, reference: &str) -> Result<&'a Value, String> {
        let missing = || format!("the reference {} leads nowhere", shown(reference));
        if reference.len() > REFERENCE_BYTES_MAX {
            return Err(format!("the reference {} is too long", shown(reference)));
        }
        let Some(pointer) = reference.strip_prefix('#') else {
            return Err(format!("the reference {} leads out of the document", shown(reference)));
        };
        let pointer = percent_encoding::percent_decode_str(pointer).decode_utf8();
        let pointer = pointer.map_err(|_| missing())?;
        self.document.pointer(&pointer).ok_or_else(missing)
    }
}

fn reference_of(value: &Value) -> Option<&str> {
    value.get("$ref").and_then(Value::as_str)
}

/// A name or a reference for a message.
pub(super) fn shown(name: &str) -> String {
    format!("'{}'", name.chars().take(200).collect::<String>())
}

/// Writes what OpenAPI 3.0 has of its own as JSON Schema does.
fn modernize(resolved: &mut Map<String, Value>, written: &Map<String, Value>) {
    if written.get("nullable") == Some(&Value::Bool(true))
        && let Some(Value::String(kind)) = resolved.get("type")
    {
        resolved.insert("type".to_owned(), json!([kind, "null"]));
        if let Some(Value::Array(values)) = resolved.get_mut("enum")
            && !values.contains(&Value::Null)
        {
            values.push(Value::Null);
        }
    }

    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        match resolved.get(exclusive) {
            Some(Value::Bool(true)) => {
                resolved.remove(exclusive);
                if let Some(value) = resolved.remove(bound) {
                    resolved.insert(exclusive.to_owned(), value);
                }
            }
            Some(Value::Bool(false)) => {
                resolved.remove(exclusive);
            }
            _ => {}
        }
    }
}
