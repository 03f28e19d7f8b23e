use toolbus_wire::message::Secret;

use super::*;

const SECRET: &str = "s3cret-of-the-é-server";

/// What is told of a line, which comes in pieces.
fn told(line: &str) -> String {
    let eraser = Eraser::new([Secret::from(SECRET.to_owned())]);
    let mut logger = StderrLogger::new("server", eraser, Arc::default());
    line.as_bytes().chunks(1000).for_each(|bytes| logger.add_bytes(bytes));
    logger.erase_line()
}

#[test]
fn a_short_line_is_told_whole() {
    assert_eq!(told("  nothing\t"), "nothing");
    assert_eq!(told(&format!("with {SECRET} in it")), "with *** in it");
    let long = "x".repeat(LINE_BYTES_MAX);
    assert_eq!(told(&long), long);
}

#[test]
fn no_part_of_a_secret_is_told_wherever_a_line_is_cut() {
    for room in LINE_BYTES_MAX - 2 * SECRET.len()..LINE_BYTES_MAX + 2 * SECRET.len() {
        for rest in ["", "y", SECRET] {
            let told = told(&format!("{}{SECRET}{rest}", "x".repeat(room)));
            assert!(!told.contains('s') && told.len() <= LINE_BYTES_MAX + 3, "{room}: {told}");
            assert!(told.starts_with(&"x".repeat(LINE_BYTES_MAX - 2 * SECRET.len() - 8)), "{told}");
        }
    }
    let many = told(&SECRET.repeat(1000));
    assert!(many.starts_with("*********") && !many.contains('s'), "{many}");
}
