//! Texts with credentials in them that are in the vault, `${vault:NAME}`: they are read when the
//! server is connected, and each time anew. Until then the places of an entry that name one hold
//! the reference as it is written.

use std::collections::BTreeMap;
use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use toolbus_wire::message::Secret;

use super::entry::{Endpoint, Launch, Target};

/// Longest name of a credential that an entry can ask for, in bytes.
pub const CREDENTIAL_NAME_BYTES_MAX: usize = 128;
/// What of a credential is escaped in an address: it must not end the part that it stands in.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Whether an entry can ask for a credential of this name.
#[must_use]
pub fn is_credential_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=CREDENTIAL_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

/// A credential as it stands in an address.
pub(crate) fn escape_for_address(value: &str) -> String {
    utf8_percent_encode(value, ESCAPED).to_string()
}

/// The values of credentials, by their names.
pub(crate) type CredentialValues = BTreeMap<String, Secret>;

/// A text, and which credentials stand where in it.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Template(Vec<Piece>);

#[derive(Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// By its name.
    Credential(String),
}

impl Template {
    pub(super) fn push_text(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(Piece::Text(last)) => last.push_str(text),
            _ => self.0.push(Piece::Text(text.to_owned())),
        }
    }

    pub(super) fn push_credential(&mut self, name: &str) {
        self.0.push(Piece::Credential(name.to_owned()));
    }

    /// The names of the credentials in it.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Credential(name) => Some(name.as_str()),
        })
    }

    pub(super) fn has_credentials(&self) -> bool {
        self.names().next().is_some()
    }

    /// The text with its references as they are written.
    pub(super) fn as_written(&self) -> String {
        self.fill(|name| format!("${{vault:{name}}}"))
    }

    fn fill(&self, value_of: impl Fn(&str) -> String) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Credential(name) => value_of(name),
        });
        pieces.collect()
    }

    fn fill_from(&self, values: &CredentialValues) -> String {
        self.fill(|name| values.get(name).map(Secret::expose).unwrap_or_default().to_owned())
    }

    /// Whether the first credential of an address stands behind its host and port.
    fn is_behind_authority(&self) -> bool {
        let Some(Piece::Text(beginning)) = self.0.first() else { return false };
        let rest = beginning.split_once("://").map(|(_, rest)| rest);
        rest.is_some_and(|rest| rest.contains(['/', '?', '#']))
    }

    /// Whether it stands behind the path of the address as well.
    fn is_behind_path(&self) -> bool {
        matches!(self.0.first(), Some(Piece::Text(beginning)) if beginning.contains('?'))
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// A place of an entry that credentials of the vault stand in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CredentialSlot {
    slot: Slot,
    template: Template,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Slot {
    Argument(usize),
    Variable(String),
    Header(HeaderName),
    /// The token of `auth`, which is a header too.
    BearerToken,
    Url,
}

/// Whether an entry obtains tokens by OAuth, for its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HasGrant {
    Yes,
    No,
}

impl CredentialSlot {
    /// The place that a member of an entry is.
    ///
    /// # Errors
    /// What is wrong: there are places that credentials of the vault do not go into.
    pub(super) fn new(
        path: &str,
        template: Template,
        has_grant: HasGrant,
    ) -> Result<Self, &'static str> {
        let slot = Slot::of_path(path).ok_or(
            "credentials of the vault go into args, env, headers, url and the token of auth only",
        )?;
        if slot == Slot::Url && !template.is_behind_authority() {
            return Err("a credential of the vault can only stand in its path or its query");
        }
        if slot == Slot::Url && has_grant == HasGrant::Yes && !template.is_behind_path() {
            return Err(
                "with auth, a credential of the vault can only stand in its query: tokens \
                        are for the rest of the address",
            );
        }
        Ok(Self { slot, template })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.template.names()
    }

    /// Puts the credentials into their place.
    ///
    /// # Errors
    /// What is wrong with them there. No value is in it.
    pub(super) fn fill_in(
        &self,
        target: &mut Target,
        values: &CredentialValues,
    ) -> Result<(), String> {
        let filled = match (&self.slot, target) {
            (Slot::Argument(index), Target::Launch(launch)) => {
                fill_argument(launch, *index, self.template.fill_from(values))
            }
            (Slot::Variable(name), Target::Launch(launch)) => {
                fill_variable(launch, name, self.template.fill_from(values))
            }
            (Slot::Header(name), Target::Endpoint(endpoint)) => {
                fill_header(endpoint, name, &self.template.fill_from(values))
            }
            (Slot::BearerToken, Target::Endpoint(endpoint)) => {
                let token = self.template.fill_from(values);
                fill_header(endpoint, &AUTHORIZATION, &format!("Bearer {}", token.trim()))
            }
            (Slot::Url, Target::Endpoint(endpoint)) => {
                let value_of = |name: &str| {
                    escape_for_address(values.get(name).map(Secret::expose).unwrap_or_default())
                };
                fill_url(endpoint, &self.template.fill(value_of))
            }
            _ => None,
        };

        let names: Vec<&str> = self.names().collect();
        filled.ok_or_else(|| {
            format!("its credential '{}' cannot stand in {}", names.join("', '"), self.slot)
        })
    }
}

impl Slot {
    fn of_path(path: &str) -> Option<Self> {
        let index = || path.strip_prefix("args[")?.strip_suffix(']')?.parse().ok();
        let header = || HeaderName::try_from(path.strip_prefix("headers.")?).ok();

        match path {
            "url" => Some(Self::Url),
            "auth.token" => Some(Self::BearerToken),
            _ => index()
                .map(Self::Argument)
                .or_else(|| header().map(Self::Header))
                .or_else(|| path.strip_prefix("env.").map(|name| Self::Variable(name.to_owned()))),
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(index) => write!(f, "args[{index}]"),
            Self::Variable(name) => write!(f, "env.{name}"),
            Self::Header(name) => write!(f, "headers.{name}"),
            Self::BearerToken => f.write_str("auth.token"),
            Self::Url => f.write_str("url"),
        }
    }
}

fn fill_argument(launch: &mut Launch, index: usize, text: String) -> Option<()> {
    let argument = launch.arguments.get_mut(index).filter(|_| !text.contains('\0'))?;
    *argument = text;
    Some(())
}

fn fill_variable(launch: &mut Launch, name: &str, text: String) -> Option<()> {
    let variable = launch.environment.get_mut(name).filter(|_| !text.contains('\0'))?;
    *variable = Secret::from(text);
    Some(())
}

fn fill_header(endpoint: &mut Endpoint, name: &HeaderName, text: &str) -> Option<()> {
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    let headers = endpoint.headers.iter_mut().filter(|(known, _)| known == name);
    headers.for_each(|(_, old)| old.clone_from(&value));
    Some(())
}

/// The address leads to where it led before.
fn fill_url(endpoint: &mut Endpoint, text: &str) -> Option<()> {
    let url = Url::parse(text).ok().filter(|url| url.origin() == endpoint.url.origin())?;
    endpoint.url = url;
    Some(())
}

#[cfg(test)]
mod tests;
