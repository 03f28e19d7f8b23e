//! Files out of headers and pieces.

use super::*;
use crate::files::FILES_BYTES_MAX;

#[test]
fn files_are_put_together_and_what_is_not_whole_is_told() {
    let mut receiving = FileReceiver::default();
    receiving.begin_file(b"b.txt", 6);
    receiving.append_piece(b"one");
    receiving.append_piece(b"two");
    receiving.begin_file(b"a.txt", 0);
    receiving.begin_file(b"short", 4);
    receiving.append_piece(b"123");
    receiving.begin_file(b"long", 2);
    receiving.append_piece(b"123");
    receiving.begin_file(b"\xff", 1);
    receiving.append_piece(b"1");
    receiving.omit_file(b"link", b"it is a link");
    let produced = receiving.finish();
    let files: Vec<(&str, &[u8])> =
        produced.files.iter().map(|file| (file.name.as_str(), file.content.as_ref())).collect();
    assert_eq!(files, [("a.txt", b"".as_slice()), ("b.txt", b"onetwo")]);
    let refused: Vec<(&str, &str)> =
        produced.refused.iter().map(|one| (one.name.as_str(), one.reason.as_str())).collect();
    assert_eq!(
        refused,
        [
            ("short", "it did not arrive whole"),
            ("long", "it did not arrive whole"),
            ("\u{fffd}", "its name is not UTF-8"),
            ("link", "it is a link"),
        ]
    );
}

#[test]
fn pieces_without_end_fill_nothing() {
    let mut receiving = FileReceiver::default();
    receiving.begin_file(b"a", FILES_BYTES_MAX as u64 + 1);
    let piece = vec![0; 1 << 20];
    for _ in 0..64 {
        receiving.append_piece(&piece);
    }
    receiving.begin_file(b"b", 3 << 20);
    for _ in 0..64 {
        receiving.append_piece(&piece);
    }
    let produced = receiving.finish();
    let sizes: Vec<usize> = produced.files.iter().map(|file| file.content.len()).collect();
    assert_eq!((sizes, produced.refused.len()), (vec![3 << 20], 1));
}
