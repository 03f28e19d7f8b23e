use super::*;

fn file(name: &str, bytes: usize) -> File {
    File { name: FileName::parse(name).unwrap(), content: vec![b'x'; bytes].into() }
}

#[test]
fn a_name_is_one_plain_name() {
    for name in ["a", "plot 1.png", "Übersicht (2).csv", "a..b", "x.tar.gz", &"n".repeat(128)] {
        assert_eq!(FileName::parse(name).unwrap().as_str(), name);
    }
    for name in [
        "",
        ".",
        "..",
        ".bashrc",
        "-rf",
        "a/b",
        "/etc/passwd",
        "..\\x",
        "a\nb",
        "a\u{1b}[2J",
        "a\0",
        "\u{85}x",
        " a",
        "a ",
        &"n".repeat(129),
    ] {
        assert!(FileName::parse(name).is_err(), "{name:?}");
    }
}

#[test]
fn inputs_are_bounded_and_have_names_of_their_own() {
    assert_eq!(check_inputs(&[]), Ok(()));
    assert_eq!(check_inputs(&[file("a", FILES_BYTES_MAX - 1), file("b", 1)]), Ok(()));
    let over = check_inputs(&[file("a", FILES_BYTES_MAX), file("b", 1)]);
    assert_eq!(over, Err("files of 4194305 bytes are over the limit of 4194304".to_owned()));
    let twice = check_inputs(&[file("a", 1), file("b", 1), file("a", 1)]);
    assert_eq!(twice, Err("two files have the name a".to_owned()));
    let many: Vec<File> = (0..=FILES_MAX).map(|number| file(&number.to_string(), 0)).collect();
    assert_eq!(check_inputs(&many), Err("33 files are over the limit of 32".to_owned()));
    assert_eq!(check_inputs(&many[1..]), Ok(()));
}

#[test]
fn what_comes_back_is_bounded_in_count_and_bytes_and_the_rest_is_told() {
    let mut collector = Collector::default();
    let large = collector.admit("large", u64::MAX);
    assert_eq!(large, None);

    for number in 0..FILES_MAX {
        let name = collector.admit(&format!("{number:02}"), 1).unwrap();
        collector.keep(name, vec![b'x']);
    }

    assert_eq!(collector.admit("one more", 1), None);

    let produced = collector.finish();
    assert_eq!(produced.files.len(), FILES_MAX);

    let refused: Vec<&str> = produced.refused.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(refused, ["large", "one more"]);

    let mut collector = Collector::default();
    let name = collector.admit("b", FILES_BYTES_MAX as u64).unwrap();
    let liar = collector.admit("a", 1).unwrap();

    collector.keep(name, vec![b'x'; FILES_BYTES_MAX]);
    assert_eq!(collector.admit("c", 1), None);
    collector.keep(liar, vec![b'x']);

    let produced = collector.finish();
    assert_eq!((produced.files.len(), produced.refused.len()), (1, 2));
}

#[test]
fn what_is_told_of_refused_files_is_bounded_and_printable() {
    let mut collector = Collector::default();
    collector.refuse("a\u{1b}[2Jb", "it is a link");
    collector.refuse(&"é".repeat(1000), &"ü".repeat(1000));

    for _ in 0..1000 {
        assert_eq!(collector.admit("a/b", 1), None);
    }

    let produced = collector.finish();
    assert_eq!(produced.refused.len(), REFUSED_MAX + 1);
    assert_eq!(produced.refused[0].name, "a\\u{1b}[2Jb");
    assert!(produced.refused[1].name.len() <= NAME_BYTES_MAX + 3);
    assert!(produced.refused[1].reason.len() <= REASON_BYTES_MAX);

    assert_eq!(produced.refused[REFUSED_MAX].name, "986 more");
}

#[test]
fn a_file_is_what_its_bytes_are() {
    let check = |name: &str, content: &[u8], expected| {
        assert_eq!(mime_type(name, content), expected, "{name}");
    };
    check("x", b"\x89PNG\r\n\x1a\nrest", "image/png");
    check("plot.png", b"not a picture", "text/plain");
    check("plot.png", b"\xff\xfe", "application/octet-stream");
    check("x.csv", b"\xff\xd8\xff\xe0", "image/jpeg");
    check("x", b"GIF89a", "image/gif");
    check("x", b"RIFF\0\0\0\0WEBPVP8 ", "image/webp");
    check("x.CSV", b"a,b\n1,2\n", "text/csv");
    check("x.csv", b"\xff\xff", "application/octet-stream");
    check("x.svg", b"<svg/>", "image/svg+xml");
    check("x.pdf", b"%PDF-1.7", "application/pdf");
    check("notes", "é".as_bytes(), "text/plain");
    check("zeros", b"\0\0", "application/octet-stream");

    check("empty", b"", "text/plain");
}
