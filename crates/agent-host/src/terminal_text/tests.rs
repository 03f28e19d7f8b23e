use super::*;

#[test]
fn what_a_terminal_obeys_is_taken_out() {
    for (text, expected) in [
        ("plain\ntext\twith ümläuts 漢字 🦀\n", "plain\ntext\twith ümläuts 漢字 🦀\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("a\x1b[2K\x1b[1Ab", "ab"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]52;c;ZXZpbA==\x1b\\text", "text"),
        ("\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0;2\x1b\\sixel", "sixel"),
        ("\u{9b}31mred", "red"),
        ("\u{9d}0;a title\u{9c}text", "text"),
        ("\x1bcreset", "reset"),
        ("\x1b(0lines", "lines"),
        ("over\rwritten\r\n", "overwritten\n"),
        ("bell\x07, back\x08 and delete\x7f", "bell, back and delete"),
        ("safe\u{202e}txt.exe\u{2066}\u{200b}", "safetxt.exe"),
        // What does not end hides nothing.
        ("\x1b]0;no end\nnext", "0;no end\nnext"),
        ("\x1b[31", "31"),
        ("\x1b", ""),
    ] {
        assert_eq!(clean(text), expected, "{text:?}");
    }
}

/// A line of megabytes may be nothing but beginnings of strings. No place is searched for their
/// ends again with each of them, whether they have ends or not.
#[test]
fn many_strings_in_a_line_are_searched_once() {
    const STRINGS: usize = 200_000;

    let endless = "\x1b]".repeat(STRINGS);
    let text = format!("{endless}\n\x1b]0;a title\x07{endless}");
    assert_eq!(clean(&text), "\n");
    assert_eq!(clean(&"\u{9d}\x07".repeat(STRINGS)), "");
}

#[test]
fn what_is_no_terminal_gets_every_byte() {
    let file = tempfile::tempfile().expect("a file");
    assert_eq!(for_stream("\x1b[31mred\r\n", &file), "\x1b[31mred\r\n");
}
