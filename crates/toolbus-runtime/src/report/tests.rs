//! How errors and warnings look. Where they have colour is tested with whole processes.

use clap::Command;
use clap::error::ErrorKind;

use super::*;

#[test]
fn an_error_looks_as_claps_own() {
    let theirs = Command::new("program").error(ErrorKind::InvalidValue, "it is wrong");
    let theirs = theirs.render();
    let ours =
        |has_color| render("error", *Styles::styled().get_error(), &"it is wrong", has_color);
    assert!(theirs.ansi().to_string().starts_with(&ours(true)), "{}", theirs.ansi());
    assert!(theirs.to_string().starts_with(&ours(false)), "{theirs}");
    assert_eq!(ours(false), "error: it is wrong\n");
    assert_ne!(ours(true), ours(false));
}

#[test]
fn a_warning_has_a_colour_of_its_own() {
    assert_eq!(
        render("warning", WARNING, &"mind", true),
        "\u{1b}[1m\u{1b}[33mwarning:\u{1b}[0m mind\n"
    );
    assert_eq!(render("warning", WARNING, &"mind", false), "warning: mind\n");
}
