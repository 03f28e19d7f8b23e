use super::{Row, read_rows, write_page};

#[test]
fn rows_of_a_page_are_read_again() {
    let row = |suite: &str, failed| Row {
        suite: suite.to_owned(),
        passed: 3 - failed,
        failed,
        seconds: 12,
        commit: "0123456789ab".to_owned(),
    };
    let suites = ["a::one", "a::two", "b::three"].map(str::to_owned);
    let rows = vec![row("a::one", 0), row("b::three", 1)];
    let page = write_page(&rows, &suites);
    assert!(page.contains("| a::two | not run | | | |\n"), "{page}");
    assert_eq!(read_rows(&page), rows);
}
