//! A small lexer for Rust: words, literals and symbols with their lines, without comments.
//!
//! It never fails. On text that does not compile its tokens mean nothing, and the compiler will say
//! so first.

/// One token of a Rust file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) class: TokenClass,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenClass {
    /// A keyword, a name, a lifetime or a number.
    Word,
    /// A string or a character.
    Literal,
    /// One character, or one of [`PAIRS`].
    Symbol,
}

/// Symbols of two characters that would mislead a reader of brackets and patterns if they were cut.
const PAIRS: [&str; 4] = ["->", "=>", "::", "||"];

impl Token<'_> {
    /// Whether this is the given word or symbol.
    pub(super) fn is(&self, text: &str) -> bool {
        self.class != TokenClass::Literal && self.text == text
    }

    /// The number of line breaks within the token: only literals have any.
    pub(super) fn line_breaks(&self) -> usize {
        self.text.matches('\n').count()
    }
}

/// The tokens of a file, in order.
pub(super) fn lex(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut line = 1;

    while let Some(first) = rest.chars().next() {
        let (length, class) = measure(rest, first);
        let (token, after) = rest.split_at(length);

        if let Some(class) = class {
            tokens.push(Token { text: token, line, class });
        }
        line += token.bytes().filter(|byte| *byte == b'\n').count();
        rest = after;
    }
    tokens
}

/// How many bytes the next token or gap has, and what it is: nothing, for blanks and comments.
fn measure(rest: &str, first: char) -> (usize, Option<TokenClass>) {
    if first.is_whitespace() {
        return (first.len_utf8(), None);
    }

    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), None);
    }

    if rest.starts_with("/*") {
        return (block_comment_length(rest), None);
    }

    if let Some(length) = string_length(rest) {
        return (length, Some(TokenClass::Literal));
    }

    if first == '\'' {
        return quote_length(rest);
    }

    if is_word_character(first) {
        let end = rest.find(|c| !is_word_character(c)).unwrap_or(rest.len());
        return (end, Some(TokenClass::Word));
    }

    let is_pair = PAIRS.iter().any(|pair| rest.starts_with(pair));
    (if is_pair { 2 } else { first.len_utf8() }, Some(TokenClass::Symbol))
}

fn is_word_character(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Block comments may be nested.
fn block_comment_length(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;

    while at < text.len() {
        let here = &text.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }

    text.len()
}

/// The length of the string that the text begins with, raw or not and with any prefix, if it does.
fn string_length(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        text.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(['"', '#']))
    })?;

    let rest = &text[prefix.len()..];

    if prefix.ends_with('r') {
        let quote = rest.find(|c| c != '#')?;
        // `r#type` is a name.
        let body = rest[quote..].strip_prefix('"')?;
        let end = format!("\"{}", &rest[..quote]);
        let length = body.find(&end).map_or(body.len(), |at| at + end.len());
        return Some(prefix.len() + quote + 1 + length);
    }

    let body = rest.strip_prefix('"')?;
    Some(prefix.len() + 1 + escaped_length(body, b'"'))
}

/// The length up to the closing quote and with it, where a backslash hides what follows it.
fn escaped_length(body: &str, quote: u8) -> usize {
    let mut bytes = body.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        if byte == b'\\' {
            bytes.next();
        } else if byte == quote {
            return at + 1;
        }
    }
    body.len()
}

/// What begins with a single quote is a character or a lifetime.
fn quote_length(text: &str) -> (usize, Option<TokenClass>) {
    let body = &text[1..];
    let mut characters = body.chars();
    let first = characters.next();

    if first == Some('\\') || characters.next() == Some('\'') {
        return (1 + escaped_length(body, b'\''), Some(TokenClass::Literal));
    }
    let end = body.find(|c| !is_word_character(c)).unwrap_or(body.len());
    (1 + end, Some(TokenClass::Word))
}
