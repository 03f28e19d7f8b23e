use super::*;
use crate::principal::parse_principal;

fn set(globs: &[&str]) -> Result<PrincipalSet, PrincipalSetError> {
    let globs: Vec<String> = globs.iter().map(|glob| (*glob).to_owned()).collect();
    PrincipalSet::parse(&globs)
}

#[test]
fn a_set_has_whom_one_of_its_globs_matches() {
    let check = |globs: &[&str], principal: &str, expected: bool| {
        let audience = set(globs).unwrap().into_audience();
        let principal = parse_principal(principal).unwrap();
        assert_eq!(audience.has(&principal), expected, "{globs:?} {principal:?}");
    };
    check(&["local:*"], "local:local", true);
    check(&["local:*"], "claimed:local", false);
    check(&["local:*"], "claimed:local:local", false);
    check(&["local:*"], "token:http/local", false);
    check(&["local:*", "claimed:mcp"], "claimed:mcp", true);
    check(&["local:*", "claimed:mcp"], "claimed:mcp2", false);
    check(&["token:http/a*"], "token:http/ana", true);
    check(&["token:http/a*"], "token:other/ana", false);
    check(&["*"], "claimed:anybody", true);
    assert!(!PrincipalSet::default().into_audience().has(&Principal::local()));
}

#[test]
fn what_is_no_set_is_refused() {
    assert_eq!(set(&[]), Err(PrincipalSetError::Empty));
    let many: Vec<&str> = std::iter::repeat_n("local:*", GLOBS_MAX + 1).collect();
    assert_eq!(set(&many), Err(PrincipalSetError::TooMany(GLOBS_MAX + 1)));
    for wrong in ["ana", "local", "claimed:**", " local:*", "token:http"] {
        let error = set(&["local:*", wrong]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("the glob {wrong:?}: ")), "{error}");
    }
}
