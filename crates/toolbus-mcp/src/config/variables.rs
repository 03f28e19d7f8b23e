//! `${NAME}` in values: who may use it, and how it is replaced.

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
    /// Replaces every `${NAME}` of `text`. An error says what is wrong and never quotes the text.
    pub(super) fn expand_text(self, text: &str) -> Result<String, String> {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) =
                after.split_once('}').ok_or("there is a \"${\" without its \"}\"")?;
            if !is_name(name) {
                return Err("between \"${\" and \"}\" stands no variable's name".to_owned());
            }
            expanded.push_str(before);
            expanded.push_str(&self.value(name)?);
            rest = after;
        }

        expanded.push_str(rest);
        Ok(expanded)
    }

    fn value(self, name: &str) -> Result<String, String> {
        match self {
            Self::From(lookup) => {
                lookup(name).ok_or_else(|| format!("the environment variable {name} is not set"))
            }
            Self::Refused => Err("environment variables may not be used here".to_owned()),
        }
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
