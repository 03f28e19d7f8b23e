use super::*;

fn block(kind: ContentKind, data: Option<&[u8]>, text: Option<&str>) -> ContentBlock {
    ContentBlock {
        kind,
        text: text.map(str::to_owned),
        data: data.map(|data| STANDARD.encode(data)),
        mime_type: None,
        uri: None,
    }
}

fn at(mut block: ContentBlock, uri: &str, kind: &str) -> ContentBlock {
    block.uri = Some(uri.to_owned());
    block.mime_type = Some(kind.to_owned());
    block
}

fn named(uri: &str) -> String {
    let block = at(block(ContentKind::Image, Some(b"x"), None), uri, "image/png");
    file_parts(&[block])[0].name.to_string()
}

#[test]
fn blocks_with_bytes_or_a_place_are_files() {
    let blocks = [
        block(ContentKind::Text, None, Some("to read")),
        at(
            block(ContentKind::Image, Some(b"\x89PNG"), None),
            "script:///output/a%20b.png",
            "image/png",
        ),
        at(block(ContentKind::Resource, None, Some("1,2")), "script:///output/t.csv", "text/csv"),
        at(block(ContentKind::Resource, None, None), "file:///a/link", "text/plain"),
        block(ContentKind::Audio, Some(b"x"), None),
    ];
    let found = file_parts(&blocks);
    let found: Vec<(&str, &str, &[u8])> = found
        .iter()
        .map(|part| (part.name.as_str(), part.kind.as_str(), part.content.as_slice()))
        .collect();
    let expected: [(&str, &str, &[u8]); 3] = [
        ("a b.png", "image/png", b"\x89PNG"),
        ("t.csv", "text/csv", b"1,2"),
        ("file-5.bin", "application/octet-stream", b"x"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_name_that_leads_elsewhere_is_not_taken() {
    assert_eq!(named("x://y/plot.png"), "plot.png");
    for uri in ["x://y/..", "x://y/..%2Fz", "x://y/%2Fetc%2Fpasswd", "x://y/.bashrc", "x://y/", "y"]
    {
        assert_eq!(named(uri), "file-1.png", "{uri}");
    }
}

#[test]
fn what_is_there_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("new");
    let part = |content: &[u8]| FilePart {
        name: FileName::parse("a.txt").unwrap(),
        kind: "text/plain".to_owned(),
        content: content.to_vec(),
    };
    write_files(&inner, &[part(b"one"), part(b"two")]).unwrap();
    write_files(&inner, &[part(b"three")]).unwrap();
    for (name, content) in [("a.txt", "one"), ("a-1.txt", "two"), ("a-2.txt", "three")] {
        assert_eq!(fs::read_to_string(inner.join(name)).unwrap(), content);
    }
    assert!(write_files(&inner.join("a.txt"), &[part(b"x")]).is_err());
}
