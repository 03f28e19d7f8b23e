//! Signing key files, and the output about them.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use toolbus_tools::GrantPublicKey;

use super::*;

#[test]
fn a_new_key_is_its_owners_alone_and_only_its_public_half_is_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("signing-key");
    let line = make_key(&file).expect("it is made");

    let mode = fs::metadata(&file).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, FILE_MODE);
    let text = fs::read_to_string(&file).expect("it is text");
    let key = GrantSigningKey::parse(&text).expect("a key");
    let listed = GrantPublicKey::parse_list(&line).expect("a public key");
    assert_eq!(listed, [key.public_key().clone()]);
    assert!(line.ends_with(&format!(" {}\n", key.public_key().id())), "{line}");
    assert_eq!(describe_public_key(&file).expect("it is read"), line);

    let (_, private) = text.trim().split_once(':').expect("its form");
    assert!(!line.contains(private), "the signing key is printed");
}

#[test]
fn a_key_that_is_there_is_not_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("signing-key");
    make_key(&file).expect("it is made");
    let text = fs::read(&file).expect("it is there");

    let error = make_key(&file).expect_err("it is there already");
    assert!(matches!(error, Failure::Exists(_)), "{error}");
    assert_eq!(fs::read(&file).expect("it is still there"), text);
    let missing = folder.path().join("none/signing-key");
    assert!(matches!(make_key(&missing), Err(Failure::Write(..))));
}

#[test]
fn a_key_that_others_may_read_is_not_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("signing-key");
    make_key(&file).expect("it is made");
    fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("it is ours");
    let error = describe_public_key(&file).expect_err("others may read it");
    assert!(on_one_line(&error).contains("others may read or change it"), "{error}");
}
