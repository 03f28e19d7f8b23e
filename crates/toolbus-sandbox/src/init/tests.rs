//! Reports, however they are cut.

use super::*;

#[test]
fn reports_are_put_together() {
    let bytes = [b"S".as_slice(), b"E\x00\x89\x00\x00", b"X\x02\x00\x00\x00"].concat();
    let expected =
        [Ok(Report::Started), Ok(Report::Ended(WaitStatus(0x8900))), Ok(Report::NotStarted(2))];
    for size in 1..=bytes.len() {
        let mut reports = Reports::default();
        let mut found = Vec::new();
        for piece in bytes.chunks(size) {
            reports.accept(piece);
            found.extend(std::iter::from_fn(|| reports.next()));
        }
        assert_eq!(found, expected, "in pieces of {size}");
    }
}

#[test]
fn nonsense_is_an_error() {
    let mut reports = Reports::default();
    reports.accept(b"?S");
    assert_eq!(reports.next(), Some(Err(b'?')));
    assert_eq!(reports.next(), None, "what follows it means nothing");
}
