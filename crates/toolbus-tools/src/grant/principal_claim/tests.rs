use super::*;

fn claim(name: &str, proof: Proof) -> String {
    write_principal_claim(&Principal { name: name.into(), proof })
}

fn issuer(issuer: &str) -> Proof {
    Proof::Token { issuer: issuer.into(), id: None }
}

#[test]
fn a_claim_says_who_calls_and_how_that_is_known() {
    let user = Proof::Broker { user: "toolbus".into() };
    assert_eq!(claim("ada", Proof::Claimed), "claimed:ada");
    assert_eq!(claim("ada", Proof::Local), "local:ada");
    assert_eq!(claim("ada", user), "broker(toolbus):ada");
    assert_eq!(claim("ada", issuer("https://id.example/")), "token(https://id.example/):ada");

    let longest = "n".repeat(NAME_BYTES_MAX);
    assert_eq!(claim(&longest, Proof::Claimed), format!("claimed:{longest}"));
}

#[test]
fn a_name_that_is_too_long_is_cut_and_still_another_than_its_like() {
    let ada = "\u{1f980}".repeat(1_000);
    let cut = claim(&ada, Proof::Claimed);
    assert!(cut.starts_with("claimed:\u{1f980}"), "{cut}");
    assert_eq!(cut.len(), "claimed:".len() + NAME_BYTES_MAX + 1 + 2 * DIGEST_BYTES);

    let others = [format!("{ada}."), cut["claimed:".len()..].to_owned()];
    for other in others {
        assert_ne!(claim(&other, Proof::Claimed), cut);
        assert_ne!(claim("ada", issuer(&other)), claim("ada", issuer(&ada)));
    }
}

#[test]
fn no_name_ends_the_one_before_it() {
    assert_ne!(claim("c", issuer("a):b")), claim("b):c", issuer("a")));
    assert_ne!(claim("c", issuer("a\\):b")), claim("b\\):c", issuer("a\\")));
    assert_eq!(claim("c", issuer("a):b")), "token(a\\):b):c");
}
