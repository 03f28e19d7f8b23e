//! One Rust file as the rules of style see it: its tokens without test code, its functions, types,
//! constants and imports.

use std::ops::Range;

use super::tokens::{self, Token, TokenClass};

/// A Rust file, read once for all rules.
#[derive(Debug)]
pub(super) struct Source<'a> {
    /// Relative to the workspace.
    pub(super) path: &'a str,
    lines: Vec<&'a str>,
    /// Without what is under `#[cfg(test)]`.
    pub(super) tokens: Vec<Token<'a>>,
    /// Whether the line is blank and in no literal.
    is_blank: Vec<bool>,
    /// Whether the line begins within a literal.
    is_literal: Vec<bool>,
    /// Names of modules in files of their own that are compiled for tests only.
    pub(super) test_modules: Vec<&'a str>,
    /// Lines under `#[cfg(test)]`.
    test_lines: usize,
}

/// A function with or without a body.
#[derive(Debug)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) line: usize,
    /// The tokens between the parentheses.
    pub(super) parameters: Range<usize>,
    pub(super) body: Option<Body>,
}

/// What is between the braces of a function.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) tokens: Range<usize>,
    /// The lines between that of the opening and that of the closing brace.
    pub(super) lines: usize,
    pub(super) blank_lines: usize,
}

impl<'a> Source<'a> {
    pub(super) fn read(path: &'a str, text: &'a str) -> Self {
        let lines: Vec<_> = text.lines().collect();
        let all = tokens::lex(text);
        let is_blank = find_blank_lines(&lines, &all);
        let is_literal = find_literal_lines(lines.len(), &all);

        let mut source = Self {
            path,
            lines,
            tokens: Vec::with_capacity(all.len()),
            is_blank,
            is_literal,
            test_modules: Vec::new(),
            test_lines: 0,
        };
        source.keep_production(&all);
        source
    }

    /// Whether the path says that the file is compiled only for tests or benchmarks.
    pub(super) fn is_test_path(path: &str) -> bool {
        path.ends_with("/tests.rs") || path.contains("/tests/") || path.contains("/benches/")
    }

    /// The paths, without `.rs`, of the file's modules that only tests have.
    pub(super) fn test_module_paths(&self) -> impl Iterator<Item = String> {
        let stem = self.path.trim_end_matches(".rs");
        let folder = ["/lib", "/main"].iter().find_map(|root| stem.strip_suffix(root));
        let folder = folder.unwrap_or(stem);
        self.test_modules.iter().map(move |name| format!("{folder}/{name}"))
    }

    /// Lines of the file but those under `#[cfg(test)]`.
    pub(super) fn production_lines(&self) -> usize {
        self.lines.len() - self.test_lines
    }

    /// The lines that are nothing but a comment, each with its number.
    pub(super) fn comment_lines(&self) -> impl Iterator<Item = (usize, &'a str)> {
        let lines = self.lines.iter().zip(&self.is_literal).enumerate();
        lines
            .filter(|(_, (line, is_literal))| !**is_literal && line.trim_start().starts_with("//"))
            .map(|(at, (line, _))| (at + 1, *line))
    }

    /// All functions, nested ones too.
    pub(super) fn functions(&self) -> Vec<Function<'a>> {
        let starts = self.find_words("fn");
        starts.into_iter().filter_map(|at| self.function_at(at)).collect()
    }

    /// Names of all structs, enums, unions and traits.
    pub(super) fn type_names(&self) -> Vec<&'a str> {
        let mut names = Vec::new();
        for keyword in ["struct", "enum", "union", "trait"] {
            for at in self.find_words(keyword) {
                if let Some(name) = self.tokens.get(at + 1)
                    && name.class == TokenClass::Word
                    && name.text.starts_with(char::is_uppercase)
                {
                    names.push(name.text);
                }
            }
        }
        names
    }

    /// Names of the constants and statics of this type.
    pub(super) fn constants_of_type(&self, type_name: &str) -> Vec<Token<'a>> {
        let keywords = ["const", "static"].into_iter().flat_map(|word| self.find_words(word));
        let names = keywords.map(|at| at + 1);
        names.filter(|at| self.declares(*at, type_name)).map(|at| self.tokens[at]).collect()
    }

    /// Whether `: TYPE` follows the name at this index. The type may stand behind a path.
    fn declares(&self, name: usize, type_name: &str) -> bool {
        let mut after = self.tokens.iter().skip(name + 1);
        if !after.next().is_some_and(|token| token.is(":")) {
            return false;
        }

        let declared: Vec<_> = after.take_while(|token| !token.is("=") && !token.is(";")).collect();
        let is_path =
            declared.iter().all(|token| token.class == TokenClass::Word || token.is("::"));
        is_path && declared.last().is_some_and(|token| token.is(type_name))
    }

    /// Indices of the tokens that begin this sequence.
    pub(super) fn find_sequence(&self, sequence: &[&str]) -> Vec<usize> {
        let begins_here = |at: &usize| {
            let here = &self.tokens[*at..];
            here.len() >= sequence.len()
                && sequence.iter().zip(here).all(|(expected, token)| token.is(expected))
        };
        (0..self.tokens.len()).filter(begins_here).collect()
    }

    /// Indices of the tokens that are this word.
    fn find_words(&self, word: &str) -> Vec<usize> {
        let tokens = self.tokens.iter().enumerate();
        tokens.filter(|(_, token)| token.is(word)).map(|(at, _)| at).collect()
    }

    fn function_at(&self, at: usize) -> Option<Function<'a>> {
        let name = self.tokens.get(at + 1)?;
        // `fn(…)` is the type of a pointer.
        if name.class != TokenClass::Word {
            return None;
        }

        let open = self.skip_generics(at + 2);
        let close = closing(&self.tokens, open)?;
        let body = self.body_after(close + 1);
        Some(Function { name: name.text, line: name.line, parameters: open + 1..close, body })
    }

    /// The index behind `<…>`, if that begins here.
    fn skip_generics(&self, start: usize) -> usize {
        let mut depth = 0;
        for at in start..self.tokens.len() {
            match self.tokens[at].text {
                "<" => depth += 1,
                ">" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return if at == start { at } else { at + 1 };
            }
        }
        start
    }

    /// The block that follows, unless a semicolon comes first.
    fn body_after(&self, start: usize) -> Option<Body> {
        let mut at = start;
        while !self.tokens.get(at)?.is("{") {
            let token = &self.tokens[at];
            if token.is(";") {
                return None;
            }
            at = if token.is("(") || token.is("[") { closing(&self.tokens, at)? } else { at } + 1;
        }

        let close = closing(&self.tokens, at)?;
        // Both are counted from 1, the flags from 0: those of the lines between the braces.
        let first = self.tokens[at].line;
        let last = (self.tokens[close].line - 1).max(first);
        let blank_lines = self.is_blank[first..last].iter().filter(|blank| **blank).count();

        Some(Body { tokens: at + 1..close, lines: last - first, blank_lines })
    }

    /// Takes over all tokens but those of items under `#[cfg(test)]`.
    fn keep_production(&mut self, all: &[Token<'a>]) {
        let mut at = 0;
        while at < all.len() {
            let Some(item) = test_item_at(all, at) else {
                self.tokens.push(all[at]);
                at += 1;
                continue;
            };

            let last = item.end - 1;
            if let [.., keyword, name, end] = &all[item.clone()]
                && keyword.is("mod")
                && end.is(";")
            {
                self.test_modules.push(name.text);
            }
            self.test_lines += all[last].line - all[item.start].line + 1;
            at = item.end;
        }
    }
}

/// The item under `#[cfg(test)]` that begins here, with its attributes.
fn test_item_at(tokens: &[Token<'_>], start: usize) -> Option<Range<usize>> {
    const ATTRIBUTE: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let here = tokens.get(start..start + ATTRIBUTE.len())?;
    if !ATTRIBUTE.iter().zip(here).all(|(expected, token)| token.is(expected)) {
        return None;
    }

    let mut at = start + ATTRIBUTE.len();
    while let Some(token) = tokens.get(at) {
        if token.is(";") || token.is(",") {
            return Some(start..at + 1);
        }
        let opens = token.is("(") || token.is("[") || token.is("{");
        let last = if opens { closing(tokens, at)? } else { at };
        if token.is("{") {
            return Some(start..last + 1);
        }
        at = last + 1;
    }

    None
}

/// The index of the bracket that closes the one at `open`.
fn closing(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.class != TokenClass::Symbol {
            continue;
        }
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }

    None
}

/// The lines that begin within a literal of several lines are its text.
fn find_literal_lines(count: usize, tokens: &[Token<'_>]) -> Vec<bool> {
    let mut is_literal = vec![false; count];
    for token in tokens {
        let breaks = token.line_breaks();
        if breaks > 0 {
            is_literal[token.line..token.line + breaks].fill(true);
        }
    }
    is_literal
}

/// Blank lines within a literal are its text.
fn find_blank_lines(lines: &[&str], tokens: &[Token<'_>]) -> Vec<bool> {
    let mut is_blank: Vec<_> = lines.iter().map(|line| line.trim().is_empty()).collect();
    for token in tokens {
        let breaks = token.line_breaks();
        if breaks > 0 {
            is_blank[token.line - 1..token.line + breaks].fill(false);
        }
    }
    is_blank
}
