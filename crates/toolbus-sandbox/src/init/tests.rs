//! Reports, however they are cut.

use super::*;

#[test]
fn reports_are_put_together() {
    let bytes = [b"S".as_slice(), b"E\x00\x89\x00\x00", b"X\x02\x00\x00\x00"].concat();
    let expected = [
        Ok(InitReport::Started),
        Ok(InitReport::Ended(WaitStatus(0x8900))),
        Ok(InitReport::NotStarted(2)),
    ];

    for size in 1..=bytes.len() {
        let mut reports = ReportReader::default();
        let mut found = Vec::new();
        for piece in bytes.chunks(size) {
            reports.push_bytes(piece);
            found.extend(std::iter::from_fn(|| reports.next_report()));
        }
        assert_eq!(found, expected, "in pieces of {size}");
    }
}

#[test]
fn nonsense_is_an_error() {
    let mut reports = ReportReader::default();
    reports.push_bytes(b"?S");
    assert_eq!(reports.next_report(), Some(Err(b'?')));
    assert_eq!(reports.next_report(), None, "what follows it means nothing");
}
