use super::*;

/// Not set anywhere.
const UNSET: &str = "TOOLBUS_TEST_NO_SUCH_KEY";

fn check(written: Option<&str>, variable: &str, expected: Result<Option<&str>, &str>) {
    let place = KeyPlace {
        setting: "web.api_key".to_owned(),
        written: written.map(|text| Secret::from(text.to_owned())),
        variable: Some(variable.to_owned()),
        provider: "web:brave".to_owned(),
        put_by: None,
    };
    let expected = expected.map(|name| name.map(str::to_owned)).map_err(str::to_owned);
    assert_eq!(place.find(true), expected, "{written:?}");
}

#[test]
fn a_key_is_where_the_setting_or_the_variable_says() {
    check(Some("canary"), UNSET, Ok(None));
    check(Some("${PATH}"), UNSET, Ok(None));
    check(Some("${vault:KEY}"), UNSET, Ok(Some("KEY")));
    check(None, "PATH", Ok(None));
    check(Some("  "), "PATH", Ok(None));
}

#[test]
fn what_is_missing_is_named_and_never_shown() {
    let unset = "no key: set web.api_key or the variable TOOLBUS_TEST_NO_SUCH_KEY";
    check(None, UNSET, Err(unset));
    check(Some(" "), UNSET, Err(unset));
    let named = "no key: web.api_key names the variable TOOLBUS_TEST_NO_SUCH_KEY, which is not set";
    check(Some("${TOOLBUS_TEST_NO_SUCH_KEY}"), "PATH", Err(named));
    let wrong =
        "no key: web.api_key: a reference is ${NAME} or ${vault:NAME}, and nothing around it";
    check(Some("${canary"), UNSET, Err(wrong));
}

#[tokio::test]
async fn without_a_vault_its_keys_are_missing() {
    let place = KeyPlace {
        setting: "web.api_key".to_owned(),
        written: Some(Secret::from("${vault:KEY}".to_owned())),
        variable: None,
        provider: "web:brave".to_owned(),
        put_by: None,
    };
    let missing = place.describe_missing(None).await.expect("a reason");
    assert_eq!(
        missing,
        "no key: web.api_key names the vault, and there is none: set vault.key_file"
    );
}
