//! Lines of files of variables.

use super::*;

#[test]
fn lines() {
    let text = "\u{feff}# comment\n\nA=1\r\n export B = two words # comment\nC='$X # \\n'\n\
                D=\"a\\n\\\"b\\\\\\c\" # comment\nE=\nF=#none\nG=a#b=c\nA=2";
    let variables = parse(text).expect("variables");
    let found: Vec<_> =
        variables.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    let expected = [
        ("A", "2"),
        ("B", "two words"),
        ("C", "$X # \\n"),
        ("D", "a\n\"b\\\\c"),
        ("E", ""),
        ("F", ""),
        ("G", "a#b=c"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_mistake_is_told_by_its_line_and_without_the_value() {
    let cases = [
        ("A=1\ns3cret", "line 2 has no '='"),
        ("=s3cret", "line 1 is no variable"),
        ("A B=s3cret", "line 1 is no variable"),
        ("A=\"s3cret", "line 1 has a quote without its end"),
        ("A='s3cret'x", "line 1 goes on behind its quotes"),
        ("A=\0", "line 1 is no variable"),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(text).expect_err(text).to_string(), expected);
    }
}

#[test]
fn what_is_no_file_or_a_long_one_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("env");
    assert!(read(&path).is_err() && read(folder.path()).is_err());
    std::fs::write(&path, "A=1").unwrap();
    assert_eq!(read(&path).expect("variables")["A"].expose(), "1");
    std::fs::write(&path, "#".repeat((256 << 10) + 1)).unwrap();
    assert!(read(&path).is_err());
}
