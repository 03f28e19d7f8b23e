use super::*;

#[test]
fn each_request_is_read() {
    let parse = |value: Value| Request::parse(value).unwrap();
    assert!(matches!(parse(json!({"names": true})), Request::Names));
    let Request::Call { tool, arguments } = parse(json!({"call": "a-b", "arguments": {"x": 1}}))
    else {
        panic!("a call")
    };
    assert_eq!((tool.as_str(), arguments["x"].as_u64()), ("a-b", Some(1)));
    let put = json!({"put": "1", "data": "", "last": true, "mediaType": null, "name": "a.csv"});
    assert!(matches!(parse(put), Request::Put(Put { last: true, .. })));
    let read = json!({"read": "art_1", "offset": 0, "length": 5});
    assert!(matches!(parse(read), Request::Read { length: 5, .. }));
}

#[test]
fn what_is_no_request_is_refused() {
    for value in [
        json!(null),
        json!([]),
        json!({}),
        json!({"call": 1, "arguments": {}}),
        json!({"call": "a", "arguments": []}),
        json!({"call": "a"}),
        json!({"put": "1"}),
        json!({"read": "a", "offset": -1, "length": 5}),
    ] {
        assert_eq!(Request::parse(value.clone()).unwrap_err(), Malformed, "{value}");
    }
}
