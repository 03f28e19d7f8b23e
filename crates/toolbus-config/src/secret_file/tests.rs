use std::fs;
use std::io::ErrorKind;

use super::read_secret_file;

const BYTES_MAX: usize = 8;

#[test]
fn a_secret_is_the_file_without_its_line_ends() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    let check = |text: &str, expected: &str| {
        fs::write(&file, text).unwrap();
        assert_eq!(read_secret_file(&file, BYTES_MAX).unwrap().expose(), expected, "{text:?}");
    };

    check("", "");
    check("\n", "");
    check("secret", "secret");
    check("secret\r\n", "secret");
    check(" se ret \n\n", " se ret ");
    check("12345678", "12345678");
    check("12345678\r\n", "12345678");
}

#[test]
fn what_cannot_be_read_is_refused_without_its_text() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    let check = |text: &[u8], expected: ErrorKind| {
        fs::write(&file, text).unwrap();
        let error = read_secret_file(&file, BYTES_MAX).unwrap_err();
        assert_eq!(error.kind(), expected, "{text:?}");
        assert!(!error.to_string().contains("1234"), "{error}");
    };

    check(b"123456789", ErrorKind::FileTooLarge);
    check(b"123456789\n", ErrorKind::FileTooLarge);
    check(b"12345678\nmore", ErrorKind::FileTooLarge);
    check(&[b'1'; 1 << 20], ErrorKind::FileTooLarge);
    // Cut within a character.
    check("1234567\u{1f980}".repeat(9).as_bytes(), ErrorKind::FileTooLarge);
    check(b"1234\xff", ErrorKind::InvalidData);

    let missing = folder.path().join("missing");
    assert_eq!(read_secret_file(&missing, BYTES_MAX).unwrap_err().kind(), ErrorKind::NotFound);
    let error = read_secret_file(folder.path(), BYTES_MAX).unwrap_err();
    assert_eq!(error.to_string(), "it is not a file");
}
