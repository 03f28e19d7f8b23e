use serde_json::json;

use super::*;

fn of(status: u16, body: &Value) -> ErrorKind {
    of_response(status, body.to_string().as_bytes(), None)
}

#[test]
fn a_request_that_does_not_fit_is_recognized_in_every_form() {
    let cases = [
        (400, json!({"error": {"message": "x", "code": "context_length_exceeded"}})),
        (
            400,
            json!({"error": {"message":
            "This model's maximum context length is 16384 tokens. However, you requested 122946"}}),
        ),
        (
            400,
            json!({"object": "error", "code": 400, "message":
            "This model's maximum context length is 6048 tokens."}),
        ),
        (
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message":
            "prompt is too long: 208310 tokens > 200000 maximum"}}),
        ),
        (
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message":
            "input length and `max_tokens` exceed context limit: 199000 + 21333 > 200000"}}),
        ),
        (413, json!({"type": "error", "error": {"type": "request_too_large", "message": "x"}})),
        (
            400,
            json!({"error": {"code": 400, "type": "exceed_context_size_error", "message":
            "the request exceeds the available context size, try increasing it"}}),
        ),
        (
            500,
            json!({"error": {"code": 500, "message":
            "the request exceeds the available context size. try increasing the context size"}}),
        ),
        (500, json!({"error": "Requested tokens (2285) exceed context window of 2048"})),
        (400, json!({"error": "the input length exceeds the context length"})),
        (
            400,
            json!([{"error": {"code": 400, "message":
            "The input token count (1200000) exceeds the maximum number of tokens allowed"}}]),
        ),
        (
            400,
            json!({"error": {"code": 400, "message": "Provider returned error", "metadata":
            {"raw": "{\"message\":\"Input is too long for requested model.\"}"}}}),
        ),
    ];
    for (status, body) in cases {
        let kind = of(status, &body);
        assert!(matches!(kind, ErrorKind::ContextTooLong { .. }), "{body}: {kind:?}");
    }
}

#[test]
fn a_limit_of_tokens_in_a_time_is_no_limit_of_the_context() {
    let message = "Rate limit reached: the maximum context length of tokens per minute is used up";
    let limited = of(429, &json!({"error": {"message": message}}));
    assert!(matches!(limited, ErrorKind::RateLimited { .. }), "{limited:?}");
}

#[test]
fn statuses_and_codes_say_the_rest() {
    let spent = json!({"error": {"message": "You exceeded", "type": "insufficient_quota"}});
    let flagged = json!({"error": {"code": 403, "message": "x", "metadata": {"reasons": ["y"]}}});
    let cases = [
        (401, json!({"error": {"message": "Incorrect API key"}}), "unauthenticated"),
        (403, json!({}), "unauthenticated"),
        (403, flagged, "refused"),
        (402, json!({"error": {"message": "Insufficient credits"}}), "quota_spent"),
        (429, spent, "quota_spent"),
        (400, json!({"error": {"message": "Your credit balance is too low"}}), "quota_spent"),
        (429, json!({"error": {"message": "slow down"}}), "rate_limited"),
        (404, json!({"error": {"message": "no such model"}}), "refused"),
        (400, json!({"detail": "bad"}), "refused"),
        (301, json!({}), "refused"),
        (408, json!({}), "overloaded"),
        (500, json!({}), "overloaded"),
        (529, json!({"error": {"type": "overloaded_error"}}), "overloaded"),
    ];
    for (status, body, expected) in cases {
        let kind = of(status, &body);
        let named = serde_json::to_value(&kind).expect("it is written");
        assert_eq!(named["kind"], expected, "{status} {body}");
    }
}

#[test]
fn errors_within_a_stream_are_told_apart_as_well() {
    let cases = [
        (json!({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}), 529),
        (json!({"error": {"code": 502, "message": "Provider disconnected"}, "choices": []}), 502),
        (json!({"error": {"message": "x", "type": "server_error"}}), 500),
        (json!({"error": "x"}), 500),
    ];
    for (event, expected) in cases {
        let kind = in_stream(&event);
        assert!(
            matches!(kind, ErrorKind::Overloaded { status, .. } if status == expected),
            "{event}: {kind:?}"
        );
    }
    let limited = in_stream(&json!({"error": {"type": "rate_limit_error", "message": "x"}}));
    assert!(matches!(limited, ErrorKind::RateLimited { .. }), "{limited:?}");
    let long = in_stream(&json!({"error": {"code": 400, "message": "maximum context length"}}));
    assert!(matches!(long, ErrorKind::ContextTooLong { .. }), "{long:?}");
}

#[test]
fn messages_are_bounded_and_plain() {
    let long = "é\u{7}\n".repeat(10_000);
    let ErrorKind::Refused { message, .. } = of(400, &json!({"error": {"message": long}})) else {
        panic!("it is refused");
    };
    assert_eq!(message.chars().count(), MESSAGE_CHARS_MAX + 1);
    assert!(!message.contains(char::is_control));

    for body in ["", "<html>\nBad Gateway", "\u{0}\u{1}"] {
        let kind = of_response(502, body.as_bytes(), None);
        assert!(!kind.to_string().contains('<'), "{kind}");
    }
    let kind = of_response(502, &[0xff; 10], None);
    assert!(matches!(kind, ErrorKind::Overloaded { .. }));
}
