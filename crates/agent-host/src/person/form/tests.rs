use super::*;

/// What lines typed into one field come to.
fn check(schema: Value, is_required: bool, entries: &[(&str, FieldEntry)]) {
    let required = if is_required { json!(["f"]) } else { json!([]) };
    let form = json!({"type": "object", "properties": {"f": schema}, "required": required});
    let form = Form::from_schema(&form).unwrap_or_else(|error| panic!("{error}"));
    let [field] = form.fields() else { panic!("one field") };
    for (line, expected) in entries {
        let entry = field.read_line(line);
        match (&entry, expected) {
            // How it is worded is the checker's.
            (FieldEntry::Wrong(_), FieldEntry::Wrong(any)) if any.is_empty() => {}
            _ => assert_eq!(&entry, expected, "{line:?}"),
        }
    }
}

fn wrong() -> FieldEntry {
    FieldEntry::Wrong(String::new())
}

fn value(value: Value) -> FieldEntry {
    FieldEntry::Value(value)
}

#[test]
fn a_line_is_read_by_the_type_of_its_field() {
    let text = json!({"type": "string", "minLength": 2, "maxLength": 4});
    let entries = [("Ada\n", value(json!("Ada"))), ("A", wrong()), ("Augusta", wrong())];
    check(text, true, &entries);
    let integer = json!({"type": "integer", "minimum": 1, "maximum": 100});
    let entries = [("7", value(json!(7))), ("0", wrong()), ("1.5", wrong()), ("x", wrong())];
    check(integer, true, &entries);
    check(json!({"type": "number"}), true, &[("-1.5", value(json!(-1.5))), ("1,5", wrong())]);
    let boolean = [("y", value(json!(true))), ("No\n", value(json!(false))), ("perhaps", wrong())];
    check(json!({"type": "boolean"}), true, &boolean);
}

#[test]
fn nothing_is_the_default_or_left_out_or_a_no() {
    check(json!({"type": "integer", "default": 42}), true, &[("\n", value(json!(42)))]);
    check(json!({"type": "boolean", "default": false}), false, &[("", value(json!(false)))]);
    check(json!({"type": "string"}), false, &[("  \n", FieldEntry::LeftOut)]);
    check(json!({"type": "string"}), true, &[("\n", FieldEntry::Declined)]);
}

#[test]
fn choices_go_by_value_title_or_number() {
    let titled = json!({"type": "string", "oneOf": [
        {"const": "hero-1", "title": "Superman"},
        {"const": "hero-2", "title": "Green Lantern"},
    ]});
    let entries = [
        ("hero-2", value(json!("hero-2"))),
        ("Superman", value(json!("hero-1"))),
        ("2", value(json!("hero-2"))),
        ("3", wrong()),
        ("0", wrong()),
    ];
    check(titled, true, &entries);
    let named = json!({"type": "string", "enum": ["a", "2"], "enumNames": ["First", "Second"]});
    // A value goes before a number.
    check(named, true, &[("First", value(json!("a"))), ("2", value(json!("2")))]);
    let several = json!({"type": "array", "minItems": 1, "maxItems": 2, "default": ["Piano"],
        "items": {"type": "string", "enum": ["Guitar", "Piano", "Drums"]}});
    let entries = [
        ("Guitar, 3", value(json!(["Guitar", "Drums"]))),
        ("1,2,3", wrong()),
        ("Flute", wrong()),
        ("", value(json!(["Piano"]))),
    ];
    check(several, true, &entries);
}

#[test]
fn a_field_says_what_it_is() {
    let form = Form::from_schema(&json!({"properties": {
        "email": {"type": "string", "title": "Mail", "format": "email", "description": "Yours"},
        "colour": {"type": "string", "enum": ["red", "green"], "default": "red"},
    }, "required": ["email"]}));
    let form = form.unwrap_or_else(|error| panic!("{error}"));
    let told: Vec<_> = form.fields().iter().map(|f| f.describe() + &f.prompt()).collect();
    let expected = [
        "\nMail: Yours\nemail (email): ",
        "\ncolour\n  1. red\n  2. green\ncolour (one of them, default red): ",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_form_that_is_none_is_told_as_such() {
    let check = |properties: Value, expected: &str| {
        let error = Form::from_schema(&json!({"properties": properties})).err().expect("refused");
        assert!(error.contains(expected), "{error}");
    };
    let many: Map<String, Value> =
        (0..65).map(|number| (number.to_string(), json!({"type": "string"}))).collect();
    check(Value::Object(many), "too long");
    check(json!({"f": {"type": "object"}}), "unknown type object");
    check(json!({"f": {"type": "string", "enum": (0..201).collect::<Vec<_>>()}}), "too many");
    check(json!({"f": {"type": "string", "minLength": "x"}}), "none that can be checked");
    assert!(Form::from_schema(&json!(null)).is_ok_and(|form| form.is_empty()));
}
