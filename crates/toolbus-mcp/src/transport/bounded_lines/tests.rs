//! Lines, long lines, and a reader that is dropped between them.

use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::*;

fn whole(text: &str) -> Line {
    Line::Whole(text.as_bytes().to_vec())
}

#[tokio::test]
async fn lines_at_and_over_the_limit() {
    let text = "12345\n123456\n\nab\nrest without an end";
    let mut lines = LineReader::new(text.as_bytes(), 5);
    assert_eq!(lines.next().await, whole("12345"));
    let edge = b"123456".to_vec();
    let cut = CutLine { head: edge.clone(), tail: edge, length: 6 };
    assert_eq!(lines.next().await, Line::Cut(cut));
    assert_eq!(lines.next().await, whole(""));
    assert_eq!(lines.next().await, whole("ab"));
    assert_eq!(lines.next().await, Line::End);
    assert_eq!(lines.next().await, Line::End);
}

#[tokio::test]
async fn a_long_line_keeps_its_edges_and_no_more() {
    let long = format!("begin{}end\nnext\n", "x".repeat(1_000_000));
    let mut lines = LineReader::new(long.as_bytes(), 1000);
    let Line::Cut(cut) = lines.next().await else { panic!("not cut") };
    assert_eq!(cut.length, 1_000_008);
    assert!(cut.head.starts_with(b"beginx") && cut.head.len() == EDGE_BYTES);
    assert!(cut.tail.ends_with(b"xend") && cut.tail.len() == EDGE_BYTES);
    assert_eq!(lines.next().await, whole("next"));
}

#[tokio::test]
async fn a_dropped_read_loses_nothing() {
    let (mut writer, reader) = tokio::io::duplex(64);
    let mut lines = LineReader::new(reader, 100);
    writer.write_all(b"first ha").await.unwrap();
    let unfinished = tokio::time::timeout(Duration::from_millis(20), lines.next()).await;
    assert!(unfinished.is_err());
    writer.write_all(b"lf\n").await.unwrap();
    assert_eq!(lines.next().await, whole("first half"));
}
