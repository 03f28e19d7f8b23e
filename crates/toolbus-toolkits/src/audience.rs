//! For whom a toolkit is there: toolkits of one person's accounts and files are there for whoever
//! runs the program, unless the settings name others.

use std::path::Path;

use toolbus_config::Mistakes;
use toolbus_policy::PrincipalSet;
use toolbus_tools::Audience;

/// Whoever runs the program.
const LOCAL: &str = "local:*";
/// Everybody.
const ANYBODY: &str = "*";
/// Where the home folders of people are.
const HOMES: [&str; 3] = ["/home", "/root", "/Users"];
/// Where services have homes that are no person's.
const SERVICE_HOMES: &str = "/var";

/// The globs for whoever runs the program alone.
pub(crate) fn local_alone() -> Vec<String> {
    vec![LOCAL.to_owned()]
}

/// The glob for everybody.
pub(crate) fn anybody() -> Vec<String> {
    vec![ANYBODY.to_owned()]
}

/// Adds what is wrong with globs over principals to the mistakes.
pub(crate) fn check(key: &str, globs: &[String], mistakes: &mut Mistakes<'_>) {
    if let Err(error) = PrincipalSet::parse(globs) {
        mistakes.add(key, error.to_string());
    }
}

/// Those whom globs match. Globs with a mistake, of which [`check`] tells, match nobody.
pub(crate) fn audience_of(globs: &[String]) -> Audience {
    if globs == [ANYBODY] {
        return Audience::everybody();
    }
    PrincipalSet::parse(globs).unwrap_or_default().into_audience()
}

/// Whether a folder holds files of a person: it is a home folder, is in one, or has some in it.
/// `home` is the folder of whoever runs the program.
pub(crate) fn is_personal(folder: &Path, home: Option<&Path>) -> bool {
    let own = home.filter(|home| home.parent().is_some() && !home.starts_with(SERVICE_HOMES));
    let mut homes = HOMES.iter().map(Path::new).chain(own);
    homes.any(|home| folder.starts_with(home) || home.starts_with(folder))
}

#[cfg(test)]
mod tests;
