//! Documents, honest and not.

use std::io::Write as _;

use toolbus_testkit::memory::peak_bytes;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::*;

const NAMESPACES: &str = "xmlns:w=\"http://schemas.openxmlformats.org/wordprocessingml/2006/main\" \
    xmlns:mc=\"http://schemas.openxmlformats.org/markup-compatibility/2006\"";

fn archive(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, content) in parts {
        writer.start_file(*name, options).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn document(body: &str) -> Vec<u8> {
    let xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><w:document {NAMESPACES}><w:body>{body}</w:body></w:document>"
    );
    archive(&[("[Content_Types].xml", b"<Types/>"), (TEXT_PART, xml.as_bytes())])
}

#[track_caller]
fn check(body: &str, expected: &str) {
    assert_eq!(extract_text(&document(body)).as_deref(), Ok(expected));
}

#[track_caller]
fn refused(bytes: &[u8], reason: &str) {
    let error = extract_text(bytes).expect_err("it is refused");
    assert!(error.contains(reason), "{error}");
}

fn paragraph(text: &str) -> String {
    format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>")
}

#[test]
fn paragraphs_are_lines_and_those_of_tables_are_among_them() {
    let table = format!("<w:tbl><w:tr><w:tc>{}</w:tc></w:tr></w:tbl>", paragraph("cell"));
    let body = format!("{}{table}<w:p/>{}", paragraph("one"), paragraph("two"));
    check(&body, "one\ncell\n\ntwo");
    check("", "");
}

/// Ten times as many as are read, in a file of a few kilobytes.
#[test]
fn a_document_of_too_many_paragraphs_is_refused_in_little_memory() {
    let bytes = document(&"<w:p/>".repeat(10 * PARAGRAPHS_MAX));
    assert!(bytes.len() < 1 << 20);
    let before = peak_bytes();
    refused(&bytes, "it has more than 262144 paragraphs");
    let grown = peak_bytes() - before;
    assert!(grown <= 64 << 20, "{} MiB more", grown >> 20);
}

/// Rule 19 of 2c.
#[test]
fn tabs_and_breaks_are_kept() {
    check(
        "<w:p><w:pPr><w:tabs><w:tab w:val=\"left\"/></w:tabs></w:pPr><w:r><w:t>a</w:t><w:tab/>\
         <w:t xml:space=\"preserve\"> b</w:t><w:br/><w:t>c</w:t><w:cr/></w:r></w:p>",
        "a\t b\nc\n",
    );
}

#[test]
fn characters_are_those_that_are_meant() {
    check(&paragraph("R&amp;D &lt;3 &#x1F600;&#228;<![CDATA[ & ]]>"), "R&D <3 \u{1F600}ä & ");
    // Deleted text, and the codes of fields, are no text.
    check("<w:p><w:r><w:delText>gone</w:delText><w:instrText>PAGE</w:instrText></w:r></w:p>", "");
}

#[test]
fn boxes_are_read_once() {
    let inner = paragraph("box");
    let body = format!(
        "<w:p><w:r><w:t>before</w:t><mc:AlternateContent><mc:Choice>{inner}</mc:Choice>\
         <mc:Fallback>{inner}</mc:Fallback></mc:AlternateContent><w:t> after</w:t></w:r></w:p>"
    );
    check(&body, "before after\nbox");
}

/// Rule 19 of 2c.
#[test]
fn what_is_no_document_is_refused() {
    refused(b"just text", "no ZIP archive");
    refused(b"", "no ZIP archive");
    refused(b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", "password");
    refused(&archive(&[("word/other.xml", b"")]), "no word/document.xml");
    let whole = document(&paragraph("text"));
    refused(&whole[..whole.len() - 40], "");
    refused(&archive(&[(TEXT_PART, b"<a><b></a>")]), "damaged");
    refused(&archive(&[(TEXT_PART, b"<a><b>")]), "");
    refused(&archive(&[(TEXT_PART, b"<w:t>\xFF</w:t>")]), "");
}

#[test]
fn bombs_do_not_go_off() {
    // A gigabyte of blanks is a megabyte of archive; it is read for as long as it is allowed to.
    let bomb = vec![b' '; (UNPACKED_BYTES_MAX as usize) + (1 << 20)];
    refused(&archive(&[(TEXT_PART, &bomb)]), "unpacks to more than");

    let deep = "<a>".repeat(DEPTH_MAX + 1);
    refused(&archive(&[(TEXT_PART, deep.as_bytes())]), "nested deeper");

    let many: Vec<String> = (0..=ENTRIES_MAX).map(|number| number.to_string()).collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|name| (name.as_str(), &b""[..])).collect();
    refused(&archive(&many), "entries");

    let laughs = "<!DOCTYPE a [<!ENTITY b \"ha\"><!ENTITY c \"&b;&b;&b;&b;\">]><w:t>&c;</w:t>";
    refused(&archive(&[(TEXT_PART, laughs.as_bytes())]), "entity");
}
