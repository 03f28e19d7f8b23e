//! Files out of headers and pieces.

use toolbus_scripts::files::FILES_BYTES_MAX;

use super::*;

#[test]
fn files_are_put_together_and_what_is_not_whole_is_told() {
    let mut receiving = Receiving::default();
    receiving.begin(b"b.txt", 6);
    receiving.append(b"one");
    receiving.append(b"two");
    receiving.begin(b"a.txt", 0);
    receiving.begin(b"short", 4);
    receiving.append(b"123");
    receiving.begin(b"long", 2);
    receiving.append(b"123");
    receiving.begin(b"\xff", 1);
    receiving.append(b"1");
    receiving.omit(b"link", b"it is a link");
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
    let mut receiving = Receiving::default();
    receiving.begin(b"a", FILES_BYTES_MAX as u64 + 1);
    let piece = vec![0; 1 << 20];
    for _ in 0..64 {
        receiving.append(&piece);
    }
    receiving.begin(b"b", 3 << 20);
    for _ in 0..64 {
        receiving.append(&piece);
    }
    let produced = receiving.finish();
    let sizes: Vec<usize> = produced.files.iter().map(|file| file.content.len()).collect();
    assert_eq!((sizes, produced.refused.len()), (vec![3 << 20], 1));
}
