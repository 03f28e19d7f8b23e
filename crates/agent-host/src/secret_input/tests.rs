//! What of the input is the value.

use super::*;

#[track_caller]
fn check(input: &[u8], expected: Result<&str, &str>) {
    let value = value_of(input).map_err(|error| error.to_string());
    let value = value.as_ref().map(|value| value.as_str()).map_err(String::as_str);
    assert_eq!(value, expected);
}

#[test]
fn one_line_end_is_not_part_of_a_value() {
    check(b"s3cret", Ok("s3cret"));
    check(b"s3cret\n", Ok("s3cret"));
    check(b"s3cret\r\n", Ok("s3cret"));
    check(b" two\nlines \n\n", Ok(" two\nlines \n"));
}

#[test]
fn what_is_no_value_is_refused_and_not_quoted() {
    check(b"", Err("the value is empty"));
    check(b"\n", Err("the value is empty"));
    check(b"s3cret\xff", Err("the value is not UTF-8 text"));
    let long = vec![b'x'; VALUE_BYTES_MAX + 1];
    check(&long[1..], Ok(str::from_utf8(&long[1..]).unwrap()));
    check(&long, Err("the value has more than 65536 bytes"));
}
