//! A tool as it is indexed: its words with what each weighs, and what tells it from others.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use sha2::{Digest as _, Sha256};
use toolbus_tools::id::ToolId;

use super::ToolDocument;
use super::text::{clean, for_each_word, is_stop_word, parts, stem};

/// Of a description and of the parameters, so much is indexed.
const LONG_FIELD_BYTES_MAX: usize = 8 * 1_024;
/// Of a name, a server and all tags, so much is indexed.
const SHORT_FIELD_BYTES_MAX: usize = 512;
/// Of a text that is embedded, so much is read.
const EMBEDDED_BYTES_MAX: usize = 1_024;
/// Words of one field that are indexed.
const FIELD_WORDS_MAX: usize = 600;
/// A word counts so often in a field, however often it is there.
const REPEATED_MAX: u32 = 3;
/// How fast more of the same word stops to count.
const SATURATION: f32 = 1.5;
/// How much the length of a field counts.
const LENGTH_SHARE: f32 = 0.75;

/// What tells one content of a document from another.
pub(crate) type ContentHash = [u8; 16];

/// What a segment keeps of each tool beside its words.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) id: ToolId,
    pub(super) content: ContentHash,
    /// Of the name alone, so that a tool is found by it whatever else is near.
    pub(super) name: u64,
    pub(super) server: u64,
    /// Like texts differ in few of its bits.
    pub(super) likeness: u64,
}

/// How much a document has of a word, saturated: all of `u16` is infinitely much. Its last bit says
/// whether the word is anywhere but in the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Weight(u16);

impl Weight {
    const SAID: u16 = 1;

    fn saturated(mass: Mass) -> Self {
        let share = mass.sum / (mass.sum + SATURATION) * f32::from(u16::MAX);
        let said = if mass.is_said { Self::SAID } else { 0 };
        Self(share as u16 & !Self::SAID | said)
    }

    /// Whether the word is anywhere but in the name.
    pub(super) fn is_said(self) -> bool {
        self.0 & Self::SAID != 0
    }

    pub(super) fn share(self) -> f32 {
        f32::from(self.0) / f32::from(u16::MAX)
    }
}

/// How much of a word there is in the fields of a document.
#[derive(Clone, Copy, Default)]
struct Mass {
    sum: f32,
    is_said: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Indexed {
    pub(super) entry: Entry,
    /// By the hash of the word, in its order.
    pub(super) words: Vec<(u64, Weight)>,
}

/// A field: its weight in hundredths (CX-R5), and how many words it has where it is neither long
/// nor short. The weight is spread over so many words, so a word of a name says more than one of a
/// description. Lengths are compared with this constant and not with those of other tools, for
/// nothing that a caller may not see is to change what it finds.
#[derive(Clone, Copy)]
struct Field {
    weight: f32,
    usual_words: f32,
}

const NAME: Field = Field { weight: 20.0, usual_words: 3.0 };
const DESCRIPTION: Field = Field { weight: 60.0, usual_words: 20.0 };
const PARAMETERS: Field = Field { weight: 10.0, usual_words: 10.0 };
const SERVER: Field = Field { weight: 5.0, usual_words: 1.5 };
const TAGS: Field = Field { weight: 5.0, usual_words: 2.5 };

/// What tells this content from any other.
pub(super) fn content_hash(document: &ToolDocument) -> ContentHash {
    let mut hash = Sha256::new();
    let fields = [&document.name, &document.description, &document.parameters, &document.server];
    for text in fields.into_iter().chain(&document.tags) {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }

    let digest = hash.finalize();
    std::array::from_fn(|at| digest[at])
}

/// The text that a model reads of a tool.
pub(super) fn embedded_text(document: &ToolDocument) -> String {
    let mut name = String::new();
    for part in parts(&clean(&document.name, SHORT_FIELD_BYTES_MAX)) {
        name.push_str(&part.to_lowercase());
        name.push(' ');
    }

    let server = clean(&document.server, SHORT_FIELD_BYTES_MAX);
    let description = clean(&document.description, EMBEDDED_BYTES_MAX);
    let parameters = clean(&document.parameters, EMBEDDED_BYTES_MAX);
    let mut text = format!("{server} {name}: {description} {parameters}");
    text.truncate(text.floor_char_boundary(EMBEDDED_BYTES_MAX));
    text
}

/// The words of a document and what each weighs.
pub(super) fn index(
    document: &ToolDocument,
    content: ContentHash,
    hasher: &RandomState,
) -> Indexed {
    let tags = document.tags.iter().take(FIELD_WORDS_MAX).fold(String::new(), |mut all, tag| {
        if all.len() < SHORT_FIELD_BYTES_MAX {
            all.push_str(&tag[..tag.floor_char_boundary(SHORT_FIELD_BYTES_MAX)]);
            all.push(' ');
        }
        all
    });
    let fields = [
        (NAME, clean(&document.name, SHORT_FIELD_BYTES_MAX)),
        (DESCRIPTION, clean(&document.description, LONG_FIELD_BYTES_MAX)),
        (PARAMETERS, clean(&document.parameters, LONG_FIELD_BYTES_MAX)),
        (SERVER, clean(&document.server, SHORT_FIELD_BYTES_MAX)),
        (TAGS, clean(&tags, SHORT_FIELD_BYTES_MAX)),
    ];

    let mut masses: HashMap<u64, Mass> = HashMap::new();
    for (at, (field, text)) in fields.iter().enumerate() {
        let is_name = at == 0;
        add_field(*field, text, hasher, |word, sum| {
            let mass = masses.entry(word).or_default();
            mass.sum += sum;
            mass.is_said |= !is_name;
        });
    }
    let mut words: Vec<_> =
        masses.into_iter().map(|(word, mass)| (word, Weight::saturated(mass))).collect();
    words.sort_unstable();

    let entry = Entry {
        id: document.id.clone(),
        content,
        name: name_hash(&document.name, hasher),
        server: hasher.hash_one(document.server.as_str()),
        likeness: likeness(&fields[0].1, &fields[1].1),
    };
    Indexed { entry, words }
}

/// Calls `add` with each word of a field and how much there is of it.
fn add_field(field: Field, text: &str, hasher: &RandomState, mut add: impl FnMut(u64, f32)) {
    let mut counts: HashMap<u64, u32> = HashMap::new();
    let mut length = 0_usize;
    for_each_word(text, |word| {
        length += 1;
        if !is_stop_word(word) {
            *counts.entry(hasher.hash_one(stem(word))).or_default() += 1;
        }
        length < FIELD_WORDS_MAX
    });

    let length = length as f32 / field.usual_words;
    let shrink = 1.0 - LENGTH_SHARE + LENGTH_SHARE * length;
    for (word, count) in counts {
        let mass = field.weight / field.usual_words * count.min(REPEATED_MAX) as f32 / shrink;
        add(word, mass);
    }
}

/// The words of a query, each once and in its order; without those that say nothing, unless there
/// are no others.
pub(super) fn query_words(clean: &str, most: usize, hasher: &RandomState) -> Vec<u64> {
    let (mut said, mut others) = (Vec::new(), Vec::new());
    for_each_word(clean, |word| {
        let words = if is_stop_word(word) { &mut others } else { &mut said };
        let hash = hasher.hash_one(stem(word));
        if words.len() < most && !words.contains(&hash) {
            words.push(hash);
        }
        said.len() < most
    });
    if said.is_empty() { others } else { said }
}

/// The hash of a name, however it joins its words: `create_issue` is `createIssue` and
/// `create issue`. 0 for one without words.
pub(super) fn name_hash(name: &str, hasher: &RandomState) -> u64 {
    let mut joined = clean(name, SHORT_FIELD_BYTES_MAX).to_lowercase();
    joined.retain(char::is_alphanumeric);
    if joined.is_empty() { 0 } else { hasher.hash_one(joined) }
}

/// A hash in which like texts differ in few bits (SimHash over the words, without numbers, of the
/// description, or of the name where there is none).
fn likeness(name: &str, description: &str) -> u64 {
    let text = if description.trim().is_empty() { name } else { description };
    let mut votes = [0_i32; 64];
    let mut words = 0;
    for_each_word(text, |word| {
        if !is_stop_word(word) && !word.contains(char::is_numeric) {
            let hash = spread(word);
            for (bit, vote) in votes.iter_mut().enumerate() {
                *vote += if hash >> bit & 1 == 1 { 1 } else { -1 };
            }
        }
        words += 1;
        words < FIELD_WORDS_MAX
    });
    votes.iter().enumerate().fold(0, |all, (bit, vote)| all | u64::from(*vote > 0) << bit)
}

/// FNV-1a, mixed: the same in every process, so that what counts as like does not vary.
fn spread(word: &str) -> u64 {
    let fnv = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (fnv ^ fnv >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ mixed >> 33
}
