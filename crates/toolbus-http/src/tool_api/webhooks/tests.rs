#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::{SignedWebhook, sign_webhook, verify_webhook};

#[test]
fn cx_e11_a_signature_is_of_its_secret_time_and_body() {
    let signature = sign_webhook("s", 100, "{}");
    assert!(signature.starts_with("sha256=") && signature.len() == 7 + 64);
    let check = |secret: &str, timestamp: &str, body: &str, signature: &str| {
        verify_webhook(secret, &SignedWebhook { timestamp, signature, body }, 160, 60)
    };
    assert!(check("s", "100", "{}", &signature));
    assert!(!check("t", "100", "{}", &signature));
    assert!(!check("s", "101", "{}", &signature));
    assert!(!check("s", "100", "{} ", &signature));
    assert!(!check("s", "100", "{}", &signature.replace("sha256=", "")));
    assert!(!check("s", "100", "{}", &signature[..signature.len() - 2]));
    assert!(!check("s", "100", "{}", "sha256=äß"));
    assert!(!check("s", "soon", "{}", &signature));
}

#[test]
fn an_old_webhook_is_refused() {
    let signature = sign_webhook("s", 100, "{}");
    let signed = SignedWebhook { timestamp: "100", signature: &signature, body: "{}" };
    assert!(!verify_webhook("s", &signed, 161, 60));
    assert!(!verify_webhook("s", &signed, 39, 60));
}
