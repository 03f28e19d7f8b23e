//! A reader of JSON in a buffer that may end in the middle of a value.
//!
//! jaq's own has no bound on nesting. This one makes jaq's values with numbers as they are written,
//! or passes over values, for those who want their text.

use std::borrow::Cow;
use std::rc::Rc;

use bytes::Bytes;
use jaq_core::ValT as _;
use jaq_json::{Map, Num, Val};

/// Deepest nesting.
pub(super) const DEPTH_MAX: usize = 1_000;
/// Integers of so many digits surely fit a machine's.
const SHORT_DIGITS_MAX: usize = 18;

/// Why there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fail {
    /// The buffer ends within the value.
    Incomplete,
    /// What was expected, where the reader stands.
    Expected(&'static str),
    /// The value is nested too deeply, where the reader stands.
    TooDeep,
}

/// A reader at a place in a buffer.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    /// Nothing comes after the buffer.
    ended: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], ended: bool) -> Self {
        Self { bytes, at: 0, depth: 0, ended }
    }

    /// How far it has read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The next byte that is no white space.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let rest = &self.bytes[self.at..];
        let blank = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
        self.at += blank.unwrap_or(rest.len());
        self.bytes.get(self.at).copied()
    }

    /// Takes the next byte that is no white space if it is this one.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn need(&mut self) -> Result<u8, Fail> {
        self.peek().ok_or(Fail::Incomplete)
    }

    pub(super) fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Fail> {
        if self.need()? == byte {
            self.at += 1;
            return Ok(());
        }
        Err(Fail::Expected(what))
    }

    /// Reads a value.
    pub(super) fn value(&mut self) -> Result<Val, Fail> {
        match self.need()? {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => Ok(Val::utf8_str(self.string_bytes()?)),
            b't' => self.literal(b"true", Val::Bool(true)),
            b'f' => self.literal(b"false", Val::Bool(false)),
            b'n' => self.literal(b"null", Val::Null),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(Fail::Expected("a value")),
        }
    }

    /// Passes over a value, and gives its text.
    pub(super) fn raw_value(&mut self) -> Result<&'a [u8], Fail> {
        self.need()?;
        let start = self.at;
        self.pass_value()?;
        Ok(&self.bytes[start..self.at])
    }

    fn pass_value(&mut self) -> Result<(), Fail> {
        match self.need()? {
            b'{' => self.members(|reader, _| reader.pass_value()),
            b'[' => self.elements(Self::pass_value),
            b'"' => self.raw_string().map(drop),
            b't' => self.literal(b"true", ()),
            b'f' => self.literal(b"false", ()),
            b'n' => self.literal(b"null", ()),
            b'-' | b'0'..=b'9' => self.raw_number().map(drop),
            _ => Err(Fail::Expected("a value")),
        }
    }

    fn object(&mut self) -> Result<Val, Fail> {
        let mut map = Map::default();
        self.members(|reader, key| {
            let value = reader.value()?;
            map.insert(Val::utf8_str(decode(key)), value);
            Ok(())
        })?;
        Ok(Val::obj(map))
    }

    fn array(&mut self) -> Result<Val, Fail> {
        let mut values = Vec::new();
        self.elements(|reader| {
            values.push(reader.value()?);
            Ok(())
        })?;
        Ok(Val::Arr(Rc::new(values)))
    }

    /// Reads an object; `member` reads the value of each key, which is given as it is written.
    pub(super) fn members(
        &mut self,
        mut member: impl FnMut(&mut Self, &'a [u8]) -> Result<(), Fail>,
    ) -> Result<(), Fail> {
        self.enter()?;
        if self.need()? != b'}' {
            loop {
                if self.need()? != b'"' {
                    return Err(Fail::Expected("a key"));
                }
                let key = self.raw_string()?;
                self.expect(b':', "a colon")?;
                member(self, key)?;
                if !self.goes_on(b'}', "a comma or a closing brace")? {
                    break;
                }
            }
        }
        self.leave();
        Ok(())
    }

    fn elements(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), Fail>,
    ) -> Result<(), Fail> {
        self.enter()?;
        if self.need()? != b']' {
            loop {
                element(self)?;
                if !self.goes_on(b']', "a comma or a closing bracket")? {
                    break;
                }
            }
        }
        self.leave();
        Ok(())
    }

    fn enter(&mut self) -> Result<(), Fail> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Fail::TooDeep);
        }
        self.at += 1;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.at += 1;
    }

    fn goes_on(&mut self, end: u8, expected: &'static str) -> Result<bool, Fail> {
        let next = self.need()?;
        if next == b',' {
            self.at += 1;
            return Ok(true);
        }
        if next == end { Ok(false) } else { Err(Fail::Expected(expected)) }
    }

    fn literal<T>(&mut self, text: &[u8], value: T) -> Result<T, Fail> {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(text) {
            self.at += text.len();
            return Ok(value);
        }
        if text.starts_with(rest) && !self.ended {
            return Err(Fail::Incomplete);
        }
        Err(Fail::Expected("a value"))
    }

    /// Reads a string, and gives what is between its quotes, as it is written.
    pub(super) fn raw_string(&mut self) -> Result<&'a [u8], Fail> {
        let start = self.at + 1;
        let mut at = start;
        loop {
            let rest = self.bytes.get(at..).ok_or(Fail::Incomplete)?;
            at += memchr::memchr2(b'"', b'\\', rest).ok_or(Fail::Incomplete)?;
            if self.bytes[at] == b'"' {
                self.at = at + 1;
                return Ok(&self.bytes[start..at]);
            }
            at += 2;
        }
    }

    fn string_bytes(&mut self) -> Result<Bytes, Fail> {
        Ok(decode(self.raw_string()?))
    }

    fn number(&mut self) -> Result<Val, Fail> {
        let (text, is_integer) = self.raw_number()?;
        if !is_integer {
            return Ok(Val::Num(Num::Dec(Rc::new(text.to_owned()))));
        }
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.len() <= SHORT_DIGITS_MAX {
            let number =
                digits.bytes().fold(0, |number, digit| number * 10 + isize::from(digit - b'0'));
            let number = if digits.len() < text.len() { -number } else { number };
            return Ok(Val::Num(Num::Int(number)));
        }
        Val::from_num(text).map_err(|_| Fail::Expected("a number"))
    }

    /// Reads a number, and gives its text and whether that is an integer.
    fn raw_number(&mut self) -> Result<(&'a str, bool), Fail> {
        let rest = &self.bytes[self.at..];
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.iter().position(|byte| !is_part(byte));
        if length.is_none() && !self.ended {
            return Err(Fail::Incomplete);
        }

        let text = &rest[..length.unwrap_or(rest.len())];
        let is_integer = is_number(text).ok_or(Fail::Expected("a number"))?;
        self.at += text.len();
        let text = std::str::from_utf8(text).map_err(|_| Fail::Expected("a number"))?;
        Ok((text, is_integer))
    }
}

/// Whether this is an integer, if it is a number.
pub(super) fn is_number(text: &[u8]) -> Option<bool> {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(unsigned);
    if whole == 0 || (whole > 1 && unsigned[0] == b'0') {
        return None;
    }

    let mut rest = &unsigned[whole..];
    let is_integer = rest.is_empty();
    if let Some(fraction) = rest.strip_prefix(b".") {
        let length = digits(fraction);
        if length == 0 {
            return None;
        }
        rest = &fraction[length..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent =
            exponent.strip_prefix(b"-").or(exponent.strip_prefix(b"+")).unwrap_or(exponent);
        let length = digits(exponent);
        if length == 0 {
            return None;
        }
        rest = &exponent[length..];
    }
    rest.is_empty().then_some(is_integer)
}

/// The text of a string as it is written. What is escaped in a wrong way is U+FFFD.
fn decode(written: &[u8]) -> Bytes {
    match unescape(written) {
        Cow::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
        Cow::Owned(bytes) => bytes.into(),
    }
}

/// The same, without copying what has no escapes.
pub(super) fn unescape(written: &[u8]) -> Cow<'_, [u8]> {
    let Some(mut escape) = memchr::memchr(b'\\', written) else { return Cow::Borrowed(written) };
    let mut text = Vec::with_capacity(written.len());
    let mut rest = written;

    loop {
        text.extend_from_slice(&rest[..escape]);
        let (decoded, length) = decode_escape(&rest[escape + 1..]);
        text.extend_from_slice(decoded.encode_utf8(&mut [0; 4]).as_bytes());
        rest = &rest[escape + 1 + length..];
        match memchr::memchr(b'\\', rest) {
            Some(next) => escape = next,
            None => break,
        }
    }
    text.extend_from_slice(rest);
    Cow::Owned(text)
}

/// The character of an escape, and how many bytes it has after the backslash.
fn decode_escape(escape: &[u8]) -> (char, usize) {
    let decoded = match escape.first() {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => return decode_unicode(escape),
        Some(byte @ (b'"' | b'\\' | b'/')) => char::from(*byte),
        Some(_) | None => char::REPLACEMENT_CHARACTER,
    };
    (decoded, usize::from(!escape.is_empty()))
}

/// `u` and four digits, or two of that with a backslash between for what takes a pair.
fn decode_unicode(escape: &[u8]) -> (char, usize) {
    let unit = |at: usize| {
        let digits = escape.get(at..at + 4)?;
        // A sign is none, though the library takes one.
        let are_digits = digits.iter().all(u8::is_ascii_hexdigit);
        let digits = std::str::from_utf8(digits).ok().filter(|_| are_digits)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let Some(first) = unit(1) else { return (char::REPLACEMENT_CHARACTER, 1) };
    if let Some(alone) = char::from_u32(first.into()) {
        return (alone, 5);
    }

    let second = unit(7).filter(|_| escape[5..].starts_with(b"\\u"));
    let pair = second.and_then(|second| char::decode_utf16([first, second]).next()?.ok());
    pair.map_or((char::REPLACEMENT_CHARACTER, 5), |pair| (pair, 11))
}

/// Reads a value and passes over it: both go as far and fail alike, and its beginning alone is the
/// same value or none. What is JSON elsewhere is so here.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    let passed = Reader::new(bytes, true).raw_value();
    assert_eq!(Reader::new(bytes, true).value().map(drop), passed.map(|_| ()));
    let beginning = Reader::new(&bytes[..bytes.len() / 2], false).raw_value();
    assert!(beginning == Err(Fail::Incomplete) || beginning == passed, "{beginning:?}");

    let limits = toolbus_json::Limits::of_bytes(64 << 10);
    if toolbus_json::from_slice::<serde_json::Value>(bytes, &limits).is_ok() {
        assert!(passed.is_ok(), "{passed:?}");
    }
    if let Ok(text) = toolbus_json::from_slice::<String>(bytes, &limits)
        && let Ok([b'"', written @ .., b'"']) = passed
    {
        assert_eq!(&*unescape(written), text.as_bytes());
    }
}

#[cfg(test)]
mod tests;
