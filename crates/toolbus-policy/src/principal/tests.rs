use proptest::prelude::*;

use super::*;

fn pattern(text: &str) -> PrincipalPattern {
    PrincipalPattern::parse(text).unwrap()
}

fn principal(name: &str, proof: Proof) -> Principal {
    Principal { name: name.into(), proof }
}

fn token(issuer: &str, name: &str) -> Principal {
    principal(name, Proof::Token { issuer: issuer.into(), id: None })
}

fn broker(user: &str, name: &str) -> Principal {
    principal(name, Proof::Broker { user: user.into() })
}

#[test]
fn a_pattern_matches_by_proof_and_name() {
    let check = |text: &str, who: &Principal, expected: bool| {
        assert_eq!(pattern(text).matches(who), expected, "{text} of {}", principal_text(who));
    };
    let local = Principal::local();
    let alice = Principal::claimed("alice");
    check("*", &local, true);
    check("local:*", &local, true);
    check("local:*", &alice, false);
    check("claimed:al*", &alice, true);
    check("broker:alice", &alice, false);
    check("broker:ci", &broker("ci", "alice"), true);
    check("broker:alice", &broker("ci", "alice"), false);
    check("token:https://id.example/*", &token("https://id.example", "alice"), true);
    check("token:https://*/alice", &token("https://id.example", "alice"), true);
    check("token:https://*/alice", &token("https://id.example", "bob"), false);
    check("claimed:100%25", &Principal::claimed("100%"), true);
    check("claimed:%2A", &Principal::claimed("*"), true);
    check("claimed:%2A", &Principal::claimed("a"), false);
}

/// A name is chosen by whoever has it, and none of them is a way to be somebody else.
#[test]
fn nobody_is_another_by_a_name() {
    let check = |text: &str, who: &Principal| {
        assert!(!pattern(text).matches(who), "{text} matches {}", principal_text(who));
    };
    check("local:local", &Principal::claimed("local:local"));
    check("broker:ci", &Principal::claimed("broker:ci"));
    check("token:a/b", &Principal::claimed("token:a/b"));
    // The name of one issuer's user is not another issuer's, wherever its `/` stands.
    check("token:a/b/c", &token("a", "b/c"));
    check("token:a*/c", &token("a", "b/c"));
    assert!(pattern("token:a/b%2Fc").matches(&token("a", "b/c")));
    assert!(!pattern("token:a/b%2Fc").matches(&token("a/b", "c")));
    assert!(pattern("token:a/b/c").matches(&token("a/b", "c")));
}

#[test]
fn a_pattern_that_means_nothing_is_told() {
    let check = |text: &str, expected: &str| {
        let error = PrincipalPattern::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    };
    check("", "it is empty");
    check("alice", "it begins with no proof");
    check("local", "such as `local:*`");
    check("claimed:", "such as `claimed:*`");
    check("clamed:bob", "such as `claimed:bob`");
    check("Local:x", "such as `local:x`");
    check("*:x", "it begins with no proof");
    check("token:alice", "`token:ISSUER/NAME`");
    check("token:/alice", "`token:ISSUER/NAME`");
    check("claimed:100%", "write `%25`");
    check("claimed:%ff", "write `%25`");
    check("claimed:a**", "one `*`");
}

#[test]
fn every_proof_can_be_written() {
    for proof in Proof::NAMES {
        let text = format!("{proof}:x/y");
        assert_eq!(principal_text(&parse_principal(&text).unwrap()), text);
        let sample = pattern(&text).sample("").unwrap();
        assert_eq!(sample.proof.as_str(), proof);
    }
}

#[test]
fn a_pattern_covers_those_of_its_proof() {
    let covers =
        |general: &str, specific: &str| pattern(general).covers(&pattern(specific).symbols());
    assert!(covers("*", "local:*") && !covers("local:*", "*"));
    assert!(covers("claimed:*", "claimed:a*") && !covers("claimed:*", "local:a"));
    assert!(covers("token:*/*", "token:a/b") && covers("token:a/*", "token:a/b*"));
    assert!(!covers("token:a/*", "token:*/b") && !covers("token:*/b", "token:a/*"));
}

fn any_principal() -> impl Strategy<Value = Principal> {
    let text = || "[ab:/%*\\PC\u{1}]{1,6}";
    let proof = prop_oneof![
        Just(Proof::Claimed),
        Just(Proof::Local),
        text().prop_map(|user| Proof::Broker { user: user.into() }),
        text().prop_map(|issuer| Proof::Token { issuer: issuer.into(), id: None }),
    ];
    (text(), proof).prop_map(|(name, proof)| {
        // Of one that the broker knows, only the user counts.
        let name = if let Proof::Broker { user } = &proof { user.to_string() } else { name };
        principal(&name, proof)
    })
}

/// A principal with an id where its kind has one.
fn any_owner() -> impl Strategy<Value = Principal> {
    (any_principal(), proptest::option::of("[ab#/%*\\PC]{1,6}")).prop_map(|(mut who, given)| {
        if let Proof::Token { id, .. } = &mut who.proof {
            *id = given.map(Into::into);
        }
        who
    })
}

proptest! {
    /// Two owners are never written alike, and each is read as it was written.
    #[test]
    fn owners_are_told_apart(who in any_owner(), other in any_owner()) {
        let text = owner_text(&who);
        prop_assert_eq!(&parse_owner(&text).unwrap(), &who);
        prop_assert_eq!(text == owner_text(&other), who == other);
    }

    #[test]
    fn what_is_written_is_read_as_the_same(who in any_principal(), other in any_principal()) {
        let text = principal_text(&who);
        prop_assert_eq!(&parse_principal(&text).unwrap(), &who);
        if text.trim() == text {
            prop_assert!(pattern(&text).matches(&who), "{}", text);
            prop_assert_eq!(pattern(&text).matches(&other), who == other);
        }
    }
}
