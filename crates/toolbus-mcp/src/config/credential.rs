//! Which of the values that an operator configures for a server are credentials.
//!
//! They are not marked: they stand among paths, modes and addresses. So they are recognised by the
//! name that a value goes by, and by its looks. What is taken for a credential is erased from
//! everything that the server says. A value that is wrongly taken for one spoils results, one that
//! is wrongly not taken may be shown: names that speak of secrets are believed, and of the others
//! only values that no person would choose.

use toolbus_config::{ConfiguredAddress, MASK};
use toolbus_wire::message::Secret;

/// Words that name a credential, alone or at the end of a longer word (`PGPASSWORD`).
const ENDINGS: [&str; 9] =
    ["key", "keys", "pass", "passphrase", "passwd", "password", "secret", "secrets", "token"];
/// Words that name a credential only as a word of their own.
const WORDS: [&str; 13] = [
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "dsn",
    "jwt",
    "pat",
    "pwd",
    "signature",
    "tokens",
];
/// The shortest run of letters and digits that looks like chance.
const RANDOM_RUN_MIN: usize = 16;
/// How often such a run changes between digits, small and capital letters, at least.
const CHANGES_MIN: usize = 4;

/// The credentials in a value of this name, whole and where it is made of parts.
pub(crate) fn find_credentials(name: &str, value: &str) -> Vec<Secret> {
    let mut found = Vec::new();
    let is_one = (names_credential(name) && !is_path(value)) || looks_random(value);
    if is_one {
        found.push(value);
        // `Bearer x`, `Basic x`.
        found.extend(value.split_once(' ').map(|(_, credential)| credential));
        found.extend(value.split([' ', ';', '=']).filter(|part| looks_random(part)));
    }
    found.extend(find_password(value));
    found.into_iter().map(|text| Secret::from(text.to_owned())).collect()
}

/// The credentials among the arguments of a command: `--token x`, `--token=x`, and what looks like
/// one.
pub(super) fn find_in_arguments(arguments: &[String]) -> Vec<Secret> {
    let named = name_arguments(arguments);
    named.iter().flat_map(|argument| find_credentials(argument.name, argument.value)).collect()
}

/// The arguments of a command as they may be shown: without credentials, as far as they are
/// recognised, and without user info and queries of addresses. References stay.
#[must_use]
pub fn mask_arguments(arguments: &[String]) -> Vec<String> {
    let named = name_arguments(arguments);
    let masked = named.iter().zip(arguments).map(|(argument, whole)| {
        let before = &whole[..whole.len() - argument.value.len()];
        format!("{before}{}", mask_value(argument.name, argument.value))
    });
    masked.collect()
}

/// Whether a value of an entry is one reference to what stands elsewhere. One with a default, which
/// may be a secret, is none.
#[must_use]
pub fn is_reference(text: &str) -> bool {
    text.strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(|name| !name.contains(['{', '}']) && !name.contains(":-"))
}

/// The value of an argument, and the name that it goes by; both are empty where there is none.
struct NamedArgument<'a> {
    name: &'a str,
    value: &'a str,
}

fn name_arguments(arguments: &[String]) -> Vec<NamedArgument<'_>> {
    let mut before = "";
    let named = arguments.iter().map(|argument| {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) if name.starts_with('-') => (name, value),
            _ if before.starts_with('-') && !argument.starts_with('-') => (before, &**argument),
            _ => ("", &**argument),
        };
        before = argument;
        NamedArgument { name, value }
    });
    named.collect()
}

/// A value without what may be a secret. It may itself be `NAME=VALUE` or `Name: value`.
fn mask_value(name: &str, value: &str) -> String {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let inner = value.find(['=', ':']).filter(|at| {
        let is_plain = value[..*at].chars().all(is_of_name) && !value[*at..].starts_with("://");
        is_plain && !names_credential(name)
    });
    let (before, name, value) = match inner {
        Some(at) => (&value[..=at], &value[..at], &value[at + 1..]),
        None => ("", name, value),
    };

    let shown = if is_reference(value.trim()) {
        value.to_owned()
    } else if value.contains("://") && !names_credential(name) {
        ConfiguredAddress::from(value).to_string()
    } else if find_credentials(name, value.trim()).is_empty() {
        value.to_owned()
    } else {
        MASK.to_owned()
    };
    format!("{before}{shown}")
}

fn names_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| WORDS.contains(&word) || ENDINGS.iter().any(|ending| word.ends_with(ending)))
}

/// Many credentials are named by the file that they are in.
fn is_path(value: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '~');
    (value.starts_with('/') || value.starts_with("~/"))
        && value.matches('/').count() > 1
        && value.chars().all(is_plain)
}

fn looks_random(value: &str) -> bool {
    if value.starts_with('/') || value.contains("://") {
        return false;
    }

    value.split(|c: char| !c.is_ascii_alphanumeric()).any(|run| {
        let kinds = run.bytes().map(|byte| (byte.is_ascii_digit(), byte.is_ascii_uppercase()));
        let changes = kinds.clone().zip(kinds.skip(1)).filter(|(one, next)| one != next).count();
        run.len() >= RANDOM_RUN_MIN
            && changes >= CHANGES_MIN
            && run.bytes().any(|byte| byte.is_ascii_digit())
            && run.bytes().any(|byte| byte.is_ascii_alphabetic())
    })
}

/// The password in an address, `scheme://user:password@host`.
fn find_password(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password).filter(|password| !password.is_empty())
}

#[cfg(test)]
mod tests;
