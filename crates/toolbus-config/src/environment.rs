//! Settings from the environment: `TOOLBUS_` names, the aliases of other names, and values given
//! as text, which the schema says how to read.
//!
//! An empty variable counts as not set, as OpenTelemetry and most charts have it. A `TOOLBUS_`
//! name that nobody knows is a warning and not a mistake: Kubernetes makes such names for every
//! service of its namespace.

use serde_json::Value;
use toolbus_json::Limits;

use super::mistake::{Mistake, nearest_name};
use super::origin::{Entry, Origin};
use super::schema::{self, ANY_KEY, Path};
use super::values::TimeSpan;

/// What every variable of ours starts with.
pub const PREFIX: &str = "TOOLBUS_";
/// What stands between the keys of a path.
const SEPARATOR: &str = "__";
/// Names under our prefix that are read elsewhere and are no keys.
const RESERVED: [&str; 1] = ["TOOLBUS_CONFIG"];
/// What a list or an object may have that is given as JSON: as many bytes as a settings file.
const JSON_LIMITS: Limits = Limits::of_bytes(1 << 20).with_values(16 << 10);

/// The environment variables of a process, taken once, so that tests can pass their own.
#[derive(Clone, Default)]
pub struct Environment(Vec<(String, String)>);

impl Environment {
    /// Those of this process. Names that are not UTF-8 are nobody's settings and left out; in
    /// values the bytes that are not UTF-8 are replaced, which validation then shows.
    #[must_use]
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| {
                Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
            })
            .collect()
    }

    /// The value of a variable in any spelling of its case, as .NET reads its own; `None` when it
    /// is not set or empty.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(candidate, value)| candidate.eq_ignore_ascii_case(name) && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    fn own_variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let set = self.0.iter().filter(|(_, value)| !value.is_empty());
        set.map(|(name, value)| (name.as_str(), value.as_str()))
            .filter(|(name, _)| name.starts_with(PREFIX))
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        let mut variables: Vec<_> = variables.into_iter().collect();
        variables.sort();
        Self(variables)
    }
}

/// Shows names only: values may be secrets.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// Another name that a setting is read from, below its `TOOLBUS_` name.
#[derive(Debug, Clone, Copy)]
pub struct Alias {
    /// The variable; its case does not matter.
    pub name: &'static str,
    /// The key path it sets, such as `bus.prefetch`. Ignored by a service that has no such key.
    pub key: &'static str,
    /// How its text becomes the setting's text.
    pub translate: fn(&str) -> Result<String, String>,
}

impl Alias {
    /// An alias whose text is the setting's own.
    #[must_use]
    pub const fn new(name: &'static str, key: &'static str) -> Self {
        Self { name, key, translate: |text| Ok(text.to_owned()) }
    }

    /// An alias that counts milliseconds, for a setting that is a duration.
    #[must_use]
    pub const fn milliseconds(name: &'static str, key: &'static str) -> Self {
        Self {
            name,
            key,
            translate: |text| match text.trim().parse() {
                Ok(count) => Ok(TimeSpan::milliseconds(count).to_string()),
                Err(_) => Err("not a number of milliseconds".to_owned()),
            },
        }
    }
}

/// A value for one key, from an alias or an argument.
#[derive(Debug, Clone)]
pub struct Setting {
    key: String,
    value: Given,
    origin: String,
}

#[derive(Debug, Clone)]
enum Given {
    Text(String),
    Json(Value),
    Wrong(String),
}

impl Setting {
    /// A value given as text, to be read as the type of its key says.
    #[must_use]
    pub fn text(key: &str, text: impl Into<String>, origin: &str) -> Self {
        Self { key: key.to_owned(), value: Given::Text(text.into()), origin: origin.to_owned() }
    }

    /// A value that is taken as it is.
    #[must_use]
    pub fn json(key: &str, value: impl Into<Value>, origin: &str) -> Self {
        Self { key: key.to_owned(), value: Given::Json(value.into()), origin: origin.to_owned() }
    }

    /// A value that cannot be read, and why.
    #[must_use]
    pub fn wrong_value(key: &str, what: impl Into<String>, origin: &str) -> Self {
        Self { key: key.to_owned(), value: Given::Wrong(what.into()), origin: origin.to_owned() }
    }

    /// The entry for it; `None` when the settings have no such key.
    pub(super) fn into_entry(self, schema: &Value) -> Option<Result<Entry, Mistake>> {
        let path = schema::path_of_key(&self.key);
        if schema::candidates(schema, &path).is_empty() {
            return None;
        }

        let origin = Origin::Named(self.origin);
        Some(match self.value {
            Given::Text(text) => Ok(text_entry(schema, path, &text, origin)),
            Given::Json(value) => Ok(Entry::new(path, value, origin)),
            Given::Wrong(what) => Err(Mistake::new(self.key, what).given_by(Some(origin))),
        })
    }
}

/// What aliases are set, lowest first: an alias that comes later in the table wins.
pub(super) fn read_aliases(environment: &Environment, aliases: &[Alias]) -> Vec<Setting> {
    aliases
        .iter()
        .filter_map(|alias| {
            let text = environment.value(alias.name)?;
            Some(match (alias.translate)(text) {
                Ok(text) => Setting::text(alias.key, text, alias.name),
                Err(what) => Setting::wrong_value(alias.key, what, alias.name),
            })
        })
        .collect()
}

/// What `TOOLBUS_` variables set, and a warning for each that sets nothing.
pub(super) fn entries(
    environment: &Environment,
    schema: &Value,
    aliases: &[Alias],
) -> (Vec<Entry>, Vec<String>) {
    let mut entries = Vec::new();
    let mut warnings = Vec::new();

    for (name, text) in environment.own_variables() {
        let is_alias = aliases.iter().any(|alias| alias.name.eq_ignore_ascii_case(name));
        if is_alias || RESERVED.contains(&name) {
            continue;
        }

        let parts: Vec<&str> = name[PREFIX.len()..].split(SEPARATOR).collect();
        match schema::find(schema, &parts) {
            Some(path) => {
                entries.push(text_entry(schema, path, text, Origin::Named(name.to_owned())));
            }
            None => warnings.push(unknown_variable(schema, name)),
        }
    }

    (entries, warnings)
}

/// The entry for a value that is given as text. Where the variants of a tagged enum have fields of
/// different types by one name, the text waits for the layers to be merged: the tag may be in
/// another one.
fn text_entry(schema: &Value, path: Path, text: &str, origin: Origin) -> Entry {
    let mut values: Vec<Value> =
        schema::candidates(schema, &path).iter().map(|node| coerce(node, text)).collect();
    values.dedup();

    match (values.pop(), values.is_empty()) {
        (Some(value), true) => Entry::new(path, value, origin),
        _ => Entry { is_unread: true, ..Entry::new(path, text.into(), origin) },
    }
}

/// The variable that sets the value at `path`.
pub(super) fn name_of(path: &[String]) -> String {
    let part = |key: &String| if key == ANY_KEY { key.clone() } else { key.to_ascii_uppercase() };
    format!("{PREFIX}{}", path.iter().map(part).collect::<Vec<_>>().join(SEPARATOR))
}

fn unknown_variable(schema: &Value, name: &str) -> String {
    let leaves = schema::list_leaves(schema);
    let settable = leaves.iter().filter(|leaf| !leaf.is_in_list());
    let known: Vec<String> = settable.map(|leaf| name_of(&leaf.path)).collect();
    // The common prefix alone makes any two names look alike.
    let tails = known.iter().map(|name| &name[PREFIX.len()..]);
    let what = format!("{name} is ignored: no setting has this name");
    match nearest_name(&name[PREFIX.len()..], tails) {
        Some(near) => format!("{what}; did you mean {PREFIX}{near}?"),
        None => what,
    }
}

/// Reads text as the type that the schema wants. Text that does not read stays text, and
/// validation then says what is wrong with it.
pub(super) fn coerce(node: &Value, text: &str) -> Value {
    let as_text = || Value::String(text.to_owned());
    let read_json = || toolbus_json::from_str(text, &JSON_LIMITS).unwrap_or_else(|_| as_text());

    match schema::type_of(node) {
        "integer" => text.trim().parse::<i64>().map_or_else(|_| as_text(), Value::from),
        "number" => text.trim().parse::<f64>().map_or_else(|_| as_text(), Value::from),
        "boolean" => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => true.into(),
            "false" | "0" => false.into(),
            _ => as_text(),
        },
        "array" => {
            if text.trim_start().starts_with('[') {
                return read_json();
            }
            let items = node.get("items").unwrap_or(&Value::Null);
            text.split(',').map(|item| coerce(items, item.trim())).collect()
        }
        "object" => read_json(),
        _ => as_text(),
    }
}
