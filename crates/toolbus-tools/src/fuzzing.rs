//! The parsers of this crate as targets of a fuzzer.

use std::sync::LazyLock;

use serde::de::IgnoredAny;
use serde_json::Value;
use toolbus_json::{Limits, count_values, from_slice, from_str, from_trusted};

use crate::SecretFinder;
use crate::artifact::{ArtifactRef, find_references, has_reference, replace_references};
use crate::call::Arguments;
use crate::schema::{Schema, VIOLATIONS_MAX, describe, drop_nulls, hide_optional_nulls};

pub use crate::grant::fuzzing::{grant_keys, grants};

/// What a text may have.
const LIMITS: Limits = Limits::of_bytes(1 << 20);

/// A secret that JSON has to escape, and one that it may take for a number.
const SECRETS: [&str; 2] = ["tok\"é-123456", "31415926535"];

static FINDER: LazyLock<SecretFinder> =
    LazyLock::new(|| SecretFinder::new(SECRETS).expect("there are secrets"));

/// Compiles a schema, and checks arguments against it, which stand behind the first line or the
/// first byte 0. Asserts that violations are told and bounded, and that nulls are dropped at once.
pub fn schemas(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| matches!(byte, 0 | b'\n'));
    let mut part = || from_slice::<Value>(parts.next().unwrap_or_default(), &LIMITS);
    let Ok(mut schema) = part() else { return };
    let arguments = part().unwrap_or_default();

    if let Ok(compiled) = Schema::compile(&schema)
        && let Err(violations) = compiled.check(&arguments)
    {
        assert!((1..=VIOLATIONS_MAX).contains(&violations.len()), "{violations:?}");
        let _ = describe(&violations, None);
    }

    if let Value::Object(mut arguments) = arguments {
        drop_nulls(&schema, &mut arguments);
        let mut again = arguments.clone();
        drop_nulls(&schema, &mut again);
        assert_eq!(again, arguments);
    }
    hide_optional_nulls(&mut schema);
}

/// Reads the arguments of a call. Asserts that they are read again from what is written of them.
pub fn arguments(bytes: &[u8]) {
    let read = |text: String| Arguments::Text(Some(text)).object();
    let text = String::from_utf8_lossy(bytes).into_owned();
    if let Ok(arguments) = read(text) {
        let written = Value::Object(arguments.clone()).to_string();
        assert_eq!(read(written), Ok(arguments));
    }
}

/// Erases secrets from JSON, as it is written and as a value. Asserts that none is left, and that
/// nothing else is changed in its form.
pub fn secrets(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for secret in SECRETS {
        assert!(!FINDER.erase_text(text).contains(secret));
    }
    let erased = FINDER.erase_json(text);
    let is_json = |text: &str| from_trusted::<IgnoredAny>(text).is_ok();
    if !is_json(text) {
        return;
    }

    let erased = erased.as_deref().unwrap_or(text);
    assert!(is_json(erased), "{erased}");
    assert_eq!(FINDER.erase_json(erased), None, "{erased}");
    assert_eq!(count_values(erased.as_bytes()), count_values(text.as_bytes()), "{erased}");
    if let Ok(value) = from_str::<Value>(erased, &LIMITS) {
        // A reader may write the digits of a number otherwise, such as those of an exponent.
        assert!(!has_secret(&value, Numbers::Skip), "{erased}");
    }

    let Ok(mut value) = from_str::<Value>(text, &LIMITS) else { return };
    assert!(!has_secret(&value, Numbers::Search) || FINDER.is_in(&value), "{value}");
    FINDER.erase(&mut value);
    assert!(!has_secret(&value, Numbers::Search), "{value}");
}

/// Whether numbers are searched for secrets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Search,
    Skip,
}

/// Whether a secret is in a value: in a text, a name of a member, or a number.
fn has_secret(value: &Value, numbers: Numbers) -> bool {
    let is_in = |text: &str| SECRETS.iter().any(|secret| text.contains(secret));
    match value {
        Value::String(text) => is_in(text),
        Value::Array(items) => items.iter().any(|item| has_secret(item, numbers)),
        Value::Object(members) => {
            members.iter().any(|(name, member)| is_in(name) || has_secret(member, numbers))
        }
        Value::Number(number) => numbers == Numbers::Search && is_in(&number.to_string()),
        Value::Null | Value::Bool(_) => false,
    }
}

/// Finds references to artifacts and replaces them. Asserts that the same ones are found each time,
/// and that none is left.
pub fn artifacts(bytes: &[u8]) {
    const SOME: usize = 3;

    let Ok(value) = from_slice::<Value>(bytes, &LIMITS) else { return };
    let found = find_references(&value, usize::MAX);
    assert_eq!(has_reference(&value), !found.is_empty());
    assert_eq!(find_references(&value, SOME), found[..found.len().min(SOME)]);
    for text in &found {
        if let Ok(reference) = ArtifactRef::parse(text) {
            assert_eq!(reference.as_str(), *text);
        }
    }

    let (mut kept, mut replaced) = (value.clone(), value.clone());
    let mut asked = Vec::new();
    replace_references(&mut kept, &mut |text: &str| {
        asked.push(text.to_owned());
        None
    });
    assert_eq!(asked, found);
    assert_eq!(kept, value);
    replace_references(&mut replaced, &mut |_: &str| Some(Value::Null));
    assert!(!has_reference(&replaced), "{replaced}");
}
