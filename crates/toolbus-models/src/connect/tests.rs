use super::*;

fn url(provider: &str, base_url: Option<&str>) -> (String, Protocol) {
    let mut endpoint = serde_json::json!({"provider": provider, "model": "x"});
    if let Some(base_url) = base_url {
        endpoint["base_url"] = base_url.into();
    }
    let endpoint: EndpointSettings = serde_json::from_value(endpoint).expect("it is one");
    let protocol = protocol_of(&endpoint);
    (url_of(&endpoint, protocol).to_string(), protocol)
}

#[test]
fn requests_go_where_the_clients_of_the_providers_send_them() {
    use ChatFlavour::{Compatible, OpenAi, OpenRouter};

    let check = |provider, base_url, expected: &str, protocol| {
        assert_eq!(url(provider, base_url), (expected.to_owned(), protocol));
    };
    let chat = Protocol::Chat;
    check("openai", None, "https://api.openai.com/v1/chat/completions", chat(OpenAi));
    let own = Some("https://api.openai.com/v1/");
    check("openai", own, "https://api.openai.com/v1/chat/completions", chat(OpenAi));
    let ollama = Some("http://localhost:11434/v1");
    check("openai", ollama, "http://localhost:11434/v1/chat/completions", chat(Compatible));
    let openrouter = "https://openrouter.ai/api/v1/chat/completions";
    check("openrouter", None, openrouter, chat(OpenRouter));
    check("anthropic", None, "https://api.anthropic.com/v1/messages", Protocol::Anthropic);
    for base_url in
        ["http://localhost:4000", "http://localhost:4000/v1", "http://localhost:4000/v1/"]
    {
        let expected = "http://localhost:4000/v1/messages";
        check("anthropic", Some(base_url), expected, Protocol::Anthropic);
    }
}
