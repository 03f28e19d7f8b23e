//! Walks over a short text, word by word.

/// A text and a place in it.
pub(super) struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// The next character that is not a blank.
    pub(super) fn peek_char(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        self.rest.chars().next()
    }

    /// Steps over `char` when it comes next.
    pub(super) fn take_if(&mut self, char: char) -> bool {
        let is_next = self.peek_char() == Some(char);
        if is_next {
            self.rest = &self.rest[char.len_utf8()..];
        }
        is_next
    }

    pub(super) fn expect(&mut self, char: char, reason: &'static str) -> Result<(), &'static str> {
        if self.take_if(char) { Ok(()) } else { Err(reason) }
    }

    /// The longest run of such characters after blanks; empty when there is none.
    pub(super) fn take_word(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        self.peek_char();
        self.raw_word(is_part)
    }

    /// The same without stepping over blanks.
    pub(super) fn raw_word(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|char| !is_part(char)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// As `expect`, without stepping over blanks.
    pub(super) fn expect_raw(
        &mut self,
        char: char,
        reason: &'static str,
    ) -> Result<(), &'static str> {
        self.rest = self.rest.strip_prefix(char).ok_or(reason)?;
        Ok(())
    }
}
