//! What documents become, and which are refused.

use toolbus_testkit::memory::peak_bytes;

use super::*;

fn document() -> Value {
    json!({
        "openapi": "3.0.3",
        "servers": [{"url": "https://{region}.api.example/v1/", "variables": {"region": {"default": "eu"}}}],
        "paths": {
            "/pets/{petId}": {
                "parameters": [{"$ref": "#/components/parameters/PetId"}],
                "get": {
                    "operationId": "pets.show/by id",
                    "summary": "Shows a pet",
                    "parameters": [
                        {"name": "fields", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                        {"name": "ids", "in": "query", "explode": false, "schema": {"type": "array"}},
                        {"name": "X-Trace", "in": "header", "schema": {"type": "string"}}
                    ]
                },
                "put": {
                    "operationId": "replacePet",
                    "description": "Replaces a pet.",
                    "requestBody": {"$ref": "#/components/requestBodies/Pet"}
                },
                "delete": {}
            }
        },
        "components": {
            "parameters": {
                "PetId": {"name": "petId", "in": "path", "required": true, "description": "Which pet",
                    "schema": {"type": "integer", "minimum": 0, "exclusiveMinimum": true}}
            },
            "requestBodies": {
                "Pet": {"required": true, "content": {"application/json; charset=utf-8": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
            },
            "schemas": {
                "Pet": {
                    "type": "object", "example": {"name": "x"}, "x-internal": 1, "required": ["name"],
                    "properties": {
                        "name": {"type": "string", "nullable": true, "enum": ["a"]},
                        "example": {"type": "string"},
                        "tag": {"$ref": "#/components/schemas/a~1b%20c"},
                        "other": {"$ref": "#/components/schemas/a~1b%20c", "description": "Another"}
                    }
                },
                "a/b c": {"type": "string"}
            }
        }
    })
}

fn endpoints(options: &OpenApiDocument) -> Vec<RestEndpoint> {
    import(&document(), options).expect("it can be imported")
}

fn problem(change: impl FnOnce(&mut Value)) -> String {
    let mut document = document();
    change(&mut document);
    import(&document, &OpenApiDocument::default()).expect_err("refused").to_string()
}

#[test]
fn operations_become_endpoints() {
    let all = endpoints(&OpenApiDocument::default());
    let names: Vec<_> = all.iter().map(|endpoint| endpoint.name.as_str()).collect();
    assert_eq!(names, ["pets_show_by_id", "replacePet", "DELETE_pets_petId"]);

    let show = &all[0];
    assert_eq!(show.url_template.expose(), "https://eu.api.example/v1/pets/{petId}{?fields*,ids}");
    assert_eq!((show.description.as_str(), show.method), ("Shows a pet", RestMethod::Get));
    let schema: Value =
        serde_json::from_str(show.parameters_schema.as_deref().expect("one")).expect("JSON");
    assert_eq!(
        schema,
        json!({
            "type": "object",
            "properties": {
                "petId": {"type": "integer", "exclusiveMinimum": 0, "description": "Which pet"},
                "fields": {"type": "array", "items": {"type": "string"}},
                "ids": {"type": "array"}
            },
            "required": ["petId"]
        })
    );

    let replace = &all[1];
    assert_eq!((replace.send_body_as_json, replace.body_argument.as_deref()), (true, Some("body")));
    let schema: Value =
        serde_json::from_str(replace.parameters_schema.as_deref().expect("one")).expect("JSON");
    assert_eq!(schema["required"], json!(["petId", "body"]));
    assert_eq!(
        schema["properties"]["body"],
        json!({
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": ["string", "null"], "enum": ["a", null]},
                "example": {"type": "string"},
                "tag": {"type": "string"},
                "other": {"type": "string", "description": "Another"}
            }
        })
    );
    assert!(!all[2].send_body_as_json);
}

#[test]
fn operations_are_chosen_and_called_as_options_say() {
    let options = OpenApiDocument {
        operations: Some(vec!["replacePet".into(), "DELETE /pets/{petId}".into()]),
        server: Some("http://127.0.0.1:9/base/".parse().expect("a URL")),
        name_prefix: "pets.".into(),
        auth_type: AuthType::ApiKey,
        auth_env_var: Some("PETS_KEY".into()),
        api_key_header: "X-Pets".into(),
        internal: true,
        ..OpenApiDocument::default()
    };
    let found = endpoints(&options);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].name, "pets_replacePet");
    assert_eq!(found[0].url_template.expose(), "http://127.0.0.1:9/base/pets/{petId}");
    assert_eq!(found[0].origin.as_deref(), Some("http://127.0.0.1:9"));
    assert!(found[0].internal && found[0].auth_type == AuthType::ApiKey);
    assert_eq!(found[0].api_key_header, "X-Pets");

    let unknown =
        OpenApiDocument { operations: Some(vec!["no".into()]), ..OpenApiDocument::default() };
    let error = import(&document(), &unknown).expect_err("refused");
    assert_eq!(error, ImportError::UnknownOperation("no".into()));
}

#[test]
fn a_path_makes_no_other_host() {
    let options = OpenApiDocument {
        server: Some("https://api.example".parse().expect("a URL")),
        ..OpenApiDocument::default()
    };
    for path in ["", "x", ".evil.example/x", "31/x", ":31/x", "@evil.example/", "?x", "{?x}"] {
        let mut document = document();
        document["paths"] = json!({path: {"get": {"operationId": "a"}}});
        let error = import(&document, &options).expect_err(path).to_string();
        assert!(error.ends_with("its path does not begin with '/'"), "{path}: {error}");
    }
    let mut document = document();
    document["paths"] = json!({"//evil.example/x": {"get": {"operationId": "a"}}});
    let found = import(&document, &options).expect("it stays at the host");
    let url = found[0].template().expect("a template").expand(&Map::new()).expect("a URL");
    assert_eq!(url.host_str(), Some("api.example"));
}

#[test]
fn a_credential_goes_to_one_origin_whatever_an_operation_says() {
    let mut document = document();
    let item = &mut document["paths"]["/pets/{petId}"];
    item["get"]["servers"] = json!([{"url": "https://files.example"}]);
    let with_key = OpenApiDocument {
        auth_type: AuthType::Bearer,
        auth_env_var: Some("PETS_KEY".into()),
        ..OpenApiDocument::default()
    };
    let error = import(&document, &with_key).expect_err("refused").to_string();
    assert!(error.contains("it is not at https://eu.api.example, where"), "{error}");
    let others =
        OpenApiDocument { operations: Some(vec!["replacePet".into()]), ..with_key.clone() };
    let found = import(&document, &others).expect("it is at the origin");
    assert_eq!(found[0].origin.as_deref(), Some("https://eu.api.example"));

    // The settings say where all of them are.
    let server = Some("https://own.example:8443/v2".parse().expect("a URL"));
    let named = OpenApiDocument { server, ..with_key.clone() };
    for endpoint in import(&document, &named).expect("it can be imported") {
        assert_eq!(endpoint.origin.as_deref(), Some("https://own.example:8443"));
        assert!(endpoint.url_template.expose().starts_with("https://own.example:8443/v2/pets/"));
    }
    // Without a credential a document may have several.
    let found = import(&document, &OpenApiDocument::default()).expect("it can be imported");
    assert!(found[0].url_template.expose().starts_with("https://files.example/"));
    document["servers"] = json!([]);
    let error = import(&document, &with_key).expect_err("refused").to_string();
    assert!(error.contains("no server"), "{error}");
}

#[test]
fn names_are_never_the_same() {
    let mut document = document();
    let item = &mut document["paths"]["/pets/{petId}"];
    item["get"]["operationId"] = json!("same.id");
    item["put"]["operationId"] = json!("same/id");
    item["delete"]["operationId"] = json!("日本");
    let found = import(&document, &OpenApiDocument::default()).expect("it can be imported");
    let names: Vec<_> = found.iter().map(|endpoint| endpoint.name.as_str()).collect();
    assert_eq!(names, ["same_id", "same_id_2", "operation"]);
}

#[test]
fn circles_and_bombs_of_references_are_refused() {
    let pet = "/components/schemas/Pet/properties";
    let circle = problem(|document| {
        document.pointer_mut(pet).expect("it is there")["tag"] =
            json!({"$ref": "#/components/schemas/Pet"});
    });
    assert!(circle.contains("contains itself"), "{circle}");
    let chain = problem(|document| {
        document["components"]["parameters"]["PetId"] =
            json!({"$ref": "#/components/parameters/PetId"});
    });
    assert!(chain.contains("without an end"), "{chain}");

    // Each has the next twice.
    let bomb = problem(|document| {
        let schemas = document["components"]["schemas"].as_object_mut().expect("an object");
        for at in 0..30 {
            let next = json!({"$ref": format!("#/components/schemas/s{}", at + 1)});
            schemas.insert(format!("s{at}"), json!({"properties": {"a": next, "b": next}}));
        }
        schemas.insert("s30".into(), json!({"type": "string"}));
        document.pointer_mut(pet).expect("it is there")["tag"] =
            json!({"$ref": "#/components/schemas/s0"});
    });
    assert!(bomb.contains("too large") || bomb.contains("too deeply"), "{bomb}");
    let deep = problem(|document| {
        let mut schema = json!({"type": "string"});
        for _ in 0..100 {
            schema = json!({"items": schema});
        }
        document.pointer_mut(pet).expect("it is there")["tag"] = schema;
    });
    assert!(deep.contains("too deeply"), "{deep}");
}

/// What a document has once may be referred to thousands of times.
#[test]
fn texts_and_lists_that_are_copied_count() {
    let check = |shared: Value| {
        let before = peak_bytes();
        let problem = problem(|document| {
            let schemas = document["components"]["schemas"].as_object_mut().expect("an object");
            let reference = |at| (format!("p{at}"), json!({"$ref": "#/components/schemas/Shared"}));
            let properties: Map<_, _> = (0..2_000).map(reference).collect();
            schemas.insert("Shared".into(), shared);
            schemas.insert("Pet".into(), json!({"properties": properties}));
        });
        assert!(problem.contains("'replacePet'") && problem.contains("too large"), "{problem}");
        let grown = peak_bytes() - before;
        assert!(grown < 64 << 20, "{} MiB more", grown >> 20);
    };

    let long = "x".repeat(100_000);
    check(json!({"description": long}));
    check(json!({"enum": [long]}));
    check(json!({"enum": vec![0; 5_000]}));
    check(json!({"default": {&long: null}}));
    check(json!({"properties": {&long: {}}}));
    // What is left out was looked at.
    check(json!({format!("x-{long}"): 1}));
}

#[test]
fn references_are_bounded() {
    let long = problem(|document| {
        let name = "s".repeat(5_000);
        document["components"]["requestBodies"]["Pet"] =
            json!({"$ref": format!("#/components/requestBodies/{name}")});
        document["components"]["requestBodies"][&name] = json!({});
    });
    assert!(long.contains("is too long") && long.len() < 500, "{long}");
}

#[test]
fn parameters_are_bounded() {
    let with = |count: usize| {
        let mut document = document();
        let parameter =
            |at| json!({"name": format!("q{at}"), "in": "query", "schema": {"type": "string"}});
        let get = &mut document["paths"]["/pets/{petId}"]["get"];
        get["parameters"] = (0..count).map(parameter).collect();
        import(&document, &OpenApiDocument::default())
    };
    // One more is that of the path.
    assert!(with(PARAMETERS_MAX - 1).is_ok());
    let problem = with(PARAMETERS_MAX).expect_err("refused").to_string();
    assert!(problem.contains("more than 500 parameters"), "{problem}");
}

#[test]
fn addresses_are_bounded_before_they_are_made() {
    let before = peak_bytes();
    let check = |part: &str, change: &dyn Fn(&mut Value)| {
        let problem = problem(change);
        assert!(problem.contains(part) && problem.len() < 500, "{problem}");
    };

    check("too long", &|d| {
        let variables = json!({"a": {"default": "x".repeat(256 << 10)}});
        d["servers"] = json!([{"url": "{a}".repeat(600), "variables": variables}]);
    });
    check("too long", &|d| {
        d["servers"] = json!([{"url": format!("https://a.example/{}", "x".repeat(2_000))}]);
    });
    check("more than 8192 bytes", &|d| {
        d["paths"] = json!({format!("/{}", "{a}".repeat(4_000)): {"get": {"operationId": "a"}}});
    });
    let grown = peak_bytes() - before;
    assert!(grown < 64 << 20, "{} MiB more", grown >> 20);
}

#[test]
fn what_cannot_be_called_is_refused_by_name() {
    let pets = "/paths/~1pets~1{petId}";
    let check = |part: &str, change: &dyn Fn(&mut Value)| {
        let problem = problem(change);
        assert!(problem.contains(part), "{problem}");
    };
    check("OpenAPI 3", &|d| d["openapi"] = json!("2.0"));
    check("OpenAPI 3", &|d| *d = json!([]));
    check("no server", &|d| d["servers"] = json!([]));
    check("'/relative'", &|d| d["servers"] = json!([{"url": "/relative"}]));
    check("leads out", &|d| {
        d.pointer_mut(pets).unwrap()["put"]["requestBody"] =
            json!({"$ref": "https://evil.example/x"})
    });
    check("leads nowhere", &|d| {
        d.pointer_mut(pets).unwrap()["put"]["requestBody"] = json!({"$ref": "#/no"})
    });
    check("not of JSON", &|d| {
        d["components"]["requestBodies"]["Pet"]["content"] = json!({"multipart/form-data": {}});
    });
    check("'X-Trace' in header", &|d| {
        d.pointer_mut(pets).unwrap()["get"]["parameters"][2]["required"] = json!(true);
    });
    check("no parameter 'petId'", &|d| d.pointer_mut(pets).unwrap()["parameters"] = json!([]));
    check("no place for an argument", &|d| {
        d.pointer_mut(pets).unwrap()["get"]["parameters"][0]["name"] = json!("a}{b");
    });
}
