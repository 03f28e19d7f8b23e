//! Raising: arguments that fit a schema in strict mode become what the tool takes.

use std::cell::Cell;
use std::collections::HashMap;

use serde_json::Value;

use super::REFERENCES_MAX;

/// Most schemas that the values of some arguments are compared with.
const LOOKS_MAX: usize = 1_000_000;

/// What is to be raised in the values of a schema.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// Nothing.
    Simple,
    /// Members of an object.
    Object(Vec<Member>),
    /// Items of a list.
    List(Box<Shape>),
    /// As in the first of these schemas that a value fits.
    Choice(Vec<(Value, Shape)>),
    /// As in the definition of this name; the empty name is the whole schema's.
    Reference(String),
}

/// A member of an object.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) name: String,
    /// Whether null stands for its lack.
    pub(super) is_optional: bool,
    pub(super) shape: Shape,
}

/// Raises values by the shapes of a schema.
pub(super) struct Raiser<'a> {
    root: &'a Value,
    root_shape: &'a Shape,
    definitions: &'a HashMap<String, Shape>,
    /// How many more schemas a value may be compared with. Then nothing more is raised in choices,
    /// and the gate refuses what is left.
    looks_left: Cell<usize>,
}

impl<'a> Raiser<'a> {
    pub(super) fn new(
        root: &'a Value,
        root_shape: &'a Shape,
        definitions: &'a HashMap<String, Shape>,
    ) -> Self {
        Self { root, root_shape, definitions, looks_left: Cell::new(LOOKS_MAX) }
    }

    /// Raises a value. It goes no deeper than the value does.
    pub(super) fn raise(&self, shape: &Shape, value: &mut Value) {
        let Some(shape) = self.follow(shape) else { return };
        match (shape, value) {
            (Shape::Object(shapes), Value::Object(members)) => {
                for Member { name, is_optional, shape } in shapes {
                    match members.get_mut(name) {
                        // The others keep their order.
                        Some(Value::Null) if *is_optional => drop(members.shift_remove(name)),
                        Some(member) => self.raise(shape, member),
                        None => {}
                    }
                }
            }
            (Shape::List(shape), Value::Array(items)) => {
                items.iter_mut().for_each(|item| self.raise(shape, item));
            }
            (Shape::Choice(branches), value) => self.raise_choice(branches, value, REFERENCES_MAX),
            _ => {}
        }
    }

    /// Raises a value as the first branch that it fits, through so many choices in one another.
    fn raise_choice(&self, branches: &[(Value, Shape)], value: &mut Value, left: usize) {
        let fitting = branches.iter().find(|(schema, _)| self.fits(schema, value, REFERENCES_MAX));
        let Some((_, shape)) = fitting else { return };
        match self.follow(shape) {
            Some(Shape::Choice(inner)) if left > 0 => self.raise_choice(inner, value, left - 1),
            Some(Shape::Choice(_)) | None => {}
            Some(shape) => self.raise(shape, value),
        }
    }

    /// Whether raising may change a value.
    pub(super) fn needs_raising(&self, shape: &Shape) -> bool {
        let mut open = vec![shape];
        let mut seen = Vec::new();
        while let Some(shape) = open.pop() {
            match shape {
                Shape::Simple => {}
                Shape::Object(members) if members.iter().any(|member| member.is_optional) => {
                    return true;
                }
                Shape::Object(members) => open.extend(members.iter().map(|member| &member.shape)),
                Shape::List(items) => open.push(items),
                Shape::Choice(branches) => open.extend(branches.iter().map(|(_, shape)| shape)),
                Shape::Reference(name) if !seen.contains(&name) => {
                    seen.push(name);
                    open.extend(self.shape_of(name));
                }
                Shape::Reference(_) => {}
            }
        }
        false
    }

    fn shape_of(&self, name: &str) -> Option<&Shape> {
        if name.is_empty() { Some(self.root_shape) } else { self.definitions.get(name) }
    }

    /// The shape that references lead to.
    fn follow<'s>(&'s self, mut shape: &'s Shape) -> Option<&'s Shape> {
        for _ in 0..REFERENCES_MAX {
            let Shape::Reference(name) = shape else { return Some(shape) };
            shape = self.shape_of(name)?;
        }
        None
    }

    /// Whether a value may be one of a lowered schema, as far as its type, its literal values and
    /// the names of its members say.
    fn fits(&self, schema: &Value, value: &Value, left: usize) -> bool {
        let looks = self.looks_left.get();
        if left == 0 || looks == 0 {
            return false;
        }
        self.looks_left.set(looks - 1);

        if let Some(pointer) = schema["$ref"].as_str() {
            let definition = self.root.pointer(&pointer[1..]);
            return definition.is_some_and(|schema| self.fits(schema, value, left - 1));
        }
        if let Some(branches) = schema["anyOf"].as_array() {
            return branches.iter().any(|branch| self.fits(branch, value, left - 1));
        }
        if let Some(values) = schema["enum"].as_array() {
            return values.contains(value);
        }

        let types = std::slice::from_ref(&schema["type"]);
        let types = schema["type"].as_array().map_or(types, Vec::as_slice);
        let is_of = |kind: &Value| super::is_of_type(value, kind.as_str().unwrap_or_default());
        if !types.iter().any(is_of) {
            return false;
        }
        let (Some(properties), Value::Object(members)) = (schema["properties"].as_object(), value)
        else {
            return true;
        };
        let has_values = |(name, schema): (&String, &Value)| {
            let Some(member) = members.get(name) else { return false };
            schema["enum"].as_array().is_none_or(|values| values.contains(member))
        };
        members.len() == properties.len() && properties.iter().all(has_values)
    }
}
