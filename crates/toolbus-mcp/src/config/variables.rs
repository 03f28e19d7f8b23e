//! `${NAME}` and `${NAME:-default}` in values: who may use them, and how they are replaced.

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
    ) -> Result<String, String> {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;

        while let Some((before, after)) = rest.split_once("${") {
            let (inner, after) =
                after.split_once('}').ok_or("there is a \"${\" without its \"}\"")?;
            let (name, default) = match inner.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (inner, None),
            };
            if !is_name(name) {
                return Err("between \"${\" and \"}\" stands no variable's name".to_owned());
            }

            let value = self.value(name, default)?;
            on_value(name, &value);
            expanded.push_str(before);
            expanded.push_str(&value);
            rest = after;
        }

        expanded.push_str(rest);
        Ok(expanded)
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
