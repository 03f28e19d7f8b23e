//! An index of texts for many queries: which texts have which token, and which pair of tokens with
//! one space between them.
//!
//! A phrase is in a text wherever a token that ends with its first word is followed, after one
//! space, by a token that begins with its second. So phrases are found among the pairs, without
//! the texts.

use std::collections::HashMap;
use std::ops::Range;

use super::query::{Phrase, Query};
use super::{Collection, PHRASE_WEIGHT, Ranked, TOKEN_CHARS_MIN, best_first, runs};

/// Texts, ready to be searched. They are known by their places among those it was built of.
#[derive(Debug)]
pub struct Bm25Index {
    documents: Vec<Document>,
    collection: Collection,
    /// Every token, in alphabetical order. Ids of tokens are places in it.
    tokens: Vec<Box<str>>,
    /// The ids, in the order of the tokens read backwards.
    backwards: Vec<u32>,
    /// By token, which texts have it, and how often.
    postings: Vec<Vec<Posting>>,
    /// Pairs of tokens, in order.
    pairs: Vec<Pair>,
}

#[derive(Debug, Clone, Copy)]
struct Posting {
    document: u32,
    frequency: u32,
}

#[derive(Debug)]
struct Pair {
    first: u32,
    second: u32,
    postings: Vec<Posting>,
}

/// The tokens of a text.
#[derive(Debug)]
struct Document {
    tokens: Vec<Token>,
}

#[derive(Debug, Clone, Copy)]
struct Token {
    id: u32,
    /// Whether one space and a token follow.
    is_followed: bool,
}

impl Bm25Index {
    /// An index of these texts.
    pub fn build<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Self {
        let mut ids = HashMap::new();
        let mut documents: Vec<_> =
            texts.into_iter().map(|text| Document::read(text.as_ref(), &mut ids)).collect();
        let tokens = sort_tokens(ids, &mut documents);

        let mut backwards: Vec<u32> = (0..id_of(tokens.len())).collect();
        backwards.sort_by(|one, other| {
            let [one, other] = [one, other].map(|id| tokens[*id as usize].bytes().rev());
            one.cmp(other)
        });

        let count: u64 = documents.iter().map(|document| document.tokens.len() as u64).sum();
        let mut postings = vec![Vec::new(); tokens.len()];
        for (at, document) in documents.iter().enumerate() {
            for token in &document.tokens {
                add_posting(&mut postings[token.id as usize], at);
            }
        }
        Self {
            collection: Collection::new(documents.len(), count),
            pairs: pairs_of(&documents),
            documents,
            tokens,
            backwards,
            postings,
        }
    }

    /// How many texts there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// The texts that a query finds, best first, at most so many.
    #[must_use]
    pub fn search(&self, query: &str, limit: usize) -> Vec<Ranked> {
        let query = Query::parse(query);
        let mut scores = vec![0.0; self.documents.len()];

        for term in &query.terms {
            if let Ok(id) = self.tokens.binary_search_by(|token| (**token).cmp(term)) {
                self.add_scores(&mut scores, &self.postings[id], 1.0);
            }
        }
        let mut frequencies = vec![0; self.documents.len()];
        for phrase in &query.phrases {
            let postings = self.find_phrase(phrase, &mut frequencies);
            self.add_scores(&mut scores, &postings, PHRASE_WEIGHT);
        }
        best_first(&scores, limit)
    }

    fn add_scores(&self, scores: &mut [f64], postings: &[Posting], weight: f64) {
        let idf = self.collection.idf(postings.len());
        for Posting { document, frequency } in postings {
            let document = *document as usize;
            let tokens = u32::try_from(self.documents[document].tokens.len()).unwrap_or(u32::MAX);
            scores[document] += weight * self.collection.score(idf, *frequency, tokens);
        }
    }

    /// Where a phrase is found. `frequencies` has a zero for each text, and has them afterwards.
    fn find_phrase(&self, phrase: &Phrase, frequencies: &mut [u32]) -> Vec<Posting> {
        let seconds = self.ids_with_prefix(&phrase.second);
        if seconds.is_empty() {
            return Vec::new();
        }

        let mut found = Vec::new();
        for first in self.ids_with_suffix(&phrase.first) {
            let from = self
                .pairs
                .partition_point(|pair| (pair.first, pair.second) < (*first, seconds.start));
            let pairs = self.pairs[from..].iter();
            for pair in pairs.take_while(|pair| pair.first == *first && pair.second < seconds.end) {
                for Posting { document, frequency } in &pair.postings {
                    let counted = &mut frequencies[*document as usize];
                    if *counted == 0 {
                        found.push(*document);
                    }
                    *counted += frequency;
                }
            }
        }

        let can_overlap = phrase.can_overlap();
        let take = |document: u32| {
            let counted = std::mem::take(&mut frequencies[document as usize]);
            let frequency = match can_overlap {
                true => self.count_apart(document, phrase),
                false => counted,
            };
            Posting { document, frequency }
        };
        found.into_iter().map(take).collect()
    }

    /// How often a phrase is in a text where a place does not count that overlaps the one before.
    fn count_apart(&self, document: u32, phrase: &Phrase) -> u32 {
        let tokens = &self.documents[document as usize].tokens;
        let text = |token: &Token| &*self.tokens[token.id as usize];
        // Up to where the token has been counted.
        let (mut count, mut used) = (0, 0);

        for pair in tokens.windows(2) {
            let (first, second) = (text(&pair[0]), text(&pair[1]));
            let is_found = pair[0].is_followed
                && first.ends_with(&*phrase.first)
                && second.starts_with(&*phrase.second)
                && first.len() - phrase.first.len() >= used;
            count += u32::from(is_found);
            used = if is_found { phrase.second.len() } else { 0 };
        }
        count
    }

    fn ids_with_prefix(&self, prefix: &str) -> Range<u32> {
        let start = self.tokens.partition_point(|token| &**token < prefix);
        let length = self.tokens[start..].partition_point(|token| token.starts_with(prefix));
        id_of(start)..id_of(start + length)
    }

    fn ids_with_suffix(&self, suffix: &str) -> &[u32] {
        let text = |id: &u32| &*self.tokens[*id as usize];
        let start =
            self.backwards.partition_point(|id| text(id).bytes().rev().lt(suffix.bytes().rev()));
        let rest = &self.backwards[start..];
        &rest[..rest.partition_point(|id| text(id).ends_with(suffix))]
    }
}

impl Document {
    /// Reads a text, and numbers the tokens that are new.
    fn read(text: &str, ids: &mut HashMap<Box<str>, u32>) -> Self {
        let text = text.to_ascii_lowercase();
        let mut tokens: Vec<Token> = Vec::new();
        let mut previous_end = None;

        for run in runs(text.as_bytes()) {
            let is_token = run.len() >= TOKEN_CHARS_MIN;
            if is_token {
                let follows = previous_end
                    .is_some_and(|end: usize| end + 1 == run.start && text.as_bytes()[end] == b' ');
                if let Some(previous) = tokens.last_mut().filter(|_| follows) {
                    previous.is_followed = true;
                }
                let word = &text[run.clone()];
                let id = match ids.get(word) {
                    Some(id) => *id,
                    None => {
                        let id = id_of(ids.len());
                        ids.insert(word.into(), id);
                        id
                    }
                };
                tokens.push(Token { id, is_followed: false });
            }
            previous_end = is_token.then_some(run.end);
        }
        Self { tokens }
    }
}

/// The tokens in alphabetical order, by which the documents name them from now on.
fn sort_tokens(ids: HashMap<Box<str>, u32>, documents: &mut [Document]) -> Vec<Box<str>> {
    let mut sorted: Vec<_> = ids.into_iter().collect();
    sorted.sort_unstable();
    let mut places = vec![0; sorted.len()];
    for (place, (_, id)) in sorted.iter().enumerate() {
        places[*id as usize] = id_of(place);
    }
    for token in documents.iter_mut().flat_map(|document| &mut document.tokens) {
        token.id = places[token.id as usize];
    }
    sorted.into_iter().map(|(token, _)| token).collect()
}

fn pairs_of(documents: &[Document]) -> Vec<Pair> {
    let mut found = Vec::new();
    for (at, document) in documents.iter().enumerate() {
        let pairs = document.tokens.windows(2).filter(|pair| pair[0].is_followed);
        found.extend(pairs.map(|pair| (pair[0].id, pair[1].id, at)));
    }
    found.sort_unstable();

    let mut pairs: Vec<Pair> = Vec::new();
    for (first, second, document) in found {
        match pairs.last_mut() {
            Some(pair) if (pair.first, pair.second) == (first, second) => {
                add_posting(&mut pair.postings, document);
            }
            _ => {
                let mut postings = Vec::new();
                add_posting(&mut postings, document);
                pairs.push(Pair { first, second, postings });
            }
        }
    }
    pairs
}

/// Counts one more in a text that is none before the last one.
fn add_posting(postings: &mut Vec<Posting>, document: usize) {
    let document = id_of(document);
    match postings.last_mut() {
        Some(last) if last.document == document => last.frequency += 1,
        _ => postings.push(Posting { document, frequency: 1 }),
    }
}

/// Tokens and texts are numbered in 32 bits. There is no memory for more.
fn id_of(number: usize) -> u32 {
    u32::try_from(number).expect("more than four thousand million tokens do not fit into memory")
}
