//! `${NAME}`, `${NAME:-default}` and `${vault:NAME}` in values: who may use them, and how they are
//! replaced. Credentials of the vault are not, see [`super::template`].

use super::template::{self, Template};

/// What a reference to a credential of the vault begins with.
const VAULT_PREFIX: &str = "vault:";

/// Where the value of `${NAME}` comes from.
#[derive(Clone, Copy)]
pub enum Variables<'a> {
    /// From what this function says, usually the environment of the process.
    From(&'a dyn Fn(&str) -> Option<String>),
    /// From nowhere, a mistake. For entries that a stranger wrote: an agent that registers a server
    /// must not have this process's secrets sent there.
    Refused,
}

impl Variables<'_> {
    /// Replaces every `${NAME}` and `${NAME:-default}` of `text`, and passes each variable's name
    /// and value to `on_value`. An error says what is wrong and never quotes the text.
    pub(super) fn expand_text(
        self,
        text: &str,
        mut on_value: impl FnMut(&str, &str),
    ) -> Result<Template, String> {
        let mut expanded = Template::default();
        let mut rest = text;

        while let Some((before, after)) = rest.split_once("${") {
            let (inner, after) =
                after.split_once('}').ok_or("there is a \"${\" without its \"}\"")?;
            expanded.push_text(before);
            rest = after;
            if let Some(name) = inner.strip_prefix(VAULT_PREFIX) {
                expanded.push_credential(self.credential_name(name)?);
                continue;
            }

            let (name, default) = match inner.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (inner, None),
            };
            if !is_name(name) {
                return Err("between \"${\" and \"}\" stands no variable's name".to_owned());
            }
            if default.is_some_and(|default| default.contains("${")) {
                return Err("a default can have no variable in it".to_owned());
            }

            let value = self.value(name, default)?;
            on_value(name, &value);
            expanded.push_text(&value);
        }

        expanded.push_text(rest);
        Ok(expanded)
    }

    /// The name of a credential of the vault, where it may be used.
    fn credential_name(self, name: &str) -> Result<&str, String> {
        match self {
            Self::Refused => Err("credentials of the vault may not be used here".to_owned()),
            Self::From(_) if template::is_credential_name(name) => Ok(name),
            Self::From(_) => Err(format!(
                "behind \"${{vault:\" stands no credential's name: it has 1 to {} letters, digits, \
                 `_`, `.` and `-`, and no default",
                template::CREDENTIAL_NAME_BYTES_MAX
            )),
        }
    }

    /// The value of a variable. As in a shell, the default also stands in for an empty one.
    fn value(self, name: &str, default: Option<&str>) -> Result<String, String> {
        let Self::From(lookup) = self else {
            return Err("environment variables may not be used here".to_owned());
        };

        match (lookup(name), default) {
            (Some(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
            (Some(value), _) => Ok(value),
            (None, Some(default)) => Ok(default.to_owned()),
            (None, None) => Err(format!("the environment variable {name} is not set")),
        }
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
