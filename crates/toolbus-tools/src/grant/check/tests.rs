//! Requests that were changed on their way, grants that are none, and what is told of either.

use std::sync::Arc;

use bytes::Bytes;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use parking_lot::Mutex;
use proptest::prelude::*;
use toolbus_bus::requester::Seal as _;
use toolbus_bus::{Deadline, Envelope};
use toolbus_wire::message::tool::ToolInvokeRequest;
use toolbus_wire::name::AgentName;
use toolbus_wire::topic;

use super::super::header_value::HEADER_BYTES_MAX;
use super::super::{GrantSigner, GrantSigningKey, KeyTooShort, Permit};
use super::*;
use crate::scope::{Door, Principal, Proof, Scope};
use crate::subject::Subject;
use crate::tool::{Annotations, Risk};

mod signed;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
/// Every header that a worker acts on, listed again: one that is left out of the MAC shows here.
const ACTED_ON: [&str; 10] = [
    header::MCP_SERVER,
    header::EXACT,
    header::TIMEOUT_MS,
    header::DEADLINE_MS,
    header::EXTENSION_MS,
    header::SESSION,
    header::PROGRESS_TO,
    header::QUIET,
    header::ASK_TO,
    header::ASK_KINDS,
];
const OTHER_SECRET: &str = "fedcba9876543210fedcba9876543210";
/// The bytes 0 to 31.
const SIGNING_KEY: &str = "ed25519-private:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn key(secret: &str) -> GrantKey {
    GrantKey::new(secret).unwrap()
}

fn signing_key(text: &str) -> GrantSigningKey {
    GrantSigningKey::parse(text).unwrap()
}

/// Returns the keys of a worker that has the public half of this key.
fn public_half(text: &str) -> GrantCheckKeys {
    GrantCheckKeys::default().with_public([signing_key(text).public_key().clone()])
}

/// The topic of every request here.
static TOPIC: Topic = topic::TOOL_INVOKE_MCP;

fn subject() -> ToolId {
    ToolId::of("mcp:files", "delete")
}

fn permit_of(principal: Principal, secret: &str) -> Permit {
    permit_by(principal, Some(&GrantSigner::from(key(secret))))
}

fn permit_by(principal: Principal, signer: Option<&GrantSigner>) -> Permit {
    let subject = Subject {
        id: subject(),
        definition: None,
        annotations: Annotations::default(),
        risk: Risk::High,
        audience: Default::default(),
    };
    let scope = Scope::new(Door::Mcp, principal, AgentName::standard());
    Permit::new(&subject, &scope, signer)
}

fn received(envelope: &Envelope) -> Received<'_> {
    Received { topic: &TOPIC, envelope, redelivered: false }
}

/// A request as a requester completes it, with every header that is sealed.
fn request() -> Envelope {
    let body = ToolInvokeRequest {
        tool_call_id: "call_1".to_owned(),
        tool_name: "delete".to_owned(),
        arguments: Some("{\"path\":\"/tmp/a\"}".to_owned()),
        session_id: None,
    };
    let mut envelope = Envelope::of(&body, "RockBot")
        .with_correlation_id("correlation")
        .with_reply_to(Topic::parse("tool.result.RockBot.1").unwrap());
    for name in ACTED_ON {
        envelope.headers.set(name, "1");
    }
    envelope
}

fn sealed_by(permit: &Permit, deadline: Deadline) -> Envelope {
    let mut envelope = request();
    permit.seal(&topic::TOOL_INVOKE_MCP, deadline, &mut envelope);
    envelope
}

fn in_a_minute() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

fn sealed() -> Envelope {
    sealed_by(&permit_of(Principal::local(), SECRET), in_a_minute())
}

fn signed() -> Envelope {
    let signer = GrantSigner::from(signing_key(SIGNING_KEY));
    sealed_by(&permit_by(Principal::local(), Some(&signer)), in_a_minute())
}

fn check(policy: GrantPolicy) -> GrantCheck {
    GrantCheck::new("bridge", policy, key(SECRET))
}

fn active(keys: &[&str]) -> ActiveCheck {
    let keys = keys.iter().map(|secret| key(secret));
    active_with(keys.fold(GrantCheckKeys::default(), GrantCheckKeys::with_shared))
}

fn active_with(keys: GrantCheckKeys) -> ActiveCheck {
    ActiveCheck {
        worker: "bridge",
        keys,
        policy: GrantPolicy::Require,
        checks: GRANT_CHECKS.counter(&opentelemetry::global::meter(METER)),
    }
}

fn verify(envelope: &Envelope) -> Result<Claims, Refusal> {
    active(&[SECRET]).verify(&topic::TOOL_INVOKE_MCP, envelope, &subject(), unix_now())
}

/// The grant of a request, in its four parts.
fn parts(envelope: &Envelope) -> Vec<String> {
    envelope.headers.get(header::GRANT).unwrap().split('.').map(str::to_owned).collect()
}

#[test]
fn what_an_agent_has_sealed_passes_with_what_it_claims() {
    let claims = verify(&sealed()).unwrap();
    assert_eq!(claims.principal, "local:local");

    let token =
        Principal { name: "ada".into(), proof: Proof::Token { issuer: "corp".into(), id: None } };
    let user = Principal { name: "bob".into(), proof: Proof::Broker { user: "toolbus".into() } };
    for (principal, expected) in [
        (
            Principal::claimed("any.text, \u{1f980} and\ncontrols"),
            "claimed:any.text, \u{1f980} and\ncontrols",
        ),
        (token, "token(corp):ada"),
        (user, "broker(toolbus):bob"),
    ] {
        let envelope = sealed_by(&permit_of(principal, SECRET), in_a_minute());
        assert_eq!(verify(&envelope).unwrap().principal, expected);
    }
}

#[test]
fn a_permit_without_a_key_leaves_no_grant() {
    let keyless = permit_by(Principal::local(), None);
    let envelope = sealed_by(&keyless, in_a_minute());
    assert_eq!(envelope.headers.get(header::GRANT), None);
    assert_eq!(verify(&envelope), Err(Refusal::Missing));
}

#[test]
fn every_part_of_a_request_is_sealed() {
    type Change = Box<dyn Fn(&mut Envelope)>;
    let mut changes: Vec<(String, Change)> = vec![
        (
            "body".to_owned(),
            Box::new(|e| {
                let body = String::from_utf8(e.body.to_vec()).unwrap();
                assert!(body.contains("/tmp/a"), "{body}");
                e.body = Bytes::from(body.replace("/tmp/a", "/tmp/b"));
            }),
        ),
        ("no body".to_owned(), Box::new(|e| e.body = Bytes::new())),
        ("type".to_owned(), Box::new(|e| e.message_type.push('x'))),
        (
            "case of the type".to_owned(),
            Box::new(|e| e.message_type = e.message_type.to_lowercase()),
        ),
        ("source".to_owned(), Box::new(|e| e.source = "Other".to_owned())),
        ("message id".to_owned(), Box::new(|e| e.message_id = "other".to_owned())),
        ("correlation id".to_owned(), Box::new(|e| e.correlation_id = Some("other".to_owned()))),
        ("no correlation id".to_owned(), Box::new(|e| e.correlation_id = None)),
        ("reply topic".to_owned(), Box::new(|e| e.reply_to = Some(Topic::parse("mine").unwrap()))),
        ("no reply topic".to_owned(), Box::new(|e| e.reply_to = None)),
        // What stands at the end of one part and at the beginning of the next.
        (
            "shifted parts".to_owned(),
            Box::new(|e| {
                e.message_id = format!("t{}", e.message_id);
                assert_eq!(e.source.pop(), Some('t'));
            }),
        ),
    ];
    for name in ACTED_ON {
        changes.push((format!("{name} changed"), Box::new(move |e| e.headers.set(name, "2"))));
        changes.push((format!("{name} emptied"), Box::new(move |e| e.headers.set(name, ""))));
        changes.push((
            format!("no {name}"),
            Box::new(move |e| {
                let others = e.headers.iter().filter(|(other, _)| *other != name);
                let others = others.map(|(name, value)| (name.to_owned(), value.to_owned()));
                e.headers = others
                    .collect::<Vec<_>>()
                    .into_iter()
                    .fold(header::Headers::new(), |headers, (name, value)| {
                        headers.with(name, value)
                    });
            }),
        ));
    }

    for (what, change) in changes {
        let shared = (sealed(), active(&[SECRET]));
        let signed = (signed(), active_with(public_half(SIGNING_KEY)));
        for (mut envelope, check) in [shared, signed] {
            let verify = |envelope: &Envelope| {
                check.verify(&TOPIC, envelope, &subject(), unix_now()).map(|_| ())
            };
            assert_eq!(verify(&envelope), Ok(()), "{what}");
            change(&mut envelope);
            assert_eq!(verify(&envelope), Err(Refusal::Mismatch), "{what}");
        }
    }
}

#[test]
fn a_grant_is_for_one_topic_and_one_subject() {
    let shared = (sealed(), active(&[SECRET]));
    let signed = (signed(), active_with(public_half(SIGNING_KEY)));
    for (envelope, check) in [shared, signed] {
        let at =
            |topic: &Topic, subject: ToolId| check.verify(topic, &envelope, &subject, unix_now());

        assert!(at(&topic::TOOL_INVOKE_MCP, subject()).is_ok());
        assert_eq!(at(&topic::SCRIPT_INVOKE, subject()), Err(Refusal::Mismatch));
        for (provider, tool) in
            [("mcp:files", "read"), ("mcp:mail", "delete"), ("mcp:file", "s/delete")]
        {
            let other = at(&topic::TOOL_INVOKE_MCP, ToolId::of(provider, tool));
            assert_eq!(other, Err(Refusal::Mismatch), "{provider}/{tool}");
        }
    }
}

#[test]
fn every_claim_is_sealed() {
    let changed = |at: usize, text: &str| {
        let mut envelope = sealed();
        let mut parts = parts(&envelope);
        parts[at] = text.to_owned();
        envelope.headers.set(header::GRANT, parts.join("."));
        verify(&envelope)
    };
    let later = (unix_now() + Duration::from_secs(3600)).as_millis().to_string();
    assert_eq!(changed(0, "2"), Err(Refusal::UnknownVersion));
    assert_eq!(changed(0, ""), Err(Refusal::UnknownVersion));
    assert_eq!(changed(1, &later), Err(Refusal::Mismatch));
    // Whoever claims to be late is no less wrong.
    assert_eq!(changed(1, "0"), Err(Refusal::Mismatch));
    assert_eq!(changed(1, "soon"), Err(Refusal::Malformed));
    assert_eq!(changed(1, "-1"), Err(Refusal::Malformed));
    // "local:eve"
    assert_eq!(changed(2, "bG9jYWw6ZXZl"), Err(Refusal::Mismatch));
    assert_eq!(changed(2, "not base64!"), Err(Refusal::Malformed));
    assert_eq!(changed(2, "_w"), Err(Refusal::Malformed), "no text");
    assert_eq!(changed(3, ""), Err(Refusal::Mismatch));
    let mac = parts(&sealed()).remove(3);
    assert_eq!(changed(3, &mac[..41]), Err(Refusal::Malformed), "a part of it");
    assert_eq!(changed(3, &mac[..40]), Err(Refusal::Mismatch), "the first 30 bytes of it");
    assert_eq!(changed(3, &format!("{mac}.x")), Err(Refusal::Malformed));
}

#[test]
fn the_key_and_the_one_before_it_count() {
    let envelope = sealed();
    let by = |keys: &[&str]| {
        active(keys).verify(&topic::TOOL_INVOKE_MCP, &envelope, &subject(), unix_now())
    };
    assert!(by(&[SECRET]).is_ok());
    assert!(by(&[OTHER_SECRET, SECRET]).is_ok());
    assert_eq!(by(&[OTHER_SECRET]), Err(Refusal::Mismatch));
    assert_eq!(by(&[OTHER_SECRET, &format!("{SECRET}0")]), Err(Refusal::Mismatch));

    let keys = GrantCheckKeys::from(key(OTHER_SECRET)).with_shared(key(SECRET));
    let changed = GrantCheck::new("bridge", GrantPolicy::Require, keys);
    assert!(changed.check(received(&envelope), subject).is_ok());
    assert_eq!(GrantKey::new(&SECRET[1..]).err(), Some(KeyTooShort(31)));
}

#[test]
fn a_grant_expires_with_its_call_but_for_what_clocks_differ() {
    let envelope = sealed();
    let expires = Duration::from_millis(parts(&envelope)[1].parse().unwrap());
    let left = expires.saturating_sub(unix_now());
    assert!((50..=60).contains(&left.as_secs()), "{left:?}");

    let at = |now| active(&[SECRET]).verify(&topic::TOOL_INVOKE_MCP, &envelope, &subject(), now);
    let second = Duration::from_secs(1);
    assert!(at(Duration::ZERO).is_ok(), "the worker's clock is behind");
    assert!(at(expires + CLOCK_SKEW_GRACE - second).is_ok());
    assert_eq!(at(expires + CLOCK_SKEW_GRACE + second), Err(Refusal::Expired));
    assert_eq!(at(Duration::MAX), Err(Refusal::Expired));
}

#[test]
fn a_grant_is_no_other_requests() {
    let grant = sealed().headers.get(header::GRANT).unwrap().to_owned();
    // The same call again, as its caller would make it: another message.
    let mut again = request();
    assert_ne!(again.message_id, sealed().message_id);
    again.headers.set(header::GRANT, grant);
    assert_eq!(verify(&again), Err(Refusal::Mismatch));
}

#[test]
fn who_is_refused_is_told_why_and_that_nothing_was_started() {
    let refused = |policy, envelope: &Envelope, redelivered| {
        let received = Received { topic: &TOPIC, envelope, redelivered };
        check(policy).check(received, subject).unwrap_err()
    };
    let mut forged = sealed();
    forged.body = Bytes::from_static(b"{}");

    let missing = refused(GrantPolicy::Require, &request(), false);
    assert_eq!(missing.code, ErrorCode::Denied);
    assert_eq!(missing.message, "this bridge requires a grant: the request has none");
    assert_eq!(missing.execution, Execution::NotStarted);
    assert!(!missing.is_retryable);
    // A worker before this one may have demanded none.
    assert_eq!(refused(GrantPolicy::Require, &request(), true).execution, Execution::Unknown);

    let lenient = refused(GrantPolicy::CheckPresent, &forged, false);
    assert_eq!(
        lenient.message,
        "this bridge checks grants: the request's grant does not match the request or the key"
    );
}

#[test]
fn a_request_without_a_grant_passes_where_none_is_required() {
    let bare = request();
    let granted = sealed();
    for check in [GrantCheck::off(), GrantCheck::default(), check(GrantPolicy::CheckPresent)] {
        assert!(check.check(received(&bare), subject).is_ok());
        assert!(check.check(received(&granted), subject).is_ok());
        assert!(!check.is_granted(&bare.headers));
    }

    // Whoever looks at no grant is told nothing by one.
    assert!(!GrantCheck::off().is_granted(&granted.headers));
    assert!(check(GrantPolicy::CheckPresent).is_granted(&granted.headers));
    assert!(check(GrantPolicy::Require).is_granted(&granted.headers));
}

/// Counts the checks of these requests by version and result.
fn counted(
    policy: GrantPolicy,
    keys: GrantCheckKeys,
    envelopes: &[Envelope],
) -> Vec<(String, u64)> {
    let exporter = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(exporter.clone()).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    let check = GrantCheck::of_meter("bridge", policy, keys, &provider.meter("test"));

    for envelope in envelopes {
        // What becomes of it, others test.
        let _ = check.check(received(envelope), subject);
    }

    provider.force_flush().unwrap();
    let mut points = Vec::new();
    for resource in exporter.get_finished_metrics().unwrap() {
        for metric in resource.scope_metrics().flat_map(|scope| scope.metrics()) {
            assert_eq!(metric.name(), "toolbus.grant.checks");
            let AggregatedMetrics::U64(MetricData::Sum(sum)) = metric.data() else { panic!() };
            for point in sum.data_points() {
                let label = |name: &str| {
                    let found = point.attributes().find(|kv| kv.key.as_str() == name);
                    found.map(|kv| kv.value.to_string()).unwrap_or_default()
                };
                let labels = [label(GRANT_VERSION), label(GRANT_RESULT)].join(" ");
                points.push((labels, point.value()));
            }
        }
    }
    points.sort();
    points
}

#[test]
fn what_is_found_is_counted_a_missing_grant_by_what_became_of_it() {
    let mut forged = sealed();
    forged.source = "Other".to_owned();
    let envelopes = [sealed(), request(), request(), forged];
    let of = |points: [(&str, u64); 3]| points.map(|(label, count)| (label.to_owned(), count));

    let taken = counted(GrantPolicy::CheckPresent, key(SECRET).into(), &envelopes);
    assert_eq!(taken, of([("1 mismatch", 1), ("1 valid", 1), ("none missing", 2)]));
    let refused = counted(GrantPolicy::Require, key(SECRET).into(), &envelopes);
    assert_eq!(refused, of([("1 mismatch", 1), ("1 valid", 1), ("none missing_refused", 2)]));
}

/// Takes what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn neither_a_key_nor_a_grant_is_in_a_log_or_an_error() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let mut forged = sealed();
    forged.body = Bytes::from_static(b"{}");
    let other = sealed_by(&permit_of(Principal::local(), OTHER_SECRET), in_a_minute());

    let mut texts = String::new();
    let requests = [sealed(), forged, other, signed(), request()];
    tracing::subscriber::with_default(subscriber, || {
        for envelope in &requests {
            let received = received(envelope);
            let check = check(GrantPolicy::Require);
            tracing::error!(?check, ?received, headers = ?envelope.headers);
            let permit = permit_of(Principal::local(), SECRET);
            let (signing, public) = (signing_key(SIGNING_KEY), public_half(SIGNING_KEY).public);
            tracing::error!(?permit, ?signing, ?public);
            if let Err(error) = check.check(received, subject) {
                texts += &format!("{error:?} {error}");
            }
        }
    });

    texts += &String::from_utf8(log.0.lock().clone()).unwrap();
    assert!(texts.contains("refused a request without a valid grant"), "{texts}");
    assert!(texts.contains("source=\"RockBot\""), "{texts}");
    assert!(texts.contains("this bridge requires a grant"), "{texts}");
    for name in [header::GRANT, header::SIGNED_GRANT] {
        for grant in requests.iter().filter_map(|request| request.headers.get(name)) {
            let proof = grant.rsplit('.').next().unwrap();
            assert!(!texts.contains(proof), "{texts}");
        }
    }
    assert!(!texts.contains(SECRET) && !texts.contains(OTHER_SECRET), "{texts}");
    assert!(!texts.contains("AAECAwQF"), "{texts}");
}

proptest! {
    #[test]
    fn no_header_is_a_grant_by_chance_nor_a_panic(value in ".{0,400}") {
        let mut envelope = request();
        envelope.headers.set(header::GRANT, value);
        prop_assert!(verify(&envelope).is_err());
    }

    #[test]
    fn nor_is_one_that_looks_like_a_grant(
        expiry in any::<u64>(),
        principal in "[A-Za-z0-9_-]{0,60}",
        mac in "[A-Za-z0-9_-]{0,60}",
    ) {
        let mut envelope = request();
        envelope.headers.set(header::GRANT, format!("1.{expiry}.{principal}.{mac}"));
        prop_assert!(verify(&envelope).is_err());
    }

    #[test]
    fn nor_one_with_a_changed_character(at in any::<prop::sample::Index>(), to in any::<char>()) {
        let mut envelope = sealed();
        let mut grant: Vec<char> = envelope.headers.get(header::GRANT).unwrap().chars().collect();
        let at = at.index(grant.len());
        prop_assume!(grant[at] != to);
        grant[at] = to;
        envelope.headers.set(header::GRANT, grant.into_iter().collect::<String>());
        prop_assert!(verify(&envelope).is_err());
    }
}

#[test]
fn a_header_that_is_too_long_is_not_read() {
    let mut envelope = sealed();
    let longest = "1".repeat(HEADER_BYTES_MAX + 1);
    envelope.headers.set(header::GRANT, longest);
    assert_eq!(verify(&envelope), Err(Refusal::Malformed));

    // The longest that an agent writes: of a name and an issuer that are cut, and escaped throughout.
    for name in ["\u{1f980}", ")", "\\", "n"].map(|part| part.repeat(2_000)) {
        let issuer = Proof::Token { issuer: name.as_str().into(), id: None };
        let principal = Principal { name: name.as_str().into(), proof: issuer };
        let envelope = sealed_by(&permit_of(principal, SECRET), in_a_minute());
        assert!(verify(&envelope).is_ok());
        let length = envelope.headers.get(header::GRANT).unwrap().len();
        assert!(length <= 1_300, "{length}");
    }
}
