//! Which tools are listed, in which order and under which names.

use super::*;

#[test]
fn a_tool_in_each_dialect() {
    let tool = tool("look.up").deferred();
    let listing = Listing { deferral: Deferral::ProviderSearch, found: &["look.up".to_owned()] };
    let definitions = Dialect::ALL.map(|dialect| {
        let lowered = lower(dialect, &entries([tool.clone()]), &listing);
        json!({format!("{dialect:?}"): lowered.definitions()})
    });
    insta::assert_snapshot!(serde_json::to_string_pretty(&definitions).unwrap());
}

/// 2c.21: names are made legal, told apart, and lead back.
#[test]
fn rv_2c21_names_are_legal_and_lead_back() {
    let long = "x".repeat(100);
    let longer = format!("{long}y");
    let own = ["a.b", "a/b", "a_b", "", "ü", "straße", &long, &longer, "a b", "ok-1"];
    // A registry takes no empty name.
    let own = own.iter().filter(|name| !name.is_empty());
    let tools = entries(own.clone().map(|name| tool(name)));

    for dialect in Dialect::ALL {
        let lowered = lower(dialect, &tools, &Listing::default());
        let names = names(&lowered);
        let unique: HashSet<_> = names.iter().collect();
        assert_eq!(unique.len(), own.clone().count());
        let rule = dialect.name_rule();
        for (name, own) in names.iter().zip(own.clone()) {
            let is_legal = |c: char| {
                c.is_ascii_alphanumeric() || c == '_' || c == '-' || (rule.has_dots && c == '.')
            };
            assert!(name.len() <= rule.length_max && name.chars().all(is_legal), "{name}");
            assert_eq!(lowered.find(name).unwrap().name(), *own, "{dialect:?}");
        }
        // What is legal stays.
        assert_eq!((names[2], names[names.len() - 1]), ("a_b", "ok-1"));
    }
    insta::assert_debug_snapshot!(
        names(&lower(Dialect::OpenAiChat, &tools, &Listing::default())),
        @r#"
    [
        "a_b_e3a1ef79",
        "a_b_b2a22557",
        "a_b",
        "_",
        "stra_e",
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_7fbe9a5d",
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_990cd5f7",
        "a_b_f1d8955d",
        "ok-1",
    ]
    "#
    );
}

/// 2c.22: a name is looked up, never taken apart.
#[test]
fn rv_2c22_a_name_with_the_separator_in_it_is_routed_by_the_map() {
    let lowered = lower_all(Dialect::Anthropic, ["a__b__c", "a__b.c", "a.b__c"].map(tool));
    for (name, own) in names(&lowered).into_iter().zip(["a__b__c", "a__b.c", "a.b__c"]) {
        assert_eq!(lowered.find(name).unwrap().name(), own);
    }
    assert!(lowered.find("a.b__c").is_none() && lowered.find("a").is_none());
}

#[test]
fn the_names_of_providers_tools_are_theirs() {
    let hosted = || {
        let spec = json!({"type": "web_search_20250305", "name": "web_search"});
        let specs: ProviderSpecs = [("anthropic", spec)].into_iter().collect();
        Tool::new("search the web", "", "test").hosted_by_provider(specs)
    };
    let tools = || [tool("web_search"), hosted(), tool("tool_search_tool_bm25")];
    let lowered = lower_all(Dialect::Anthropic, tools());
    let names = names(&lowered);
    assert_eq!(names[1], "web_search");
    assert!(names[0].starts_with("web_search_") && names[2].starts_with("tool_search_tool_bm25_"));
    assert_eq!(lowered.find(names[0]).unwrap().name(), "web_search");
    assert!(lowered.find("web_search").is_none(), "the provider runs it");
    // Elsewhere there is no such tool, and its name is free.
    let elsewhere = lower_all(Dialect::OpenAiResponses, tools());
    assert_eq!(super::names(&elsewhere), ["web_search", "tool_search_tool_bm25"]);
}

/// RV-T11 and RV-T7: a provider's definition is sent as it is.
#[test]
fn rv_t11_a_definition_of_a_provider_is_sent_as_it_is() {
    let spec = json!({"type": "web_search", "zeta": 1, "alpha": {"x": [null]}});
    let specs: ProviderSpecs = [("openai", spec.clone())].into_iter().collect();
    let hosted = || Tool::new("web", "", "test").hosted_by_provider(specs.clone());
    let openai = lower_all(Dialect::OpenAiResponses, [hosted()]);
    assert_eq!(openai.definitions()[0].to_string(), spec.to_string());
    assert!(lower_all(Dialect::Anthropic, [hosted()]).definitions().is_empty());
}

#[test]
fn deferred_tools_are_left_out_until_they_are_found() {
    let tools = entries([tool("a"), tool("d1").deferred(), tool("b"), tool("d2").deferred()]);
    let check = |dialect, listing: Listing<'_>, expected: &[&str]| {
        let lowered = lower(dialect, &tools, &listing);
        assert_eq!(names(&lowered), expected, "{dialect:?} {listing:?}");
        // A call of what is not listed leads back all the same.
        assert_eq!(lowered.find("d2").unwrap().name(), "d2");
    };
    for dialect in Dialect::ALL {
        check(dialect, Listing::default(), &["a", "b"]);
        let found = ["d2".to_owned(), "missing".to_owned(), "a".to_owned(), "d1".to_owned()];
        let found = Listing { found: &found, ..Listing::default() };
        check(dialect, found, &["a", "b", "d2", "d1"]);
    }

    let search = Listing { deferral: Deferral::ProviderSearch, found: &[] };
    check(Dialect::OpenAiChat, search, &["a", "b"]);
    check(Dialect::Mcp, search, &["a", "b"]);
    check(Dialect::OpenAiResponses, search, &["a", "d1", "b", "d2", "tool_search"]);
    // The first of the definition's names that there is.
    check(Dialect::Anthropic, search, &["a", "d1", "b", "d2", "tool_search_tool_bm25"]);
}

#[test]
fn the_mark_is_on_deferred_tools_only() {
    let search = Listing { deferral: Deferral::ProviderSearch, found: &[] };
    for dialect in [Dialect::OpenAiResponses, Dialect::Anthropic] {
        let lowered = lower(dialect, &entries([tool("a"), tool("d").deferred()]), &search);
        let marks: Vec<_> = lowered.definitions().iter().map(|d| d.get("defer_loading")).collect();
        assert_eq!(marks, [None, Some(&json!(true)), None]);
        // Without a deferred tool there is nothing to search for.
        let plain = lower(dialect, &entries([tool("a")]), &search);
        assert_eq!(names(&plain), ["a"]);
    }
}

#[test]
fn the_same_tools_are_the_same_text() {
    for dialect in Dialect::ALL {
        let text = || {
            let tools = entries((0..50).map(|at| tool(&format!("tool/{}", at % 49 + at))));
            json!(lower(dialect, &tools, &Listing::default()).definitions()).to_string()
        };
        assert_eq!(text(), text());
    }
}

#[test]
fn descriptions_are_as_long_as_the_api_takes() {
    let described = |text: &str| Tool { description: text.to_owned(), ..tool("a") };
    let openai = |text: &str| {
        let lowered = lower_all(Dialect::OpenAiChat, [described(text)]);
        lowered.definitions()[0]["function"]["description"].clone()
    };
    assert_eq!(openai(&"é".repeat(1024)), json!("é".repeat(1024)));
    assert_eq!(openai(&"é".repeat(1025)), json!(format!("{}…", "é".repeat(1023))));
    assert_eq!(openai(&"\u{1F980}".repeat(600)), json!(format!("{}…", "\u{1F980}".repeat(511))));
    assert_eq!(openai(""), Value::Null);

    let long = "x".repeat(5_000);
    let lowered = lower_all(Dialect::Anthropic, [described(&long)]);
    assert_eq!(lowered.definitions()[0]["description"], json!(long));
}

#[test]
fn a_tool_of_an_mcp_server_is_told_as_its_server_wrote_it() {
    let written =
        r#"{"name":"up","title":"Up","inputSchema":{"type":"object","x-own":1},"_meta":{"a":1}}"#;
    let of_server = Tool {
        mcp_definition: Some(toolbus_wire::json::RawJson::parse(written.to_owned()).unwrap()),
        ..tool("server__up")
    };
    let lowered = lower_all(Dialect::Mcp, [of_server]);
    let expected: Value = serde_json::from_str(written).unwrap();
    assert_eq!(
        lowered.definitions()[0],
        json!({"name": "server__up", "title": "Up",
        "inputSchema": expected["inputSchema"], "_meta": {"a": 1}})
    );
}
