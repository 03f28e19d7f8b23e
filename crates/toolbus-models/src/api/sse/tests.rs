use proptest::prelude::*;

use super::*;

fn event(name: &str, data: &str) -> SseEvent {
    SseEvent { name: name.to_owned(), data: data.to_owned() }
}

/// The events of a stream that comes in these pieces.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<SseEvent>, EventTooLarge> {
    let mut parser = SseParser::default();
    let mut events = Vec::new();
    for piece in pieces {
        parser.push(piece);
        while let Some(event) = parser.next()? {
            events.push(event);
        }
    }
    events.extend(parser.end());
    Ok(events)
}

fn check(stream: &str, expected: &[SseEvent]) {
    assert_eq!(read([stream.as_bytes()]).as_deref(), Ok(expected), "{stream:?}");
}

#[test]
fn events_are_what_the_standard_says() {
    check("data: a\n\n", &[event("", "a")]);
    check(
        "data:a\r\n\r\ndata: b\r\rdata:  c\n\n",
        &[event("", "a"), event("", "b"), event("", " c")],
    );
    check("data: a\r\ndata: b\r\n\r\n", &[event("", "a\nb")]);
    check("event: e\ndata: a\ndata: b\ndata\n\n", &[event("e", "a\nb\n")]);
    check(
        "\u{FEFF}data: a\n\n: note\n\nevent: lost\n\nid: 7\nretry: 1\ndata: b\n\n",
        &[event("", "a"), event("", "b")],
    );
    check("data: a: b\n\n", &[event("", "a: b")]);
    check("data\n\n", &[event("", "")]);
}

#[test]
fn an_event_before_the_end_needs_no_empty_line() {
    check("data: a\n\ndata: [DONE]\n", &[event("", "a"), event("", "[DONE]")]);
    check("data: [DONE]", &[event("", "[DONE]")]);
    check("", &[]);
}

#[test]
fn an_event_that_is_too_large_is_refused_as_soon_as_that_shows() {
    let piece = vec![b'x'; 1 << 20];
    let one_line = std::iter::repeat_n(piece.as_slice(), 6);
    assert_eq!(read(one_line), Err(EventTooLarge));

    let line = [b"data: ".as_slice(), &piece, b"\n"].concat();
    assert_eq!(read(std::iter::repeat_n(line.as_slice(), 6)), Err(EventTooLarge));

    // Many small ones at once are none.
    assert_eq!(
        read([b"data\n\n".repeat(1 << 20).as_slice()]).map(|events| events.len()),
        Ok(1 << 20)
    );

    // Comments are no part of any event, and those that are passed over are not kept.
    let line = [b": ".as_slice(), &piece, b"\n"].concat();
    assert_eq!(read(std::iter::repeat_n(line.as_slice(), 6)), Ok(Vec::new()));
}

fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        "data: ?[a-zé\u{1F980}: ]{0,8}",
        "event: [a-z]{0,3}",
        Just(String::new()),
        ":[a-z]{0,3}",
        "[a-z]{0,3}",
    ];
    let end = prop_oneof![Just("\n"), Just("\r"), Just("\r\n")];
    let lines = prop::collection::vec((line, end), 0..20);
    lines.prop_map(|lines| {
        let text: String = lines.iter().map(|(line, end)| format!("{line}{end}")).collect();
        text.into_bytes()
    })
}

proptest! {
    /// However a stream is cut, also within a character, its events are the same.
    #[test]
    fn events_do_not_depend_on_the_pieces(
        stream in any_stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]);
        let bytes = (0..stream.len()).map(|at| &stream[at..=at]);

        let whole = read([stream.as_slice()]);
        prop_assert_eq!(&read(pieces), &whole);
        prop_assert_eq!(&read(bytes), &whole);
    }

    #[test]
    fn any_bytes_are_read(stream in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read([stream.as_slice()]);
    }
}
