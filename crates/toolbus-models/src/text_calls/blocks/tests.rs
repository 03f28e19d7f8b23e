use proptest::prelude::*;

use super::*;

fn read<'a>(parts: impl IntoIterator<Item = &'a str>) -> Vec<Piece> {
    let mut parser = BlockParser::default();
    let mut pieces = Vec::new();
    for part in parts {
        parser.feed(part, &mut pieces);
    }
    parser.end(&mut pieces);
    join(pieces)
}

/// The pieces with texts in a row as one.
fn join(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (joined.last_mut(), piece) {
            (Some(Piece::Text(text)), Piece::Text(more)) => text.push_str(&more),
            (_, piece) => joined.push(piece),
        }
    }
    joined
}

fn text(text: &str) -> Piece {
    Piece::Text(text.to_owned())
}

fn block(text: &str, is_closed: bool) -> Piece {
    Piece::Block { text: text.to_owned(), is_closed }
}

#[test]
fn blocks_are_told_from_text() {
    let check = |whole: &str, expected: &[Piece]| assert_eq!(read([whole]), expected, "{whole:?}");
    check("", &[]);
    check("a\nb", &[text("a\nb")]);
    check("a\n```tool_call\n{}\n```\nb", &[text("a\n"), block("{}\n", true), text("b")]);
    check("```tool_call\n{}\n```", &[block("{}\n", true)]);
    check("```tool_call \r\n{}\r\n``` \r\n", &[block("{}\r\n", true)]);
    check("```tool_call\n{}", &[block("{}", false)]);
    check("```tool_call\n", &[block("", false)]);
    check("```tool_call", &[text("```tool_call")]);
    check("a ```tool_call\n{}\n```\n", &[text("a ```tool_call\n{}\n```\n")]);
    check("```tool_calls\n{}\n```\n", &[text("```tool_calls\n{}\n```\n")]);
    check("```json\n{}\n```\n", &[text("```json\n{}\n```\n")]);
    check(
        "```tool_call\n{}\n```\n```tool_call\n[]\n```\n",
        &[block("{}\n", true), block("[]\n", true)],
    );
}

#[test]
fn text_is_passed_on_as_soon_as_it_is_text() {
    let mut parser = BlockParser::default();
    let mut pieces = Vec::new();
    let mut feed = |delta: &str| {
        parser.feed(delta, &mut pieces);
        std::mem::take(&mut pieces)
    };
    assert_eq!(feed("Hel"), [text("Hel")]);
    assert_eq!(feed("lo ``"), [text("lo ``")]);
    assert_eq!(feed("\n``"), [text("\n")]);
    assert_eq!(feed("`"), []);
    assert_eq!(feed("py"), [text("```py")]);
    assert_eq!(feed("\n```tool_call"), [text("\n")]);
    assert_eq!(feed("\n{"), []);
    assert_eq!(feed("}\n```\n"), [block("{}\n", true)]);
}

#[test]
fn a_block_that_is_too_large_is_not_kept() {
    let line = "x".repeat(1 << 20) + "\n";
    let parts = std::iter::once("```tool_call\n").chain(std::iter::repeat_n(line.as_str(), 20));
    let pieces = read(parts.chain(["```\n"]));
    let [Piece::Block { text, is_closed: true }] = &pieces[..] else { panic!("one block") };
    assert_eq!(text.len(), BLOCK_BYTES_MAX + 1);
}

/// What is held back is not looked through again with each piece.
#[test]
fn an_opening_with_many_blanks_behind_it_is_read_once() {
    const BLANKS: usize = 100_000;

    let blanks = || std::iter::repeat_n(" ", BLANKS);
    let opening = || std::iter::once("```tool_call").chain(blanks());
    assert_eq!(read(opening().chain(["\n{}\n```"])), [block("{}\n", true)]);
    let whole = format!("```tool_call{}x", " ".repeat(BLANKS));
    assert_eq!(read(opening().chain(["x"])), [text(&whole)]);
}

proptest! {
    /// However a text is cut, its blocks are the same.
    #[test]
    fn blocks_do_not_depend_on_the_pieces(
        lines in prop::collection::vec(
            prop_oneof![
                Just("```tool_call"), Just("```"), Just("{}"), Just("``"), Just("é"),
                Just("```tool_call "), Just(""), Just(" ```"),
            ],
            0..12,
        ),
        ends in any::<bool>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut whole = lines.join("\n");
        if ends {
            whole.push('\n');
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(whole.len() + 1)).collect();
        cuts.extend([0, whole.len()]);
        cuts.iter_mut().for_each(|cut| *cut = whole.floor_char_boundary(*cut));
        cuts.sort_unstable();
        let parts = cuts.windows(2).map(|cut| &whole[cut[0]..cut[1]]);
        prop_assert_eq!(read(parts), read([whole.as_str()]));
    }
}
