//! Principals as operators write them: `PROOF:NAME`, and patterns of that form.
//!
//! The proof comes first, is one of a closed set and is compared as such, so a name can hold
//! anything without standing for another principal: whoever claims to be `local:local` is
//! `claimed:local:local`. What would mean something else in a name is written as `%` and two
//! hexadecimal digits: `%` itself, `*`, control characters, and in the name of a token's principal
//! `/`, so that the last `/` always ends the issuer.

use std::fmt::Write as _;
use std::sync::Arc;

use toolbus_tools::Principal;
use toolbus_tools::id::ID_BYTES_MAX;
use toolbus_tools::scope::Proof;

use crate::glob::{self, Glob, Symbol};

/// The mark before the id of a token in the text of an owner.
const ID_MARK: &str = "#";

/// A pattern over principals.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum PrincipalPattern {
    Anybody,
    Local(Glob),
    Claimed(Glob),
    /// By the user that the broker checked. What the message says beside that is not looked at.
    Broker(Glob),
    Token {
        issuer: Glob,
        name: Glob,
    },
}

/// Why a text is no principal, or no pattern over them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrincipalError {
    /// It does not begin with a proof.
    #[error(
        "it begins with no proof: write `*`, or one of `local:`, `claimed:`, `broker:`, \
         `token:` and a name{hint}"
    )]
    NoProof {
        /// What was probably meant; empty where nothing was.
        hint: String,
    },
    /// A token's principal has no issuer, or no name.
    #[error("a token's principal is written `token:ISSUER/NAME`")]
    NoIssuer,
    /// A `%` that escapes nothing.
    #[error("`%` is followed by two hexadecimal digits here: write `%25` for the sign itself")]
    Escape,
    /// The rest of it is no glob.
    #[error("{0}")]
    Text(String),
}

impl From<glob::Error> for PrincipalError {
    fn from(error: glob::Error) -> Self {
        Self::Text(error.to_string())
    }
}

impl PrincipalPattern {
    /// Reads a pattern.
    pub(crate) fn parse(text: &str) -> Result<Self, PrincipalError> {
        glob::check_text(text)?;
        if text == "*" {
            return Ok(Self::Anybody);
        }

        let (proof, rest) = split_proof(text)?;
        Ok(match proof {
            "local" => Self::Local(read_glob(rest)?),
            "claimed" => Self::Claimed(read_glob(rest)?),
            "broker" => Self::Broker(read_glob(rest)?),
            _ => {
                let (issuer, name) = split_issuer(rest)?;
                Self::Token { issuer: read_glob(issuer)?, name: read_glob(name)? }
            }
        })
    }

    /// Whether it matches a principal.
    pub(crate) fn matches(&self, principal: &Principal) -> bool {
        match (self, &principal.proof) {
            (Self::Anybody, _) => true,
            (Self::Local(name), Proof::Local) | (Self::Claimed(name), Proof::Claimed) => {
                name.matches(&principal.name)
            }
            (Self::Broker(glob), Proof::Broker { user }) => glob.matches(user),
            (Self::Token { issuer, name }, Proof::Token { issuer: of, .. }) => {
                issuer.matches(of) && name.matches(&principal.name)
            }
            _ => false,
        }
    }

    /// Whether it matches everybody whom another one matches, which is given by its symbols.
    pub(crate) fn covers(&self, other: &PrincipalSymbols<'_>) -> bool {
        match (self, other.pattern) {
            (Self::Anybody, _) => true,
            (Self::Local(glob), Self::Local(_))
            | (Self::Claimed(glob), Self::Claimed(_))
            | (Self::Broker(glob), Self::Broker(_)) => glob.covers(&other.name),
            (Self::Token { issuer, name }, Self::Token { .. }) => {
                issuer.covers(&other.issuer) && name.covers(&other.name)
            }
            _ => false,
        }
    }

    /// The pattern as [`covers`](PrincipalPattern::covers) takes it.
    pub(crate) fn symbols(&self) -> PrincipalSymbols<'_> {
        let (issuer, name) = match self {
            Self::Anybody => (Vec::new(), Vec::new()),
            Self::Local(name) | Self::Claimed(name) | Self::Broker(name) => {
                (Vec::new(), name.symbols())
            }
            Self::Token { issuer, name } => (issuer.symbols(), name.symbols()),
        };
        PrincipalSymbols { pattern: self, issuer, name }
    }

    /// A principal that it matches, in whose name this stands for each star. `None` where it
    /// matches everybody.
    pub(crate) fn sample(&self, star: &str) -> Option<Principal> {
        let (name, proof) = match self {
            Self::Anybody => return None,
            // Nobody else runs this process.
            Self::Local(name) => (name.sample(&Principal::local().name), Proof::Local),
            Self::Claimed(name) => (name.sample(star), Proof::Claimed),
            Self::Broker(user) => {
                let user = user.sample(star);
                (user.clone(), Proof::Broker { user: user.into() })
            }
            Self::Token { issuer, name } => {
                let issuer = issuer.sample(star).into();
                (name.sample(star), Proof::Token { issuer, id: None })
            }
        };
        Some(Principal { name: name.into(), proof })
    }
}

/// A pattern over principals, made ready to be compared with many others.
pub(crate) struct PrincipalSymbols<'a> {
    pattern: &'a PrincipalPattern,
    issuer: Vec<Symbol>,
    name: Vec<Symbol>,
}

/// Reads a principal, as [`principal_text`] writes it.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_principal(text: &str) -> Result<Principal, PrincipalError> {
    let (proof, rest) = split_proof(text)?;
    let (name, proof) = match proof {
        "local" => (read_name(rest)?, Proof::Local),
        "claimed" => (read_name(rest)?, Proof::Claimed),
        "broker" => {
            let user = read_name(rest)?;
            (Arc::clone(&user), Proof::Broker { user })
        }
        _ => {
            let (issuer, name) = split_issuer(rest)?;
            (read_name(name)?, Proof::Token { issuer: read_name(issuer)?, id: None })
        }
    };
    Ok(Principal { name, proof })
}

/// A principal as operators write it. Two that rules can tell apart are never written alike.
#[must_use]
pub fn principal_text(principal: &Principal) -> String {
    let mut text = format!("{}:", principal.proof.as_str());
    match &principal.proof {
        Proof::Broker { user } => push_escaped(&mut text, user, ""),
        Proof::Token { issuer, .. } => {
            push_escaped(&mut text, issuer, "");
            text.push('/');
            push_escaped(&mut text, &principal.name, "/");
        }
        _ => push_escaped(&mut text, &principal.name, ""),
    }
    text
}

/// The text of whoever owns a row: [`principal_text`], and the id of the token or client where it
/// has one. Whoever gets the same name later owns nothing of it.
#[must_use]
pub fn owner_text(principal: &Principal) -> String {
    let mut text = principal_text(principal);
    if let Proof::Token { id, .. } = &principal.proof {
        text = text.replace(ID_MARK, "%23");
        if let Some(id) = id {
            text.push_str(ID_MARK);
            push_escaped(&mut text, id, ID_MARK);
        }
    }
    text
}

/// Reads the owner of a row, as [`owner_text`] writes it.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_owner(text: &str) -> Result<Principal, PrincipalError> {
    let is_of_token = text.starts_with("token:");
    let Some((named, id)) = text.rsplit_once(ID_MARK).filter(|_| is_of_token) else {
        return parse_principal(text);
    };
    let mut principal = parse_principal(named)?;
    if let Proof::Token { id: known, .. } = &mut principal.proof {
        *known = Some(read_name(id)?);
    }
    Ok(principal)
}

fn push_escaped(text: &mut String, name: &str, also: &str) {
    for c in name.chars() {
        if c.is_control() || "%*".contains(c) || also.contains(c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                write!(text, "%{byte:02X}").expect("a string takes any text");
            }
        } else {
            text.push(c);
        }
    }
}

fn split_proof(text: &str) -> Result<(&str, &str), PrincipalError> {
    let written = text.split(':').next().unwrap_or_default();
    if let Some((proof, rest)) = text.split_once(':')
        && Proof::NAMES.contains(&proof)
        && !rest.is_empty()
    {
        return Ok((proof, rest));
    }

    let hint =
        toolbus_config::nearest_name(written, Proof::NAMES).map_or_else(String::new, |proof| {
            let rest = text.split_once(':').map_or("*", |(_, rest)| rest);
            let rest = if rest.is_empty() { "*" } else { rest };
            format!(", such as `{proof}:{rest}`")
        });
    Err(PrincipalError::NoProof { hint })
}

fn split_issuer(text: &str) -> Result<(&str, &str), PrincipalError> {
    let parts = text.rsplit_once('/');
    let is_whole = |(issuer, name): &(&str, &str)| !issuer.is_empty() && !name.is_empty();
    parts.filter(is_whole).ok_or(PrincipalError::NoIssuer)
}

fn read_glob(text: &str) -> Result<Glob, PrincipalError> {
    let parts: Result<Vec<String>, _> = text.split('*').map(unescape).collect();
    Ok(Glob::of_parts(parts?))
}

fn read_name(text: &str) -> Result<Arc<str>, PrincipalError> {
    if text.len() > 3 * ID_BYTES_MAX {
        return Err(glob::Error::TooLong(text.len()).into());
    }
    Ok(unescape(text)?.into())
}

fn unescape(text: &str) -> Result<String, PrincipalError> {
    let is_escape =
        |rest: &str| rest.len() >= 2 && rest.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit);
    if !text.split('%').skip(1).all(is_escape) {
        return Err(PrincipalError::Escape);
    }

    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| PrincipalError::Escape)
}

#[cfg(test)]
mod tests;
