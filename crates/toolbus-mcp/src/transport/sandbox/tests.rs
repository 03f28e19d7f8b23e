use super::*;

#[test]
fn the_end_of_a_server_is_read_out_of_that_of_bubblewrap() {
    let ended = |code: i32| status_of_server(ExitStatus::from_raw(code << 8));
    assert_eq!(
        (ended(0).code(), ended(7).code(), ended(128).code()),
        (Some(0), Some(7), Some(128))
    );
    assert_eq!((ended(139).code(), ended(139).signal()), (None, Some(11)));
    assert_eq!((ended(193).code(), ended(255).code()), (Some(193), Some(255)));
    // Bubblewrap itself was killed.
    assert_eq!(status_of_server(ExitStatus::from_raw(9)).signal(), Some(9));
}

#[test]
fn a_program_that_is_not_there_is_told_with_its_error() {
    let number = |words: &str| why_not_started("/a b", words).map(|error| error.raw_os_error());
    assert_eq!(number("bwrap: execvp /a b: No such file or directory"), Some(Some(2)));
    assert_eq!(number("bwrap: execvp /a b: Permission denied"), Some(Some(13)));
    assert_eq!(number("bwrap: execvp /a b: Datei fehlt"), Some(None));
    for words in ["", "bwrap: execvp /a", "bwrap: execvp /b: Permission denied", "/a b: Killed"] {
        assert_eq!(number(words), None, "{words}");
    }
}
