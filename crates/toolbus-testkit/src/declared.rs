//! Checks that a package declares what its tests use, in `[package.metadata.tests]` of its
//! `Cargo.toml`: a run of this package alone starts only what is declared.

use std::env;

/// Lists what each package declares, one `PACKAGE KIND NAME` a line; set by `cargo xtask test`.
const DECLARED: &str = "TOOLBUS_TEST_DECLARED";
/// The package whose test runs; set by cargo and nextest.
const PACKAGE: &str = "CARGO_PKG_NAME";

/// Fails a test that uses something its package does not declare. Does nothing outside of
/// `cargo xtask test`.
///
/// # Panics
/// If the package does not declare it.
pub(crate) fn check(kind: &str, name: &str) {
    let (Ok(declared), Ok(package)) = (env::var(DECLARED), env::var(PACKAGE)) else { return };
    let line = format!("{package} {kind} {name}");
    assert!(
        declared.lines().any(|one| one == line),
        "add \"{name}\" to `{kind}` of [package.metadata.tests] in the Cargo.toml of {package}"
    );
}
