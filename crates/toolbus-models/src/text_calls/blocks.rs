//! Blocks of calls within a text that comes in pieces.

/// What begins and ends a block.
pub(super) const FENCE: &str = "```";
/// What stands behind the fence that begins one.
pub(super) const LABEL: &str = "tool_call";
/// Largest block, in bytes.
pub(super) const BLOCK_BYTES_MAX: usize = 1 << 20;

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Text for whoever asked.
    Text(String),
    /// What a block holds.
    Block {
        /// The lines between its fences.
        text: String,
        /// Whether its end was there.
        is_closed: bool,
    },
}

/// Takes a text apart while it comes. Only what may be the beginning of a block is held back.
#[derive(Debug, Default)]
pub(super) struct BlockParser {
    /// What came of the line so far, where it may still be a fence.
    line: String,
    /// Whether the rest of the line is text.
    is_text: bool,
    /// The lines of the block that is open.
    block: Option<String>,
}

impl BlockParser {
    /// Takes more of the text.
    pub(super) fn feed(&mut self, delta: &str, pieces: &mut Vec<Piece>) {
        for part in delta.split_inclusive('\n') {
            match &mut self.block {
                Some(_) => self.feed_block(part, pieces),
                None => self.feed_text(part, pieces),
            }
        }
    }

    /// The text has ended.
    pub(super) fn end(mut self, pieces: &mut Vec<Piece>) {
        let line = std::mem::take(&mut self.line);
        match self.block {
            Some(text) if line.trim() == FENCE => {
                pieces.push(Piece::Block { text, is_closed: true });
            }
            Some(text) => pieces.push(Piece::Block { text: text + &line, is_closed: false }),
            None => push_text(line, pieces),
        }
    }

    fn feed_text(&mut self, part: &str, pieces: &mut Vec<Piece>) {
        if self.is_text {
            push_text(part.to_owned(), pieces);
            self.is_text = !part.ends_with('\n');
            return;
        }

        let opening = [FENCE, LABEL].concat();
        // Of a line that is longer than an opening, only blanks behind one were held back.
        let blank_from = self.line.len().max(opening.len());
        self.line.push_str(part);
        let is_opening = self.line.starts_with(opening.as_str())
            && self.line[blank_from..].trim_end().is_empty();
        if is_opening {
            if self.line.ends_with('\n') {
                self.line.clear();
                self.block = Some(String::new());
            }
        } else if !opening.starts_with(self.line.as_str()) {
            self.is_text = !self.line.ends_with('\n');
            push_text(std::mem::take(&mut self.line), pieces);
        }
    }

    fn feed_block(&mut self, part: &str, pieces: &mut Vec<Piece>) {
        self.line.push_str(part);
        if !part.ends_with('\n') {
            return;
        }
        let line = std::mem::take(&mut self.line);
        if line.trim() == FENCE {
            let text = self.block.take().unwrap_or_default();
            pieces.push(Piece::Block { text, is_closed: true });
        } else if let Some(text) = &mut self.block {
            // What is too large is refused as a whole; it need not be kept for that.
            let room = (BLOCK_BYTES_MAX + 1).saturating_sub(text.len());
            text.push_str(&line[..line.floor_char_boundary(room)]);
        }
    }
}

fn push_text(text: String, pieces: &mut Vec<Piece>) {
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
}

#[cfg(test)]
mod tests;
