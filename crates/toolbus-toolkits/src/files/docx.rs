//! The text of `.docx` documents: a ZIP archive with the text as XML.
//!
//! Invariants: no more is unpacked than [`UNPACKED_BYTES_MAX`], whatever the archive says of
//! itself; elements are nested no deeper than [`DEPTH_MAX`], and there are no more paragraphs than
//! [`PARAGRAPHS_MAX`]; nothing of the archive becomes a path.

use std::io::{BufReader, Cursor, Read};

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, Event};
use zip::ZipArchive;
use zip::result::ZipError;

/// Where the text is.
const TEXT_PART: &str = "word/document.xml";
/// Most entries of an archive.
const ENTRIES_MAX: usize = 4096;
/// Most bytes that are unpacked.
const UNPACKED_BYTES_MAX: u64 = 64 << 20;
/// Most paragraphs: an empty one takes four bytes of XML, and ten times that in memory.
const PARAGRAPHS_MAX: usize = 1 << 18;
/// Deepest nesting of elements.
const DEPTH_MAX: usize = 256;
/// What begins the record of each entry in an archive's directory.
const ENTRY_MARK: &[u8] = b"PK\x01\x02";
/// What documents of the old format, and those with a password, begin with.
const COMPOUND_FILE_MARK: &[u8] = b"\xD0\xCF\x11\xE0";

/// The elements that matter here, by their names without prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    Paragraph,
    Run,
    Text,
    /// A second form of what its neighbour shows already.
    Fallback,
    Other,
}

/// The paragraphs of a document, a line each: in their order, those of tables and boxes among them.
/// The error says what is wrong with it.
pub(crate) fn extract_text(bytes: &[u8]) -> Result<String, String> {
    if bytes.starts_with(COMPOUND_FILE_MARK) {
        return Err("it is protected by a password, or of the older .doc format".to_owned());
    }
    // The library makes room for as many as there are.
    if memchr::memmem::find_iter(bytes, ENTRY_MARK).count() > ENTRIES_MAX {
        return Err(format!("it has more than {ENTRIES_MAX} entries"));
    }

    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| match error {
        ZipError::InvalidArchive(_) => "it is no ZIP archive, or a damaged one".to_owned(),
        error => error.to_string(),
    })?;
    let part = archive.by_name(TEXT_PART).map_err(|error| match error {
        ZipError::FileNotFound => format!("it has no {TEXT_PART}"),
        error => error.to_string(),
    })?;

    let mut bounded = part.take(UNPACKED_BYTES_MAX + 1);
    let text = Paragraphs::default().read(BufReader::new(&mut bounded));
    match bounded.limit() {
        0 => Err(format!("it unpacks to more than {UNPACKED_BYTES_MAX} bytes")),
        _ => text,
    }
}

/// The paragraphs so far.
#[derive(Default)]
struct Paragraphs {
    paragraphs: Vec<String>,
    /// Which of them are open: one may have others in it.
    open: Vec<usize>,
    elements: Vec<Element>,
    /// How many of the open elements are fallbacks.
    fallbacks: usize,
}

impl Paragraphs {
    fn read(mut self, xml: BufReader<impl Read>) -> Result<String, String> {
        let mut reader = Reader::from_reader(xml);
        let mut buffer = Vec::new();

        loop {
            buffer.clear();
            let event = reader.read_event_into(&mut buffer);
            match event.map_err(|error| format!("its text is damaged: {error}"))? {
                Event::Start(start) => self.begin(start.local_name().as_ref())?,
                Event::End(_) => self.end(),
                Event::Empty(empty) => {
                    self.begin(empty.local_name().as_ref())?;
                    self.end();
                }
                Event::Text(text) => self.push_bytes(&text)?,
                Event::CData(text) => self.push_bytes(&text)?,
                Event::GeneralRef(name) => self.push_reference(&name)?,
                Event::Eof => break,
                _ => {}
            }
        }

        match self.elements.is_empty() {
            true => Ok(self.paragraphs.join("\n")),
            false => Err("its text ends in the middle".to_owned()),
        }
    }

    fn begin(&mut self, name: &[u8]) -> Result<(), String> {
        if self.elements.len() == DEPTH_MAX {
            return Err(format!("its elements are nested deeper than {DEPTH_MAX}"));
        }

        let is_in_run = self.elements.last() == Some(&Element::Run);
        let element = match name {
            b"p" => Element::Paragraph,
            b"r" => Element::Run,
            b"t" => Element::Text,
            b"Fallback" => Element::Fallback,
            _ => Element::Other,
        };
        // Elsewhere a tab is the place of one.
        match name {
            b"tab" if is_in_run => self.push("\t"),
            b"br" | b"cr" if is_in_run => self.push("\n"),
            b"noBreakHyphen" if is_in_run => self.push("\u{2011}"),
            _ => {}
        }

        self.fallbacks += usize::from(element == Element::Fallback);
        if element == Element::Paragraph && self.fallbacks == 0 {
            if self.paragraphs.len() == PARAGRAPHS_MAX {
                return Err(format!("it has more than {PARAGRAPHS_MAX} paragraphs"));
            }
            self.open.push(self.paragraphs.len());
            self.paragraphs.push(String::new());
        }
        self.elements.push(element);
        Ok(())
    }

    fn end(&mut self) {
        match self.elements.pop() {
            Some(Element::Paragraph) if self.fallbacks == 0 => _ = self.open.pop(),
            Some(Element::Fallback) => self.fallbacks -= 1,
            _ => {}
        }
    }

    fn push(&mut self, text: &str) {
        if self.fallbacks == 0
            && let Some(paragraph) = self.open.last()
        {
            self.paragraphs[*paragraph].push_str(text);
        }
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.elements.last() == Some(&Element::Text) {
            let text = std::str::from_utf8(bytes);
            self.push(text.map_err(|_| "its text is not UTF-8".to_owned())?);
        }
        Ok(())
    }

    /// The characters that XML itself names, and those named by number. Others are the document's
    /// own, which are not read.
    fn push_reference(&mut self, name: &BytesRef<'_>) -> Result<(), String> {
        if self.elements.last() != Some(&Element::Text) {
            return Ok(());
        }

        let number = name.resolve_char_ref().map_err(|error| error.to_string())?;
        let named = std::str::from_utf8(name).ok().and_then(resolve_xml_entity);
        match (number, named) {
            (Some(character), _) => self.push(character.encode_utf8(&mut [0; 4])),
            (None, Some(text)) => self.push(text),
            (None, None) => return Err("its text has an entity that XML does not know".to_owned()),
        }
        Ok(())
    }
}

/// The paragraphs of a document's XML, without an archive around it.
#[cfg(feature = "fuzzing")]
pub(crate) fn extract_xml_text(xml: &[u8]) -> Result<String, String> {
    Paragraphs::default().read(BufReader::new(xml))
}

#[cfg(test)]
mod tests;
