//! What is taken, in which form, and what is refused.

use proptest::prelude::*;

use super::*;

fn normal(text: &str) -> Result<String, Error> {
    Requirements::parse(&[text.to_owned()]).map(|set| set.iter().collect::<Vec<_>>().join(" "))
}

#[test]
fn requirements_have_one_form() {
    for (text, expected) in [
        ("requests", "requests"),
        ("  Requests ", "requests"),
        ("zope.interface", "zope-interface"),
        ("A__b-.c", "a-b-c"),
        ("numpy==2.0", "numpy==2.0"),
        ("numpy == 2.0", "numpy==2.0"),
        ("numpy>=1,<3", "numpy<3,>=1"),
        ("numpy (>=1, <3)", "numpy<3,>=1"),
        ("x==1.*", "x==1.*"),
        ("x~=1.4.5a4", "x~=1.4.5a4"),
        ("x==1!2.0rc1.post2.dev3+local.1", "x==1!2.0rc1.post2.dev3+local.1"),
        ("x>=1.0-1", "x>=1.0-1"),
        ("x<2.0.DEV0", "x<2.0.dev0"),
        ("requests[Socks,security]>=2", "requests[security,socks]>=2"),
        ("x[]", "x"),
        ("x; python_version<'3.11'", "x; python_version < \"3.11\""),
        (
            "x>1 ; (os_name == \"posix\" and 'linux' in sys_platform) or extra=='y'",
            "x>1; ( os_name == \"posix\" and \"linux\" in sys_platform ) or extra == \"y\"",
        ),
        (
            "x; platform_machine not in 'arm64 aarch64'",
            "x; platform_machine not in \"arm64 aarch64\"",
        ),
    ] {
        assert_eq!(normal(text), Ok(expected.to_owned()), "{text}");
        assert_eq!(normal(expected), Ok(expected.to_owned()), "its own form");
    }
}

#[test]
fn everything_else_is_refused() {
    for text in [
        "",
        " ",
        "-",
        "--index-url=http://evil",
        "-r/etc/passwd",
        "-r",
        "-e .",
        "../x",
        "./x",
        "/etc/passwd",
        "~/x",
        "git+https://example.org/x",
        "https://example.org/x.whl",
        "file:///etc/passwd",
        "x @ https://example.org/x.whl",
        "x@file:///x",
        "x.whl",
        "x-1.0.tar.gz",
        "x.zip",
        "x; id",
        "x; rm -rf /",
        "x && id",
        "x | id",
        "x`id`",
        "$(id)",
        "x\nid",
        "x\n--index-url=http://evil",
        "x\0",
        "x y",
        "x,y",
        "x>",
        "x=1",
        "x==",
        "x==1..0",
        "x==1.*.2",
        "x>=1.*",
        "x===1",
        "x==$1",
        "x==1;",
        "x; python_version",
        "x; os_name=='a",
        "x; os_name=='\u{e9}'",
        "x; (os_name=='a'",
        "x; os_name=='a')",
        "x; foo=='a'",
        "x; os_name=='a' xor os_name=='b'",
        "x[",
        "x[a",
        "x[a;]",
        "x(>1",
        "x>1)",
        "é",
        "x\u{2028}",
        "x --pre",
        "x==1 --hash=sha256:0",
        "_x",
        "x_",
        ".x",
    ] {
        let refused = normal(text);
        assert!(matches!(refused, Err(Error::Refused { .. })), "{text:?}: {refused:?}");
    }

    assert_eq!(normal(&"x".repeat(REQUIREMENT_BYTES_MAX + 1)), Err(Error::TooLong));

    let many = vec!["x".to_owned(); PACKAGES_MAX + 1];
    assert_eq!(Requirements::parse(&many), Err(Error::TooMany));
}

#[test]
fn sets_do_not_depend_on_order_or_spelling() {
    let parse = |texts: &[&str]| {
        Requirements::parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(parse(&["b>1", "A"]), parse(&["a", "B >1", "a"]));
    assert_ne!(parse(&["a"]), parse(&["a>1"]));
    assert!(parse(&[]).expect("nothing").is_empty());
}

proptest! {
    /// Whatever comes in, what comes out is one word that no installer takes for an option, a path
    /// or an address, and reading it again changes nothing.
    #[test]
    fn what_is_taken_is_harmless(text in "[ -~]{0,40}|[a-z]{1,5}[ \\[\\](),<>=!~;.0-9a-z'\"-]{0,30}") {
        if let Ok(taken) = normal(&text) {
            let name: String = taken.chars().take_while(|char| char.is_ascii_alphanumeric()).collect();
            prop_assert!(!name.is_empty());
            prop_assert!(!taken.contains(['/', '@', ':', '\\', '$', '`', '&', '|', '\n']));
            prop_assert_eq!(normal(&taken), Ok(taken.clone()));
        }
    }
}
