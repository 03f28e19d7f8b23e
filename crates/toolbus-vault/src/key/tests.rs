//! Keys: which texts are one, and who may read their file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";

#[test]
fn a_key_is_64_hexadecimal_digits_and_its_name_is_no_part_of_it() {
    let key = VaultKey::parse(&format!("{KEY}\n")).unwrap();
    assert_eq!(key.bytes()[..4], [0, 0x11, 0x22, 0x33]);
    assert_eq!(key.name().len(), 16);
    assert!(!KEY.to_lowercase().contains(key.name()));
    assert_eq!(format!("{key:?}"), format!("VaultKey({})", key.name()));
    for wrong in ["", "0011", &KEY.replace('7', "g"), &format!("{KEY}0"), &KEY.replace('7', "é")] {
        let error = VaultKey::parse(wrong).unwrap_err().to_string();
        assert_eq!(error, "the key of the vault: expected 64 hexadecimal digits");
    }
}

#[tokio::test]
async fn a_key_file_that_others_may_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let source = KeySource::File(path.clone());
    assert!(matches!(source.fetch().await, Err(VaultError::NoKey(_))));
    fs::write(&path, KEY).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(source.fetch().await.unwrap_err(), VaultError::OpenKeyFile(path.clone()));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(source.fetch().await.unwrap().name(), VaultKey::parse(KEY).unwrap().name());
}

#[tokio::test]
async fn a_command_prints_the_key_or_says_why_not() {
    let ask = |script: &str| KeySource::Command(["sh", "-c", script].map(str::to_owned).to_vec());
    assert!(ask(&format!("echo {KEY}")).fetch().await.is_ok());
    // What it printed is not quoted: it may be most of a key.
    let error = ask(&format!("echo {KEY}; exit 3")).fetch().await.unwrap_err().to_string();
    assert_eq!(error, "the key of the vault: sh: exit status: 3");
    let error = ask("echo nonsense").fetch().await.unwrap_err().to_string();
    assert_eq!(error, "the key of the vault: expected 64 hexadecimal digits");
    assert!(KeySource::Command(Vec::new()).fetch().await.is_err());
    // It is read as far as a key may be long, and not to its end, which is never.
    let error = ask("yes").fetch().await.unwrap_err().to_string();
    assert_eq!(error, "the key of the vault: sh: it prints more than a key");
}

/// The clock goes on by itself while nothing else does.
#[tokio::test(start_paused = true)]
async fn a_command_that_does_not_end_is_killed() {
    let command = ["sleep", "1000"].map(str::to_owned).to_vec();
    let error = KeySource::Command(command).fetch().await.unwrap_err().to_string();
    assert_eq!(error, "the key of the vault: sleep: no answer within 10 s");
}
