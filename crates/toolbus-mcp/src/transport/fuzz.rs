//! What a server may send, of every kind, and some of it by accident: it passes the checks of
//! [`super::fuzzing`].
//!
//! The messages begin as those of `tests/corpus`: what real servers send, and what was found to
//! break something. Each is tried as it is, and then with pieces of it gone, moved or put in.
//! `PROPTEST_CASES=100000 cargo test -p toolbus-mcp --lib fuzz` looks for longer.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;

pub(crate) use super::fuzzing::{CALL, listed_tools, wire};
use super::fuzzing::{
    check_batch, check_edges, check_json, check_listing, check_message, check_stream,
};

/// Most messages of the corpus, and the longest of them in bytes.
const CORPUS_MAX: usize = 64;
const SEED_BYTES_MAX: usize = 8 << 10;
static CORPUS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let files = fs::read_dir(folder).expect("the corpus is a folder");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort_unstable();
    paths.iter().map(|path| fs::read(path).expect("a file")).collect()
});

/// What makes a message another one, or none at all.
const PIECES: &[&str] = &[
    "",
    " ",
    "\n",
    "\r\n",
    "\n\n",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "\\udc00",
    "\\ud83d\\ude00",
    "\u{feff}",
    "\u{200b}",
    "\u{e0041}",
    "null",
    "true",
    "-0",
    "1e999",
    "18446744073709551616",
    "31415926535",
    "0.31415926535",
    "tok\\\"é-123456",
    "tok\\u0022\\u00e9-\\u0031\\u0032\\u0033456",
    "tok\"é-123456",
    "\"tok\\\"é-123456\":1,",
    "\"id\":7,",
    "\"id\":\"7\",",
    "\"result\":{},",
    "\"error\":null,",
    "\"method\":\"ping\",",
    "\"resultType\":\"complete\",",
    "\"isError\":true,",
    "\"type\":\"text\",",
    "\"content\":[],",
    "\"structuredContent\":{\"a\":[1]},",
    "\"name\":\"a\",",
    "\"inputSchema\":{\"required\":[\"b\",\"a\"]},",
    "data: ",
    "event: ",
    "id: 1\n",
    "retry: 5\n",
];

/// One change of a message.
#[derive(Debug, Clone)]
enum Edit {
    PutIn(Index, &'static str),
    PutBytes(Index, Vec<u8>),
    Remove(Index, Index),
    Repeat(Index, Index, u8),
    /// The rest of another message.
    Graft(Index, Index, Index),
}

impl Edit {
    fn apply(&self, text: &mut Vec<u8>) {
        let place = |index: &Index, text: &[u8]| index.index(text.len() + 1);
        let range = |from: &Index, to: &Index, text: &[u8]| {
            let (from, to) = (place(from, text), place(to, text));
            from.min(to)..from.max(to)
        };
        match self {
            Self::PutIn(at, piece) => {
                let at = place(at, text);
                text.splice(at..at, piece.bytes());
            }
            Self::PutBytes(at, bytes) => {
                let at = place(at, text);
                text.splice(at..at, bytes.iter().copied());
            }
            Self::Remove(from, to) => drop(text.drain(range(from, to, text))),
            Self::Repeat(from, to, times) => {
                let range = range(from, to, text);
                let (end, part) = (range.end, text[range].to_vec());
                text.splice(end..end, part.repeat(usize::from(*times)));
            }
            Self::Graft(at, other, from) => {
                let other = &CORPUS[other.index(CORPUS.len())];
                text.truncate(place(at, text));
                text.extend_from_slice(&other[place(from, other)..]);
            }
        }
        text.truncate(4 * SEED_BYTES_MAX);
    }
}

fn edits() -> impl Strategy<Value = Edit> {
    let place = any::<Index>;
    let piece = proptest::sample::select(PIECES);
    prop_oneof![
        8 => (place(), piece).prop_map(|(at, piece)| Edit::PutIn(at, piece)),
        1 => (place(), prop::collection::vec(any::<u8>(), 1..4))
            .prop_map(|(at, bytes)| Edit::PutBytes(at, bytes)),
        2 => (place(), place()).prop_map(|(from, to)| Edit::Remove(from, to)),
        1 => (place(), place(), 1..20_u8).prop_map(|(from, to, n)| Edit::Repeat(from, to, n)),
        1 => (place(), place(), place()).prop_map(|(at, other, from)| Edit::Graft(at, other, from)),
    ]
}

/// The bytes of a message, which are shown as text.
#[derive(Clone)]
pub(crate) struct Hostile(Vec<u8>);

impl std::ops::Deref for Hostile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Hostile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

/// What a server may send.
pub(crate) fn hostile_bytes() -> impl Strategy<Value = Hostile> {
    edited(proptest::sample::select(CORPUS.as_slice()))
}

/// What a server may answer that is asked for its tools.
pub(crate) fn hostile_listings() -> impl Strategy<Value = Hostile> {
    let listings = CORPUS.iter().filter(|seed| listed_tools(seed).is_some());
    edited(proptest::sample::select(listings.cloned().collect::<Vec<_>>()))
}

fn edited(seeds: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Hostile> {
    (seeds, prop::collection::vec(edits(), 0..6)).prop_map(|(mut text, edits)| {
        edits.iter().for_each(|edit| edit.apply(&mut text));
        Hostile(text)
    })
}

fn check_all(bytes: &[u8], chunk: usize) {
    check_message(bytes);
    check_batch(bytes);
    check_json(bytes);
    check_listing(bytes);
    check_stream(bytes, chunk);
    // What is only the end of a long line is read as well.
    check_edges(bytes);
}

#[test]
fn the_corpus_is_small_and_every_message_of_it_holds() {
    assert!((1..=CORPUS_MAX).contains(&CORPUS.len()), "{} messages", CORPUS.len());
    for seed in CORPUS.iter() {
        assert!(seed.len() <= SEED_BYTES_MAX, "{} bytes", seed.len());
        for chunk in [1, 7, 64] {
            check_all(seed, chunk);
        }
    }
}

proptest! {
    #[test]
    fn every_message_is_read_or_refused(bytes in hostile_bytes(), chunk in 1..64_usize) {
        check_all(&bytes, chunk);
    }
}
