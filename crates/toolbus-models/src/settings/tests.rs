use super::*;

#[test]
fn costs_are_rounded_up_to_millionths_of_a_dollar() {
    let prices = TokenPrices { input: 3.0, output: 15.0, cache_read: Some(0.3), cache_write: None };
    let cost = |input, output, cache_read, cache_write| {
        let usage = TokenUsage { input, output, cache_read, cache_write, ..TokenUsage::default() };
        prices.cost_of(&usage)
    };
    assert_eq!(cost(0, 0, 0, 0), 0);
    assert_eq!(cost(1_000_000, 0, 0, 0), 3_000_000);
    assert_eq!(cost(0, 1, 0, 0), 15);
    assert_eq!(cost(1, 0, 1, 0), 1);
    assert_eq!(cost(30, 2, 10, 10), 30 + 3 + 30 + 30);
    // More was cached than was read, as some servers have it.
    assert_eq!(cost(1, 0, 10, 0), 3);
    assert_eq!(cost(u64::MAX, u64::MAX, 0, 0), u64::MAX);
}

#[test]
fn a_tier_without_endpoints_has_those_of_the_nearest() {
    let endpoint = |model: &str| -> EndpointSettings {
        let text = format!(r#"{{"provider": "openai", "model": "{model}"}}"#);
        serde_json::from_str(&text).expect("it is one")
    };
    let endpoints = ["b", "a"].map(|name| (name.to_owned(), endpoint(name)));
    let mut settings = ModelSettings { endpoints: endpoints.into(), ..ModelSettings::default() };
    assert_eq!(settings.endpoints_of(Tier::High), ["a", "b"]);

    settings.tiers.low = vec!["b".to_owned()];
    assert_eq!(Tier::ALL.map(|tier| settings.endpoints_of(tier)), [["b"], ["b"], ["b"]]);
    settings.tiers.high = vec!["a".to_owned()];
    assert_eq!(Tier::ALL.map(|tier| settings.endpoints_of(tier)), [["b"], ["a"], ["a"]]);
}

#[test]
fn keys_are_told_from_references() {
    let parse = |text: &str| KeyReference::parse(&Secret::from(text.to_owned()));
    let key = |text: &str| Ok(KeyReference::Key(Secret::from(text.to_owned())));
    assert_eq!(parse("sk-1"), key("sk-1"));
    assert_eq!(parse("$KEY"), key("$KEY"));
    assert_eq!(parse("${KEY_1}"), Ok(KeyReference::Variable("KEY_1".to_owned())));
    assert_eq!(parse("${vault:a.b-c}"), Ok(KeyReference::Vault("a.b-c".to_owned())));
    for text in ["", " ", "${", "${}", "${vault:}", "${a-b}", "${vault:a b}", "${KEY} x", "${a:b}"]
    {
        assert!(parse(text).is_err(), "{text}");
    }
    assert!(parse(&format!("${{{}}}", "x".repeat(200))).is_err());
}
