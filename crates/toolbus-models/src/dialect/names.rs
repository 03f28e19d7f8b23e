//! Names of tools that an API takes, and that are one tool's alone.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use toolbus_tools::registry::ToolEntry;
use toolbus_tools::tool_spec::ToolSpec;

use super::Dialect;

/// Bytes of the digest that tells names apart which would be the same.
const DIGEST_BYTES: usize = 4;

/// Which names an API takes: letters, digits, `_` and `-`.
#[derive(Debug, Clone, Copy)]
pub(super) struct NameRule {
    pub(super) length_max: usize,
    /// Whether it takes dots as well.
    pub(super) has_dots: bool,
}

/// The name of each tool in a dialect, by its own.
pub(super) struct Names(HashMap<String, String>);

impl Names {
    /// Gives each function a name. One that an API takes as it is has that; others are made legal,
    /// and told apart by a digest of what they were where that is taken. Names of providers' tools
    /// are taken by those.
    pub(super) fn assign(specs: &[(&Arc<ToolEntry>, ToolSpec)], dialect: Dialect) -> Self {
        let rule = dialect.name_rule();
        let reserved = specs.iter().filter_map(|(_, spec)| match spec {
            ToolSpec::Provider(provider) => provider.spec["name"].as_str().map(str::to_owned),
            ToolSpec::Function(_) => None,
        });
        let search = dialect.search_tool();
        let search = search.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned));
        let mut taken: HashSet<String> = reserved.chain(search).collect();

        let functions = specs.iter().filter_map(|(_, spec)| match spec {
            ToolSpec::Function(function) => Some(function.name.as_str()),
            ToolSpec::Provider(_) => None,
        });
        let mut names = HashMap::new();
        let mut others = Vec::new();
        for name in functions {
            if rule.allows(name) && taken.insert(name.to_owned()) {
                names.insert(name.to_owned(), name.to_owned());
            } else {
                others.push(name);
            }
        }

        for name in others {
            let legal = (0..).map(|attempt| rule.make_legal(name, attempt));
            let free = legal.into_iter().find(|legal| taken.insert(legal.clone()));
            // The attempts do not end before there is one.
            names.insert(name.to_owned(), free.unwrap_or_default());
        }
        Self(names)
    }

    /// The name of a function that was given one.
    pub(super) fn of<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.get(name).map_or(name, String::as_str)
    }
}

impl NameRule {
    /// This name, or one like it that an API takes.
    pub(super) fn legal_name(self, name: &str) -> Cow<'_, str> {
        if self.allows(name) { Cow::Borrowed(name) } else { Cow::Owned(self.make_legal(name, 0)) }
    }

    fn allows(self, name: &str) -> bool {
        (1..=self.length_max).contains(&name.len()) && name.chars().all(|c| self.allows_char(c))
    }

    fn allows_char(self, c: char) -> bool {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '-') || (self.has_dots && c == '.')
    }

    /// A legal name: the first attempt has what can stay, the others a digest behind it.
    fn make_legal(self, name: &str, attempt: u32) -> String {
        let legal = |c: char| if self.allows_char(c) { c } else { '_' };
        let mut text: String = name.chars().map(legal).collect();
        if text.is_empty() {
            text.push_str("tool");
        }

        // What is cut off would be missed: two long names often differ at their ends.
        if attempt == 0 && text.len() <= self.length_max {
            return text;
        }
        let digest = Sha256::digest(format!("{attempt}:{name}"));
        let digest: String =
            digest[..DIGEST_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
        text.truncate(self.length_max - 1 - digest.len());
        format!("{text}_{digest}")
    }
}

/// The names of properties that Anthropic's API takes at the top of a schema, by those that they
/// have, where they are others.
pub(super) fn property_names<'a>(
    properties: impl IntoIterator<Item = (&'a String, &'a Value)>,
) -> HashMap<String, String> {
    let rule = NameRule { length_max: 64, has_dots: true };
    let names: Vec<&String> = properties.into_iter().map(|(name, _)| name).collect();
    let mut taken: HashSet<String> =
        names.iter().filter(|name| rule.allows(name)).map(|name| (*name).clone()).collect();

    let mut renamed = HashMap::new();
    for name in names.into_iter().filter(|name| !rule.allows(name)) {
        let legal = (0..).map(|attempt| rule.make_legal(name, attempt));
        if let Some(free) = legal.into_iter().find(|legal| taken.insert(legal.clone())) {
            renamed.insert(name.clone(), free);
        }
    }
    renamed
}
