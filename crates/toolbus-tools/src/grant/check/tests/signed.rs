//! Signed grants: their encoding, forgeries, and fleets in which some processes do not know them.

use std::fs;

use super::*;
use crate::grant::header_value::write_signed;
use crate::grant::settings::GrantCheckSettings;

/// The bytes 32 to 63.
const OTHER_SIGNING_KEY: &str = "ed25519-private:ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";

/// Returns a request of an agent with these keys.
fn sealed_with(shared: Option<&str>, signing: Option<&str>) -> Envelope {
    let signer = GrantSigner::new(shared.map(key), signing.map(signing_key));
    sealed_by(&permit_by(Principal::local(), signer.as_ref()), in_a_minute())
}

fn verify_with(keys: GrantCheckKeys, envelope: &Envelope) -> Result<Claims, Refusal> {
    active_with(keys).verify(&TOPIC, envelope, &subject(), unix_now())
}

/// Verifies a request as a worker that has the public half of the signing key.
fn verify_signed(envelope: &Envelope) -> Result<Claims, Refusal> {
    verify_with(public_half(SIGNING_KEY), envelope)
}

/// Returns the five parts of the signed grant of a request.
fn signed_parts(envelope: &Envelope) -> Vec<String> {
    envelope.headers.get(header::SIGNED_GRANT).unwrap().split('.').map(str::to_owned).collect()
}

fn with_signed(mut envelope: Envelope, value: impl Into<String>) -> Envelope {
    envelope.headers.set(header::SIGNED_GRANT, value);
    envelope
}

/// Returns a request that is the same on every run.
fn fixed_request() -> Envelope {
    let body =
        br#"{"toolCallId":"call_1","toolName":"delete","arguments":"{\"path\":\"/tmp/a\"}"}"#;
    let kind = "RockBot.Tools.ToolInvokeRequest";
    let envelope = Envelope::new(kind, "RockBot", Bytes::from_static(body));
    Envelope { message_id: "5f0c1e7a".to_owned(), ..envelope }
        .with_correlation_id("0f1e2d3c")
        .with_reply_to(Topic::parse("tool.result.RockBot.1").unwrap())
        .with_header(header::MCP_SERVER, "files")
        .with_header(header::EXACT, "1")
        .with_header(header::DEADLINE_MS, "1700000060000")
}

/// Expected values are from another implementation. The first kind is what every release with
/// grants has sent.
#[test]
fn grants_of_both_kinds_have_these_bytes() {
    let shared = "1.1700000060000.bG9jYWw6YWRh.chNn1pI3OiRHIREHiCgLTVCRDQ7Arc5pHM4h87wlyYo";
    let signed = "2.8027a06987ea90f8.1700000060000.bG9jYWw6YWRh.4GKNeH1gC-7MZy-V6E9xfggXJZLvdWQyo\
                  Du1xTKCJthIwO2lLUb-xATAgRv0HoKYp0ReBrvMgw5w4AWwjy4hDg";
    let (request, subject) = (fixed_request(), subject());
    let claims = Claims { principal: "local:ada".to_owned(), expires_unix_ms: 1_700_000_060_000 };

    let signer = GrantSigner::new(Some(key(SECRET)), Some(signing_key(SIGNING_KEY))).unwrap();
    let headers = signer.seal(&SealedRequest::new(&TOPIC, &request, &subject), &claims);
    let expected = [(header::GRANT, shared), (header::SIGNED_GRANT, signed)];
    assert_eq!(headers, expected.map(|(name, value)| (name, value.to_owned())));

    let now = Duration::from_millis(1_700_000_000_000);
    for ((name, value), check) in
        expected.into_iter().zip([active(&[SECRET]), active_with(public_half(SIGNING_KEY))])
    {
        let envelope = request.clone().with_header(name, value);
        assert_eq!(check.verify(&TOPIC, &envelope, &subject, now).as_ref(), Ok(&claims), "{name}");
    }
}

#[test]
fn every_part_of_a_signed_grant_counts() {
    let changed = |at: usize, text: &str| {
        let envelope = signed();
        let mut parts = signed_parts(&envelope);
        parts[at] = text.to_owned();
        verify_signed(&with_signed(envelope, parts.join(".")))
    };
    let later = (unix_now() + Duration::from_secs(3600)).as_millis().to_string();
    let signature = signed_parts(&signed()).remove(4);

    assert_eq!(verify_signed(&signed()).unwrap().principal, "local:local");
    for (at, text, expected) in [
        (0, "1", Refusal::UnknownVersion),
        (0, "3", Refusal::UnknownVersion),
        (0, "", Refusal::UnknownVersion),
        (1, "", Refusal::UnknownKey),
        (1, "0123456789abcdef", Refusal::UnknownKey),
        (1, "8027A06987EA90F8", Refusal::UnknownKey),
        (2, &*later, Refusal::Mismatch),
        (2, "0", Refusal::Mismatch),
        (2, "soon", Refusal::Malformed),
        // "local:eve"
        (3, "bG9jYWw6ZXZl", Refusal::Mismatch),
        (3, "_w", Refusal::Malformed),
        (4, "", Refusal::Mismatch),
        (4, &signature[..84], Refusal::Mismatch),
        (4, &signature[..85], Refusal::Malformed),
        (4, &*[&*signature, "AA"].concat(), Refusal::Mismatch),
        (4, &*["AAAA", &*signature].concat(), Refusal::Mismatch),
        (4, &*[&*signature, ".x"].concat(), Refusal::Malformed),
    ] {
        assert_eq!(changed(at, text), Err(expected), "{at}: {text}");
    }
}

#[test]
fn a_signed_grant_expires_with_its_call_but_for_what_clocks_differ() {
    let envelope = signed();
    let expires = Duration::from_millis(signed_parts(&envelope)[2].parse().unwrap());
    let check = active_with(public_half(SIGNING_KEY));
    let at = |now| check.verify(&TOPIC, &envelope, &subject(), now);

    let second = Duration::from_secs(1);
    assert!(at(expires + CLOCK_SKEW_GRACE - second).is_ok());
    assert_eq!(at(expires + CLOCK_SKEW_GRACE + second), Err(Refusal::Expired));
}

#[test]
fn a_grant_of_one_kind_is_none_of_the_other() {
    let envelope = sealed_with(Some(SECRET), Some(SIGNING_KEY));
    let shared = envelope.headers.get(header::GRANT).unwrap().to_owned();
    let signed = envelope.headers.get(header::SIGNED_GRANT).unwrap().to_owned();

    let swapped = with_signed(envelope.clone(), shared.clone()).with_header(header::GRANT, signed);
    assert_eq!(verify_signed(&swapped), Err(Refusal::UnknownVersion));
    assert_eq!(verify(&swapped), Err(Refusal::UnknownVersion));

    // A MAC in the place of a signature.
    let parts = parts(&envelope);
    let id = signed_parts(&envelope).remove(1);
    let mac = format!("2.{id}.{}", parts[1..].join("."));
    assert_eq!(verify_signed(&with_signed(envelope, mac)), Err(Refusal::Mismatch));
}

#[test]
fn both_keys_count_during_a_rotation() {
    let [old, new] = [SIGNING_KEY, OTHER_SIGNING_KEY];
    let public = |text: &str| signing_key(text).public_key().clone();
    let both = || GrantCheckKeys::default().with_public([public(old), public(new)]);

    let [by_old, by_new] = [old, new].map(|key| sealed_with(None, Some(key)));
    assert!(verify_with(both(), &by_old).is_ok());
    assert!(verify_with(both(), &by_new).is_ok());
    assert_eq!(verify_with(public_half(new), &by_old), Err(Refusal::UnknownKey));
    assert!(verify_with(public_half(new), &by_new).is_ok());

    // A signature of one agent is not valid for another agent, even if both keys are known.
    let mut parts = signed_parts(&by_old);
    parts[1] = public(new).id().to_owned();
    let renamed = with_signed(by_old, parts.join("."));
    assert_eq!(verify_with(both(), &renamed), Err(Refusal::Mismatch));
}

/// Before the migration, an agent or worker has only the shared key; afterwards, only its half of
/// the pair. In between it has both.
#[test]
fn a_fleet_changes_over_one_process_at_a_time() {
    let agents = [
        ("old", Some(SECRET), None),
        ("both", Some(SECRET), Some(SIGNING_KEY)),
        ("new", None, Some(SIGNING_KEY)),
        ("none", None, None),
    ];
    let shared = || GrantCheckKeys::from(key(SECRET));
    let workers = [
        ("old", shared()),
        ("both", public_half(SIGNING_KEY).with_shared(key(SECRET))),
        ("new", public_half(SIGNING_KEY)),
    ];

    for (agent, shared_key, signing) in agents {
        let envelope = sealed_with(shared_key, signing);
        if shared_key.is_some() {
            // An additional part would be malformed to a worker of the previous release.
            assert_eq!(parts(&envelope).len(), 4, "{agent}");
        }
        for (worker, keys) in &workers {
            let expected = match (agent, *worker) {
                ("none", _) => Err(Refusal::Missing),
                ("old", "new") => Err(Refusal::SharedKeyEnded),
                ("new", "old") => Err(Refusal::UnknownKey),
                _ => Ok("local:local".to_owned()),
            };
            let found = verify_with(keys.clone(), &envelope).map(|claims| claims.principal);
            assert_eq!(found, expected, "{agent} agent, {worker} worker");

            let check = GrantCheck::new("bridge", GrantPolicy::Require, keys.clone());
            let taken = check.check(received(&envelope), subject);
            assert_eq!(taken.is_ok(), expected.is_ok(), "{agent} agent, {worker} worker");
            assert!(taken.is_err() || check.is_granted(&envelope.headers));
        }
    }
}

/// An attacker with the shared key adds a valid grant to a request with a wrong signature.
#[test]
fn the_shared_key_does_not_rescue_a_wrong_signature() {
    let both = || public_half(SIGNING_KEY).with_shared(key(SECRET));
    let sealed = sealed_with(Some(SECRET), Some(SIGNING_KEY));
    let other = sealed_with(None, Some(OTHER_SIGNING_KEY));
    let unknown = other.headers.get(header::SIGNED_GRANT).unwrap();
    let of_another_call = signed_parts(&signed()).join(".");

    for (value, expected) in [
        ("", Refusal::Malformed),
        ("2", Refusal::Malformed),
        ("nonsense", Refusal::Malformed),
        ("3.a.1.YQ.YQ", Refusal::UnknownVersion),
        (unknown, Refusal::UnknownKey),
        (&*of_another_call, Refusal::Mismatch),
    ] {
        let envelope = with_signed(sealed.clone(), value);
        assert!(verify(&envelope).is_ok(), "the shared key's grant is good");
        assert_eq!(verify_with(both(), &envelope), Err(expected), "{value}");
        for policy in [GrantPolicy::Require, GrantPolicy::CheckPresent] {
            let check = GrantCheck::new("bridge", policy, both());
            let error = check.check(received(&envelope), subject).unwrap_err();
            assert_eq!(error.code, ErrorCode::Denied, "{value}");
        }
    }
}

#[test]
fn a_worker_that_takes_no_shared_key_says_so_and_counts_it() {
    let old = sealed();
    for policy in [GrantPolicy::Require, GrantPolicy::CheckPresent] {
        let check = GrantCheck::new("bridge", policy, public_half(SIGNING_KEY));
        let error = check.check(received(&old), subject).unwrap_err();
        assert!(error.message.contains("the shared key, which does not count here"), "{error}");
        assert_eq!(error.execution, Execution::NotStarted);
    }

    let unknown = sealed_with(None, Some(OTHER_SIGNING_KEY));
    let wrong = with_signed(sealed(), "2.a");
    let envelopes = [sealed(), sealed(), signed(), unknown, wrong, request()];
    let counts = counted(GrantPolicy::Require, public_half(SIGNING_KEY), &envelopes);
    let expected = [
        ("1 shared_key_ended", 2),
        ("2 malformed", 1),
        ("2 unknown_key", 1),
        ("2 valid", 1),
        ("none missing_refused", 1),
    ];
    assert_eq!(counts, expected.map(|(label, count)| (label.to_owned(), count)));
}

#[test]
fn a_signed_header_that_is_too_long_is_not_read() {
    let longest = with_signed(signed(), "2".repeat(HEADER_BYTES_MAX + 1));
    assert_eq!(verify_signed(&longest), Err(Refusal::Malformed));

    let name: Arc<str> = "\u{1f980}".repeat(2_000).into();
    let issuer = Proof::Token { issuer: name.clone(), id: None };
    let signer = GrantSigner::from(signing_key(SIGNING_KEY));
    let permit = permit_by(Principal { name, proof: issuer }, Some(&signer));
    let envelope = sealed_by(&permit, in_a_minute());
    assert!(verify_signed(&envelope).is_ok());
    let length = envelope.headers.get(header::SIGNED_GRANT).unwrap().len();
    assert!(length <= 1_400, "{length}");
}

/// An attacker takes everything that a worker reads at its start from its process and folder.
#[test]
fn a_worker_cannot_make_a_grant() {
    let folder = tempfile::tempdir().unwrap();
    let public = signing_key(SIGNING_KEY).public_key().clone();
    let file = folder.path().join("public-keys");
    fs::write(&file, format!("{public} of RockBot\n")).unwrap();
    let settings = GrantCheckSettings {
        required: true,
        public_keys_file: Some(file),
        ..GrantCheckSettings::default()
    };
    let check = settings.load_check("bridge").unwrap();
    assert!(check.check(received(&signed()), subject).is_ok(), "its agent is served");

    let text = public.to_string();
    let (_, encoded) = text.split_once(':').unwrap();
    let mut taken = vec![
        text.clone(),
        encoded.to_owned(),
        public.id().to_owned(),
        format!("{settings:?}"),
        serde_json::to_string(&settings).unwrap(),
        // The bytes of the public key, presented as a private key.
        format!("ed25519-private:{encoded}"),
    ];
    for entry in fs::read_dir(folder.path()).unwrap() {
        taken.push(fs::read_to_string(entry.unwrap().path()).unwrap());
    }

    let claims =
        Claims { principal: "local:local".to_owned(), expires_unix_ms: in_a_minute().unix_ms() };
    let mut forged = vec![
        // A grant that the worker received, on another request.
        with_signed(request(), signed().headers.get(header::SIGNED_GRANT).unwrap()),
    ];
    for text in &taken {
        if let Ok(key) = GrantKey::new(text) {
            let signer = GrantSigner::from(key);
            forged.push(sealed_by(&permit_by(Principal::local(), Some(&signer)), in_a_minute()));
        }
        if let Ok(key) = GrantSigningKey::parse(text) {
            let request = request();
            let subject = subject();
            let sealed = SealedRequest::new(&TOPIC, &request, &subject);
            let signature = key.sign(&sealed.signed_bytes(public.id(), &claims));
            let value = write_signed(public.id(), &claims, signature.as_ref());
            forged.push(with_signed(request.clone(), value));
            forged.push(sealed_with(None, Some(text.as_str())));
        }
    }

    assert!(forged.len() >= 6, "little was tried: {}", forged.len());
    for envelope in &forged {
        let error = check.check(received(envelope), subject).unwrap_err();
        assert_eq!(error.code, ErrorCode::Denied, "{envelope:?}");
    }
}

proptest! {
    #[test]
    fn no_header_is_a_signed_grant_by_chance_nor_a_panic(value in ".{0,400}") {
        prop_assert!(verify_signed(&with_signed(request(), value)).is_err());
    }

    #[test]
    fn nor_is_one_that_looks_like_a_signed_grant(
        expiry in any::<u64>(),
        principal in "[A-Za-z0-9_-]{0,60}",
        signature in "[A-Za-z0-9_-]{0,90}",
    ) {
        let id = signed_parts(&signed()).remove(1);
        let value = format!("2.{id}.{expiry}.{principal}.{signature}");
        prop_assert!(verify_signed(&with_signed(request(), value)).is_err());
    }

    #[test]
    fn nor_a_signed_one_with_a_changed_character(
        at in any::<prop::sample::Index>(),
        to in any::<char>(),
    ) {
        let envelope = signed();
        let value = envelope.headers.get(header::SIGNED_GRANT).unwrap();
        let mut grant: Vec<char> = value.chars().collect();
        let at = at.index(grant.len());
        prop_assume!(grant[at] != to);
        grant[at] = to;
        let changed = with_signed(envelope.clone(), grant.into_iter().collect::<String>());
        prop_assert!(verify_signed(&changed).is_err());
    }
}
