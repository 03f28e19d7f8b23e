use serde_json::json;

use super::*;

#[test]
fn the_model_that_takes_least_says_how_long_a_result_may_be() {
    let models: ModelSettings = serde_json::from_value(json!({
        "endpoints": {
            "large": {"provider": "openai", "model": "gpt-5.6"},
            "small": {"provider": "openrouter", "model": "deepseek/deepseek-v4"},
        },
        "tiers": {"balanced": ["large"], "high": ["large", "small"]},
    }))
    .unwrap();
    let check = |tier: Tier, by_model: &[(&str, usize)], expected: usize| {
        let by_model = by_model.iter().map(|(prefix, units)| ((*prefix).to_owned(), *units));
        let settings = AgentSettings {
            tier,
            long_result_characters_by_model: by_model.collect(),
            ..AgentSettings::default()
        };
        assert_eq!(settings.long_result_units(&models), expected, "{tier:?}");
    };

    check(Tier::High, &[], 64_000);
    check(Tier::High, &[("deepseek/", 32_000)], 32_000);
    check(Tier::High, &[("deep", 1_000), ("deepseek/", 32_000)], 32_000);
    check(Tier::Balanced, &[("deepseek/", 32_000)], 64_000);
    check(Tier::Balanced, &[("gpt", 200_000)], 200_000);
    assert_eq!(AgentSettings::default().long_result_units(&ModelSettings::default()), 64_000);
    let cut = AgentSettings { long_results: LongResults::Cut, ..AgentSettings::default() };
    assert_eq!(cut.long_result_units(&ModelSettings::default()), 40_000);
    let said = AgentSettings { long_result_characters: Some(5_000), ..cut };
    assert_eq!(said.long_result_units(&ModelSettings::default()), 5_000);
}
