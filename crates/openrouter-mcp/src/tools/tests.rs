use serde_json::json;

use super::*;

fn endpoint(tool: &str, arguments: Value) -> Result<Endpoint, String> {
    let Value::Object(arguments) = arguments else { panic!("{arguments}") };
    OpenRouterTool::by_name(tool).unwrap().endpoint(arguments).map_err(|error| error.to_string())
}

#[test]
fn each_is_one_endpoint() {
    let check = |tool: &str, arguments: Value, path: &str| {
        assert_eq!(endpoint(tool, arguments).unwrap().path(), path, "{tool}");
    };
    check("get_credits", json!({}), "/credits");
    check("get_api_key_info", json!({}), "/key");
    check("list_models", json!({}), "/models");
    check("list_models", json!({"limit": 5, "offset": 10, "q": "mini"}), "/models");
    check("list_models", json!({"limit": null, "q": null}), "/models");
    check("list_api_keys", json!({}), "/keys");
    check("get_api_key", json!({"keyHash": "abc"}), "/keys/abc");
    check("get_generation", json!({"generationId": "gen-1"}), "/generation");
}

#[test]
fn wrong_arguments_are_told_by_name() {
    let check = |tool: &str, arguments: Value, expected: &str| {
        let error = endpoint(tool, arguments).unwrap_err();
        assert!(error.contains(expected), "{tool}: {error}");
    };
    check("get_credits", json!({"keyHash": "a"}), "keyHash");
    check("get_api_key", json!({}), "keyHash");
    check("get_api_key", json!({"keyHash": ""}), "1 to 256");
    check("get_api_key", json!({"keyHash": ".."}), "no name or id");
    check("get_api_key", json!({"keyHash": 7}), "string");
    check("get_generation", json!({"generationid": "a"}), "generationid");
    check("list_models", json!({"limit": 0}), "limit");
    check("list_models", json!({"limit": 1001}), "limit");
    check("list_models", json!({"offset": -1}), "-1");
    check("list_models", json!({"page": 1}), "page");
}

#[test]
fn schemas_say_what_is_taken() {
    for tool in OpenRouterTool::ALL {
        let definition = tool.definition();
        let schema = Value::Object((*definition.input_schema).clone());
        assert_eq!(schema["type"], "object", "{schema}");
        assert_eq!(schema["additionalProperties"], false, "{schema}");
        assert!(schema.get("$schema").is_none() && schema.get("$defs").is_none(), "{schema}");
        // Nor lists of types, which not every model's API takes.
        assert!(!schema.to_string().contains("null"), "{schema}");
        let annotations = definition.annotations.unwrap();
        assert_eq!(annotations.read_only_hint, Some(true));
        assert_eq!(annotations.destructive_hint, Some(false));
    }
    let of = |tool: OpenRouterTool| Value::Object((*tool.definition().input_schema).clone());
    assert_eq!(of(OpenRouterTool::GetApiKey)["required"], json!(["keyHash"]));
    assert_eq!(of(OpenRouterTool::GetGeneration)["required"], json!(["generationId"]));
    let models = of(OpenRouterTool::ListModels);
    assert!(models.get("required").is_none(), "{models}");
    assert_eq!(models["properties"]["limit"]["maximum"], LIMIT_MAX, "{models}");
}
