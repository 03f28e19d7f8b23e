//! Reading `tokenizer.json` and splitting texts by it: byte-pair encoding as Llama does it, and
//! WordPiece as BERT does it. These are what static models come with; others are refused.

use std::collections::HashMap;

use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::EmbedError;

const WHAT: &str = "tokenizer.json";
/// Most tokens of a vocabulary.
const TOKENS_MAX: usize = 1_000_000;
/// Most tokens that a text has; the rest is not looked at.
const TEXT_TOKENS_MAX: usize = 1_024;
/// Longest word that is looked up as a whole, in characters.
const WORD_CHARS_MAX: usize = 64;

/// What splits a text into tokens.
pub(super) enum Tokenizer {
    Pairs(Pairs),
    Pieces(Pieces),
}

/// Byte-pair encoding with `▁` for a space, and tokens for single bytes.
pub(super) struct Pairs {
    tokens: HashMap<String, u32>,
    /// By both tokens: how early they are merged, and into what.
    merges: HashMap<(u32, u32), (u32, u32)>,
    bytes: Vec<Option<u32>>,
    unknown: Option<u32>,
}

/// Greedy longest pieces, those within a word with a prefix.
pub(super) struct Pieces {
    tokens: HashMap<String, u32>,
    prefix: String,
    lower: bool,
}

impl Tokenizer {
    pub(super) fn read(file: &[u8]) -> Result<Self, EmbedError> {
        let json: Value =
            serde_json::from_slice(file).map_err(|error| EmbedError::malformed(WHAT, error))?;
        let model = &json["model"];
        let vocabulary = model["vocab"].as_object();

        match model["type"].as_str() {
            Some("BPE") => {
                let uses_bytes = json["pre_tokenizer"].is_null() && !json["normalizer"].is_null();
                if !uses_bytes {
                    let kind = "BPE with a pre-tokenizer".to_owned();
                    return Err(EmbedError::Unsupported { what: "the tokenizer", kind });
                }
                Pairs::read(read_tokens(vocabulary)?, model).map(Self::Pairs)
            }
            Some("WordPiece") => Ok(Self::Pieces(Pieces {
                tokens: read_tokens(vocabulary)?,
                prefix: model["continuing_subword_prefix"].as_str().unwrap_or("##").to_owned(),
                lower: json["normalizer"]["lowercase"].as_bool().unwrap_or(true),
            })),
            kind => {
                let kind = kind.unwrap_or("without a type").to_owned();
                Err(EmbedError::Unsupported { what: "the tokenizer", kind })
            }
        }
    }

    /// The largest number of a token.
    pub(super) fn largest(&self) -> u32 {
        let (Self::Pairs(Pairs { tokens, .. }) | Self::Pieces(Pieces { tokens, .. })) = self;
        tokens.values().copied().max().unwrap_or_default()
    }

    /// The tokens of a text.
    pub(super) fn split(&self, text: &str) -> Vec<u32> {
        let mut tokens = Vec::new();
        match self {
            Self::Pairs(pairs) => pairs.split(text, &mut tokens),
            Self::Pieces(pieces) => pieces.split(text, &mut tokens),
        }
        tokens.truncate(TEXT_TOKENS_MAX);
        tokens
    }
}

fn read_tokens(
    vocabulary: Option<&serde_json::Map<String, Value>>,
) -> Result<HashMap<String, u32>, EmbedError> {
    let vocabulary = vocabulary.filter(|all| !all.is_empty() && all.len() <= TOKENS_MAX);
    let vocabulary = vocabulary
        .ok_or_else(|| EmbedError::malformed(WHAT, "its vocabulary is empty or too large"))?;
    let number = |token: &Value| token.as_u64().and_then(|n| u32::try_from(n).ok());
    vocabulary
        .iter()
        .map(|(text, token)| Some((text.clone(), number(token)?)))
        .collect::<Option<_>>()
        .ok_or_else(|| EmbedError::malformed(WHAT, "a token has no number"))
}

impl Pairs {
    fn read(tokens: HashMap<String, u32>, model: &Value) -> Result<Self, EmbedError> {
        let malformed = |reason| EmbedError::malformed(WHAT, reason);
        let said = model["merges"].as_array().filter(|all| all.len() <= TOKENS_MAX);
        let mut merges = HashMap::new();
        for (rank, merge) in said.ok_or_else(|| malformed("it has no merges"))?.iter().enumerate() {
            let pair = match merge {
                Value::String(pair) => pair.split_once(' '),
                Value::Array(pair) => match &pair[..] {
                    [one, other] => one.as_str().zip(other.as_str()),
                    _ => None,
                },
                _ => None,
            };
            let (one, other) = pair.ok_or_else(|| malformed("a merge is no pair"))?;
            let both = format!("{one}{other}");
            let known = (tokens.get(one), tokens.get(other), tokens.get(&both));
            let (Some(one), Some(other), Some(both)) = known else {
                return Err(malformed("a merge is of tokens that it has not"));
            };
            merges.entry((*one, *other)).or_insert((rank as u32, *both));
        }

        let bytes = (0..=255).map(|byte| tokens.get(&format!("<0x{byte:02X}>")).copied()).collect();
        let unknown = model["unk_token"].as_str().and_then(|name| tokens.get(name)).copied();
        Ok(Self { tokens, merges, bytes, unknown })
    }

    fn split(&self, text: &str, into: &mut Vec<u32>) {
        let mut word = Vec::new();
        for text in text.split_whitespace() {
            let mut chars = std::iter::once('▁').chain(text.chars()).peekable();
            while chars.peek().is_some() && into.len() < TEXT_TOKENS_MAX {
                word.clear();
                for c in chars.by_ref().take(WORD_CHARS_MAX) {
                    self.push_char(c, &mut word);
                }
                self.merge(&mut word);
                into.extend_from_slice(&word);
            }
        }
    }

    fn push_char(&self, c: char, word: &mut Vec<u32>) {
        let mut buffer = [0; 4];
        let text = c.encode_utf8(&mut buffer);
        if let Some(token) = self.tokens.get(&*text) {
            word.push(*token);
            return;
        }
        let bytes = text.bytes().map(|byte| self.bytes[usize::from(byte)]);
        match bytes.collect::<Option<Vec<_>>>() {
            Some(bytes) => word.extend(bytes),
            None => word.extend(self.unknown),
        }
    }

    /// Merges the pair that is merged first until none is left.
    fn merge(&self, word: &mut Vec<u32>) {
        loop {
            let pairs = word.windows(2).enumerate();
            let merges = pairs.filter_map(|(at, pair)| {
                let (rank, both) = self.merges.get(&(pair[0], pair[1]))?;
                Some((*rank, at, *both))
            });
            let Some((_, at, both)) = merges.min() else { return };
            word[at] = both;
            word.remove(at + 1);
        }
    }
}

impl Pieces {
    fn split(&self, text: &str, into: &mut Vec<u32>) {
        let text: String = if self.lower {
            let plain = text.nfd().filter(|c| !is_combining_mark(*c));
            plain.flat_map(char::to_lowercase).collect()
        } else {
            text.to_owned()
        };

        let mut word = String::new();
        for c in text.chars().chain([' ']) {
            let is_han = matches!(u32::from(c), 0x3400..=0x9FFF | 0xF900..=0xFAFF);
            let stands_alone = is_han || (!c.is_alphanumeric() && !c.is_whitespace());
            if !stands_alone && !c.is_whitespace() {
                word.push(c);
                continue;
            }
            self.split_word(&word, into);
            word.clear();
            if stands_alone {
                self.split_word(c.encode_utf8(&mut [0; 4]), into);
            }
            if into.len() >= TEXT_TOKENS_MAX {
                return;
            }
        }
    }

    /// A word of which a part is unknown has no tokens: a static model has nothing to say of it.
    fn split_word(&self, word: &str, into: &mut Vec<u32>) {
        if word.is_empty() || word.chars().count() > WORD_CHARS_MAX {
            return;
        }
        let before = into.len();
        let mut start = 0;
        while start < word.len() {
            let prefix = if start == 0 { "" } else { &*self.prefix };
            let ends = word[start..].char_indices().map(|(at, c)| start + at + c.len_utf8()).rev();
            let found = ends.into_iter().find_map(|end| {
                let token = self.tokens.get(&format!("{prefix}{}", &word[start..end]))?;
                Some((end, *token))
            });
            let Some((end, token)) = found else {
                into.truncate(before);
                return;
            };
            into.push(token);
            start = end;
        }
    }
}
