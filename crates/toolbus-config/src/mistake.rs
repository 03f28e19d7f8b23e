//! What is wrong with the settings, in words that a person can act on.
//!
//! A mistake names the key, where its value came from and what is wrong with it. The value itself
//! is shown only where it cannot be a secret.

use std::fmt;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use serde_json::Value;

use super::origin::{Origin, Origins};
use super::schema::{self, Path};
use super::values::FORMATS;

/// Longest value that is shown in a message, in characters.
const SHOWN_CHARS_MAX: usize = 60;
/// Longest name that is compared with others, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    place: String,
    what: String,
    origin: Option<String>,
}

impl Mistake {
    /// `place` is a key path, a variable or a file; `what` reads on after it, without a full stop.
    #[must_use]
    pub fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into(), origin: None }
    }

    pub(super) fn given_by(mut self, origin: Option<Origin>) -> Self {
        self.origin = origin.map(|origin| origin.to_string());
        self
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)?;
        match &self.origin {
            Some(origin) => write!(f, " ({origin})"),
            None => Ok(()),
        }
    }
}

/// Every mistake of a configuration; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Errors(Vec<Mistake>);

impl Errors {
    /// The mistakes as an error, or `Ok` when there is none.
    ///
    /// # Errors
    ///
    /// When `mistakes` is not empty.
    pub fn of(mistakes: Vec<Mistake>) -> Result<(), Self> {
        if mistakes.is_empty() { Ok(()) } else { Err(Self(Vec::new()).and(mistakes)) }
    }

    /// These mistakes and `more`, sorted by place.
    #[must_use]
    pub fn and(mut self, more: Vec<Mistake>) -> Self {
        self.0.extend(more);
        self.0.sort();
        self.0.dedup();
        self
    }
}

impl Errors {
    /// The mistakes, by place.
    pub fn iter(&self) -> impl Iterator<Item = &Mistake> {
        self.0.iter()
    }

    /// Those at this key, at a part of it, or at what it is a part of.
    #[must_use]
    pub fn at(&self, key: &str) -> Option<Self> {
        let is_below = |inner: &str, outer: &str| {
            let rest = inner.strip_prefix(outer);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let mistakes = self.0.iter();
        let found: Vec<_> = mistakes
            .filter(|mistake| is_below(&mistake.place, key) || is_below(key, &mistake.place))
            .cloned()
            .collect();
        (!found.is_empty()).then_some(Self(found))
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => f.write_str("the configuration has a mistake")?,
            count => write!(f, "the configuration has {count} mistakes")?,
        }
        self.0.iter().try_for_each(|mistake| write!(f, "\n  {mistake}"))
    }
}

/// Collects what the cross-field checks of a service find.
#[derive(Debug)]
pub struct Mistakes<'a> {
    found: Vec<Mistake>,
    origins: &'a Origins,
}

impl<'a> Mistakes<'a> {
    pub(super) fn new(origins: &'a Origins) -> Self {
        Self { found: Vec::new(), origins }
    }

    /// Adds a mistake at a key such as `bus.prefetch` or `ports[2]`; its origin is looked up.
    pub fn add(&mut self, key: &str, what: impl Into<String>) {
        let path = schema::path_of_key(key);
        let origin = self.origins.of(&path).cloned();
        self.found.push(Mistake::new(key, what).given_by(origin));
    }

    pub(super) fn into_found(self) -> Vec<Mistake> {
        self.found
    }
}

/// Puts validation errors into words.
pub(super) struct Explainer<'a> {
    pub(super) schema: &'a Value,
    pub(super) values: &'a Value,
    pub(super) origins: &'a Origins,
}

impl Explainer<'_> {
    /// Says what a validation error means; one error about unknown keys is one mistake a key.
    pub(super) fn explain(&self, error: &ValidationError<'_>) -> Vec<Mistake> {
        let path = path_of(error.instance_path().as_str());
        let node = schema::at(self.schema, self.values, &path).unwrap_or(&Value::Null);
        let described = Described { node, value: error.instance() };

        if let Kind::AdditionalProperties { unexpected } = error.kind() {
            let unknown = unexpected.iter().map(|key| {
                let path = [&path[..], std::slice::from_ref(key)].concat();
                self.mistake(&path, described.unknown_key(key))
            });
            return unknown.collect();
        }

        vec![self.mistake(&path, described.describe_problem(error))]
    }

    fn mistake(&self, path: &[String], what: String) -> Mistake {
        let what = match self.item_name(path) {
            Some(name) => format!("of {name}: {what}"),
            None => what,
        };
        Mistake::new(self.describe_place(path), what).given_by(self.origins.of(path).cloned())
    }

    /// The name of the innermost item of a list that the path leads through, where it has one: a
    /// position alone has to be counted.
    fn item_name(&self, path: &[String]) -> Option<String> {
        let mut value = self.values;
        let mut name = None;
        for key in path {
            let Value::Array(items) = value else {
                value = value.get(key)?;
                continue;
            };
            value = items.get(key.parse::<usize>().ok()?)?;
            name = value.get("name").filter(|name| name.is_string()).or(name);
        }
        name.map(show)
    }

    /// `a.b[1].c`: keys and, within lists, positions counted from 0.
    fn describe_place(&self, path: &[String]) -> String {
        let mut place = String::new();
        for (depth, key) in path.iter().enumerate() {
            let parent = schema::at(self.schema, self.values, &path[..depth]);
            let part = match (schema::type_of(parent.unwrap_or(&Value::Null)), depth) {
                ("array", _) => format!("[{key}]"),
                (_, 0) => schema::toml_key(key),
                _ => format!(".{}", schema::toml_key(key)),
            };
            place.push_str(&part);
        }

        place
    }
}

/// The known name that is nearest to `name` in any case, when one is near enough to have been
/// meant. Nothing is near to a name of more than 128 bytes.
pub fn nearest_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let name = name.to_lowercase();
    let similarity =
        |candidate: &str| strsim::normalized_damerau_levenshtein(&name, &candidate.to_lowercase());
    known
        .into_iter()
        .filter(|candidate| candidate.len() <= NAME_BYTES_MAX)
        .map(|candidate| (similarity(candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.65)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, candidate)| candidate)
}

/// What is wrong with a key that a table of this schema does not have.
pub(super) fn describe_unknown_key(node: &Value, key: &str) -> String {
    Described { node, value: &Value::Null }.unknown_key(key)
}

/// A value and what the schema says of it.
struct Described<'a> {
    node: &'a Value,
    value: &'a Value,
}

impl Described<'_> {
    fn unknown_key(&self, key: &str) -> String {
        let known = schema::keys_of(self.node, Some(self.value));
        if let Some(near) = nearest_name(key, known.iter().copied()) {
            return format!("unknown key, did you mean `{near}`?");
        }

        let known = known.join(", ");
        let tag = schema::tag_of(self.node);
        match tag.zip(schema::variant_name(self.node, self.value)) {
            Some((tag, variant)) => {
                format!("unknown key where {tag} is {variant:?}, known there: {known}")
            }
            None => format!("unknown key, known here: {known}"),
        }
    }

    fn describe_problem(&self, error: &ValidationError<'_>) -> String {
        let value = self.masked_value();
        match error.kind() {
            Kind::Type { .. } => format!("{value} is not {}", self.describe_expected()),
            Kind::Format { format } => match FORMATS.iter().find(|known| known.name == format) {
                Some(known) => {
                    let text = self.value.as_str().unwrap_or_default();
                    let reason = (known.check)(text).err().unwrap_or_default();
                    let examples = known.examples.join(", ");
                    format!("{value} is not {}: {reason}; for example {examples}", known.what)
                }
                None => format!("{value} is not of the format {format}"),
            },

            Kind::Enum { options } => {
                let listed = list_options(options);
                match self.nearest_option(options) {
                    Some(near) => format!("{value} is not one of {listed}, did you mean {near:?}?"),
                    None => format!("{value} is not one of {listed}"),
                }
            }
            Kind::Minimum { limit } => format!("{value} is less than {limit}"),
            Kind::Maximum { limit } => format!("{value} is more than {limit}"),
            Kind::MinLength { limit: 1 } | Kind::MinItems { limit: 1 } => {
                "must not be empty".to_owned()
            }
            Kind::MinLength { limit } => format!("{value} has fewer than {limit} characters"),
            Kind::MaxLength { limit } => format!("{value} has more than {limit} characters"),
            Kind::MinItems { limit } => format!("{value} has fewer than {limit} items"),
            Kind::MaxItems { limit } => format!("{value} has more than {limit} items"),

            Kind::Required { property } => match self.variant_names() {
                Some(names) if property.as_str() == schema::tag_of(self.node) => {
                    format!("{property} is missing: one of {names}")
                }
                _ => format!("{property} is missing"),
            },
            // The library's own words, without the value.
            _ => error.masked().to_string(),
        }
    }

    /// The option that was probably meant, where it is one alone.
    fn nearest_option<'o>(&self, options: &'o Value) -> Option<&'o str> {
        let written = self.value.as_str()?;
        let options = options.as_array()?.iter().filter_map(Value::as_str);
        let last_of_nearest = nearest_name(written, options.clone());
        let first_of_nearest = nearest_name(written, options.rev());
        last_of_nearest.filter(|_| last_of_nearest == first_of_nearest)
    }

    /// The variants of a tagged enum.
    fn variant_names(&self) -> Option<String> {
        let tag = schema::tag_of(self.node)?;
        self.node.get("properties")?.get(tag)?.get("enum").map(list_options)
    }

    fn masked_value(&self) -> String {
        if schema::is_sensitive(self.node) { "the value".to_owned() } else { show(self.value) }
    }

    fn describe_expected(&self) -> String {
        let format = self.node.get("format").and_then(Value::as_str).unwrap_or_default();
        if let Some(known) = FORMATS.iter().find(|known| known.name == format) {
            return format!("{}, such as {}", known.what, known.examples.join(", "));
        }

        match schema::type_of(self.node) {
            "integer" => "a whole number".to_owned(),
            "number" => "a number".to_owned(),
            "boolean" => "true or false".to_owned(),
            "string" => "a text".to_owned(),
            "array" => "a list".to_owned(),
            "object" => {
                let keys = schema::keys_of(self.node, None).join(", ");
                if keys.is_empty() { "a table".to_owned() } else { format!("a table of {keys}") }
            }
            _ => "of the right type".to_owned(),
        }
    }
}

/// A value for a message: short, on one line, without the password and the query of a URL that
/// strayed there.
pub(super) fn show(value: &Value) -> String {
    let text = value.to_string();
    let mut shown = match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}://{}{}", &text[..scheme], super::values::MASK, &text[at..])
        }
        _ => text,
    };

    let query = shown.find("://").and_then(|scheme| Some(scheme + shown[scheme..].find('?')?));
    if let Some(query) = query {
        shown.truncate(query + 1);
        shown.push_str(super::values::MASK);
        shown.push_str(if value.is_string() { "\"" } else { "" });
    }
    match shown.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}

fn list_options(options: &Value) -> String {
    let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
    options.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")
}

fn path_of(pointer: &str) -> Path {
    pointer.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~")).collect()
}
