use toolbus_wire::ErrorCode;

use super::*;

fn given(files: Value) -> Result<Option<Vec<ScriptFile>>, CallError> {
    let mut arguments = Map::from_iter([("input_files".to_owned(), files)]);
    coerce_list(arguments.get_mut("input_files").unwrap());
    take_input_files(&mut arguments)
}

fn left(name: &str, content: &[u8], kind: &str) -> ScriptFile {
    ScriptFile {
        name: name.to_owned(),
        data: STANDARD.encode(content),
        mime_type: Some(kind.to_owned()),
    }
}

#[test]
fn files_come_as_text_or_as_base64() {
    let expected = vec![
        ScriptFile { name: "a".to_owned(), data: "w6k=".to_owned(), mime_type: None },
        ScriptFile { name: "b".to_owned(), data: "AAE=".to_owned(), mime_type: None },
    ];
    let list = json!([{"name": "a", "text": "é"}, {"name": "b", "data": "AAE="}]);
    assert_eq!(given(list.clone()), Ok(Some(expected.clone())));
    assert_eq!(given(json!(list.to_string())), Ok(Some(expected)));
    assert_eq!(given(json!([])), Ok(None));
    assert_eq!(given(Value::Null), Ok(None));
    assert_eq!(take_input_files(&mut Map::new()), Ok(None));
}

#[test]
fn what_is_no_file_is_refused_with_its_name() {
    let check = |file: Value, expected: &str| {
        let error = given(json!([file])).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidArguments);
        assert_eq!(error.message, expected);
    };

    let path = json!({"name": "../a", "text": ""});
    check(path, "The file \"../a\" cannot be taken: its name is a path");
    let both = json!({"name": "a", "text": "", "data": ""});
    check(both, "The file \"a\" cannot be taken: it needs either `text` or `data`");
    check(json!({"name": "a"}), "The file \"a\" cannot be taken: it needs either `text` or `data`");
    let broken = json!({"name": "a", "data": "%"});

    check(broken, "The file \"a\" cannot be taken: its `data` is not base64");
}

#[test]
fn files_stand_in_blocks_beside_the_text() {
    assert_eq!(append_files(Output::text("42"), Vec::new()), Output::text("42"));

    let files = vec![
        left("a b.png", b"\x89PNG", "image/png"),
        left("t.csv", "é".as_bytes(), "text/csv"),
        left("x.bin", b"\xff", "application/octet-stream"),
        left("liar.txt", b"\xff", "text/plain"),
    ];

    let output = append_files(Output::error("42"), files);
    assert_eq!((output.content.as_deref(), output.is_error), (Some("42"), true));

    let uri = |name: &str| Some(format!("script:///output/{name}"));

    let bytes = |name: &str, kind: &str| ContentBlock {
        kind: ContentKind::Resource,
        text: None,
        data: Some("/w==".to_owned()),
        mime_type: Some(kind.to_owned()),
        uri: uri(name),
    };

    let expected = vec![
        text_block("42".to_owned()),
        text_block("Files from the folder output: a b.png, t.csv, x.bin, liar.txt".to_owned()),
        ContentBlock {
            kind: ContentKind::Image,
            text: None,
            data: Some("iVBORw==".to_owned()),
            mime_type: Some("image/png".to_owned()),
            uri: uri("a%20b.png"),
        },
        ContentBlock {
            kind: ContentKind::Resource,
            text: Some("é".to_owned()),
            data: None,
            mime_type: Some("text/csv".to_owned()),
            uri: uri("t.csv"),
        },
        bytes("x.bin", "application/octet-stream"),
        bytes("liar.txt", "text/plain"),
    ];

    assert_eq!(output.blocks, expected);
}
