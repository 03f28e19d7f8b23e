use std::collections::BTreeMap;

use super::*;

/// A call, its request and the handling of that, below a span of somebody else.
fn expected() -> Vec<Expected> {
    vec![
        Expected::new(Kind::Internal, "host", "call").below_stranger("00"),
        Expected::publish("host", "tool.invoke").below(0),
        Expected::process("worker", "tool.invoke").below(1),
        Expected::new(Kind::Internal, "worker", "run").below(2).failing("timeout"),
    ]
}

/// What is expected, as a collector would receive it, the last first.
fn spans() -> Vec<Span> {
    let parents = ["00", "01", "02", "03"];
    let spans = expected().into_iter().zip(parents).zip(1..).map(|((wanted, parent), id)| {
        let attributes = wanted.attributes.iter();
        let texts = attributes.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Span {
            trace_id: "t".to_owned(),
            span_id: format!("0{id}"),
            parent_id: Some(parent.to_owned()),
            name: wanted.name.to_owned(),
            kind: wanted.kind as u64,
            is_error: wanted.is_error,
            service: wanted.service.to_owned(),
            attributes: texts.collect::<BTreeMap<_, _>>(),
        }
    });
    let mut spans: Vec<_> = spans.collect();
    spans.reverse();
    spans
}

/// What is said of the trace once it has been changed.
fn mistake(change: impl FnOnce(&mut Vec<Span>)) -> String {
    let mut spans = spans();
    change(&mut spans);
    check(&spans, &expected()).expect_err("it is another trace").to_string()
}

#[test]
fn a_trace_is_what_is_expected_in_any_order() {
    let spans = spans();
    let found = check(&spans, &expected()).expect("the trace");
    let names: Vec<_> = found.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["call", "publish", "process", "run"]);
}

#[test]
fn whatever_differs_is_told() {
    // Reversed: the first is what runs, the last the call.
    let missing = |text: String, what: &str| assert!(text.starts_with(what), "{text}");
    let run = r#"no Expected { kind: Internal, service: "worker", name: "run""#;
    missing(mistake(|spans| drop(spans.remove(0))), run);
    missing(mistake(|spans| spans[0].kind = 3), run);
    missing(mistake(|spans| spans[0].service = "host".to_owned()), run);
    missing(mistake(|spans| spans[0].is_error = false), run);
    missing(mistake(|spans| spans[0].parent_id = Some("02".to_owned())), run);
    missing(mistake(|spans| spans[0].attributes.clear()), run);
    missing(
        mistake(|spans| spans[3].parent_id = None),
        "no Expected { kind: Internal, service: \"host\"",
    );
    let again = |spans: &mut Vec<Span>| {
        spans.push(Span { span_id: "05".to_owned(), ..spans[2].clone() });
    };
    missing(mistake(again), "two Expected { kind: Producer");
    let another = |spans: &mut Vec<Span>| {
        let name = "other".to_owned();
        spans.push(Span { span_id: "05".to_owned(), name, ..spans[2].clone() });
    };
    missing(mistake(another), "not expected: [");
}
