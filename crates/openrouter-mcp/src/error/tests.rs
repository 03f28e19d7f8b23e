use super::*;

fn refused(status: u16, endpoint: Endpoint) -> Error {
    Error::Refused {
        status,
        endpoint: endpoint.into(),
        message: "No.".to_owned(),
        retry_after: None,
    }
}

#[test]
fn every_status_has_a_code_and_says_what_to_do() {
    let check = |status: u16, code: &str, retryable: bool, advice: &str| {
        let error = refused(status, Endpoint::CurrentKey);
        assert_eq!((error.code(), error.is_retryable()), (code, retryable), "{status}");
        let text = error.full_text();
        let head = format!("OpenRouter API error {status} for '/key': No. ");
        assert!(text.strip_prefix(&head).is_some_and(|rest| rest.contains(advice)), "{text}");
    };
    check(400, "refused", false, "arguments");
    check(401, "unauthorized", false, "another one");
    check(402, "payment_required", false, "credits");
    check(403, "forbidden", false, "may not");
    check(404, "not_found", false, "base_url");
    check(408, "timeout", true, "try again");
    check(429, "rate_limited", true, "Wait");
    check(500, "upstream_failed", true, "try again");
    check(502, "upstream_failed", true, "try again");
    check(524, "timeout", true, "try again");
    check(529, "upstream_failed", true, "try again");
}

#[test]
fn a_wait_that_openrouter_asks_for_is_told() {
    let error = Error::Refused {
        status: 429,
        endpoint: Endpoint::Credits.into(),
        message: "slow down".to_owned(),
        retry_after: Some(Duration::from_secs(30)),
    };
    let result = error.to_tool_result();
    assert_eq!(
        error.full_text(),
        "OpenRouter API error 429 for '/credits': slow down. Try again in 30 s, not earlier."
    );
    let structured = result.structured_content.unwrap();
    assert_eq!(structured["error"]["retryAfterMs"], 30_000);
    assert_eq!(structured["error"]["httpStatus"], 429);
    assert_eq!(result.is_error, Some(true));
}

#[test]
fn what_needs_a_management_key_says_so() {
    for endpoint in [Endpoint::Keys, Endpoint::Credits] {
        assert!(
            refused(401, endpoint.clone()).full_text().contains("management key"),
            "{endpoint:?}"
        );
    }
}
