//! Splitting texts into tokens as a `tokenizer.json` says. The library `tokenizers`, whose format
//! it is, does it; here it is bounded, and cannot be steered by what a text contains.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;
use tokenizers::{PostProcessor as _, TruncationParams};
use toolbus_json::Limits;
use toolbus_search::EmbedError;

use super::files::TOKENIZER_BYTES_MAX;

const WHAT: &str = "tokenizer.json";
/// Most tokens of a vocabulary.
const TOKENS_MAX: usize = 1_000_000;
/// What a `tokenizer.json` may have. A token and a merge are up to three values each, an added
/// token is eight.
const FILE_LIMITS: Limits =
    Limits::of_bytes(TOKENIZER_BYTES_MAX as usize).with_values(8 * TOKENS_MAX);
/// Most tokens that a text has; the rest is not looked at.
const TEXT_TOKENS_MAX: usize = 1_024;
/// Most bytes of a text that are looked at.
const TEXT_BYTES_MAX: usize = 32 * 1_024;
/// The most that a tokenizer may set as its longest word, in characters: the work for a word grows
/// by the square of it.
const WORD_CHARS_MAX: u64 = 1_000;

/// What splits a text into tokens.
pub(super) struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// What stands for words that are not known.
    unknown: Option<u32>,
    /// How many tokens it has for a text by itself.
    text_tokens_max: Option<usize>,
}

impl Tokenizer {
    pub(super) fn read(file: &[u8]) -> Result<Self, EmbedError> {
        let mut json: Value = toolbus_json::from_slice(file, &FILE_LIMITS).map_err(malformed)?;
        check_sizes(&json)?;
        let text_tokens_max = json["truncation"]["max_length"].as_u64();
        let (kind, unknown) = (json["model"]["type"].clone(), unknown_token(&json["model"]));

        // Texts are cut here, and never padded: each is embedded by itself.
        if let Some(members) = json.as_object_mut() {
            members.remove("truncation");
            members.remove("padding");
        }
        let read = guarded(|| tokenizers::Tokenizer::from_bytes(json.to_string()));
        let mut inner = read.map_err(malformed)?;
        // `[SEP]` in a text is a word like others.
        inner.set_encode_special_tokens(true);

        // Such as where a template names a token that there is not.
        if guarded(|| inner.encode("a", true)).is_err() {
            return Err(malformed("it cannot split a text"));
        }

        let unknown = match unknown {
            Some(Unknown::Text(text)) => inner.token_to_id(&text),
            Some(Unknown::Number(number)) => Some(number),
            None => None,
        };
        if unknown.is_none() && kind != "BPE" {
            return Err(malformed("it has no token for words that it does not know"));
        }
        let text_tokens_max = text_tokens_max.and_then(|most| usize::try_from(most).ok());
        Ok(Self { inner, unknown, text_tokens_max })
    }

    /// The largest number of a token.
    pub(super) fn largest(&self) -> u32 {
        self.inner.get_vocab(true).into_values().max().unwrap_or_default()
    }

    /// Cuts texts to so many tokens, or fewer where the tokenizer says so, those counted that mark
    /// the ends of a text.
    pub(super) fn limit(&mut self, tokens_max: usize) -> Result<(), EmbedError> {
        let max_length = self.text_tokens_max.map_or(tokens_max, |own| own.min(tokens_max));
        if max_length <= self.marks() {
            return Err(malformed(format_args!("texts of {max_length} tokens have no room")));
        }
        let params = TruncationParams { max_length, ..TruncationParams::default() };
        self.inner.with_truncation(Some(params)).map(|_| ()).map_err(malformed)
    }

    /// The tokens of the words that are known.
    pub(super) fn split(&self, text: &str) -> Result<Vec<u32>, EmbedError> {
        let mut tokens = self.encode(text, false)?;
        tokens.retain(|token| Some(*token) != self.unknown);
        tokens.truncate(TEXT_TOKENS_MAX);
        Ok(tokens)
    }

    /// All tokens, with those that mark the ends of a text; none of a text that has no others.
    pub(super) fn split_marked(&self, text: &str) -> Result<Vec<u32>, EmbedError> {
        let mut tokens = self.encode(text, true)?;
        if tokens.len() <= self.marks() {
            tokens.clear();
        }
        Ok(tokens)
    }

    fn encode(&self, text: &str, is_marked: bool) -> Result<Vec<u32>, EmbedError> {
        let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
        let encoding = guarded(|| self.inner.encode_fast(text, is_marked));
        let encoding = encoding.map_err(EmbedError::Failed)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// How many tokens mark the ends of a text.
    fn marks(&self) -> usize {
        self.inner.get_post_processor().map_or(0, |processor| processor.added_tokens(false))
    }
}

/// What the library makes. It panics at some of what is wrong with a file, also where only some
/// texts show it.
fn guarded<T>(make: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(make)) {
        Ok(made) => made.map_err(|error| error.to_string()),
        Err(_) => Err("the tokenizer panics".to_owned()),
    }
}

enum Unknown {
    Text(String),
    Number(u32),
}

fn unknown_token(model: &Value) -> Option<Unknown> {
    let number = || model["unk_id"].as_u64().and_then(|number| u32::try_from(number).ok());
    let text = model["unk_token"].as_str().map(|text| Unknown::Text(text.to_owned()));
    text.or_else(|| number().map(Unknown::Number))
}

fn check_sizes(json: &Value) -> Result<(), EmbedError> {
    let model = &json["model"];
    let length = |value: &Value| match value {
        Value::Array(all) => all.len(),
        Value::Object(all) => all.len(),
        _ => 0,
    };
    if !(1..=TOKENS_MAX).contains(&length(&model["vocab"])) {
        return Err(malformed("its vocabulary is empty or too large"));
    }
    if length(&model["merges"]) > TOKENS_MAX || length(&json["added_tokens"]) > TOKENS_MAX {
        return Err(malformed("it has too many merges or added tokens"));
    }
    let word = model["max_input_chars_per_word"].as_u64().unwrap_or_default();
    if word > WORD_CHARS_MAX {
        return Err(malformed(format_args!("words of {word} characters are too long")));
    }
    Ok(())
}

fn malformed(reason: impl std::fmt::Display) -> EmbedError {
    EmbedError::malformed(WHAT, reason)
}
