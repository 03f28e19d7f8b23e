//! Tools in segments of bounded size. A segment never changes: what is new makes another one, and
//! small ones are merged, so that an update costs what its own tools cost and no search waits.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use toolbus_tools::id::ToolId;

use super::document::{Entry, Indexed, Weight};
use super::vectors::{Compact, Vectors};

/// Most tools of a segment.
pub(super) const SEGMENT_TOOLS_MAX: usize = 1_024;

/// A set of slots of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slots([u64; SEGMENT_TOOLS_MAX / 64]);

impl Slots {
    pub(super) const NONE: Self = Self([0; SEGMENT_TOOLS_MAX / 64]);

    pub(super) fn insert(&mut self, slot: usize) {
        self.0[slot / 64] |= 1 << (slot % 64);
    }

    pub(super) fn contains(&self, slot: usize) -> bool {
        self.0[slot / 64] >> (slot % 64) & 1 == 1
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

/// A tool that has a word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Posting {
    pub(super) slot: u16,
    pub(super) weight: Weight,
}

/// Tools and their words.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) entries: Vec<Entry>,
    /// The names of the entries, close together: each search compares all of them.
    pub(super) names: Vec<u64>,
    /// The hashes of all words, in order.
    words: Vec<u64>,
    /// Where the postings of each word begin, and where the last ones end.
    starts: Vec<u32>,
    postings: Vec<Posting>,
}

impl Segment {
    fn build(tools: Vec<Indexed>) -> Self {
        let count = tools.iter().map(|tool| tool.words.len()).sum();
        let mut all: Vec<(u64, Posting)> = Vec::with_capacity(count);
        let mut entries = Vec::with_capacity(tools.len());
        for (slot, tool) in tools.into_iter().enumerate() {
            let slot = slot as u16;
            all.extend(tool.words.iter().map(|(word, weight)| {
                let posting = Posting { slot, weight: *weight };
                (*word, posting)
            }));
            entries.push(tool.entry);
        }
        all.sort_unstable_by_key(|(word, posting)| (*word, posting.slot));

        let (mut words, mut starts) = (Vec::new(), Vec::new());
        for (at, (word, _)) in all.iter().enumerate() {
            if words.last() != Some(word) {
                words.push(*word);
                starts.push(at as u32);
            }
        }
        starts.push(all.len() as u32);
        words.shrink_to_fit();
        starts.shrink_to_fit();
        let postings = all.into_iter().map(|(_, posting)| posting).collect();
        let names = entries.iter().map(|entry: &Entry| entry.name).collect();
        Self { entries, names, words, starts, postings }
    }

    /// Where the postings of a word are.
    pub(super) fn find(&self, word: u64) -> Option<Range<usize>> {
        let at = self.words.binary_search(&word).ok()?;
        Some(self.starts[at] as usize..self.starts[at + 1] as usize)
    }

    pub(super) fn postings(&self, range: Range<usize>) -> &[Posting] {
        &self.postings[range]
    }
}

/// A segment as it is searched: without tools that are gone, with the vectors that are there.
#[derive(Debug, Clone)]
pub(super) struct Live {
    pub(super) segment: Arc<Segment>,
    pub(super) gone: Slots,
    pub(super) vectors: Arc<Vectors>,
}

impl Live {
    fn len(&self) -> usize {
        self.segment.entries.len() - self.gone.len()
    }

    /// The tools that are not gone, as they were indexed.
    fn take_apart(&self) -> Vec<(Indexed, Option<Compact>)> {
        let mut tools: Vec<_> =
            self.segment.entries.iter().map(|entry| (entry.clone(), Vec::new())).collect();
        // Words come in their order, so those of each tool do.
        for (at, word) in self.segment.words.iter().enumerate() {
            let range = self.segment.starts[at] as usize..self.segment.starts[at + 1] as usize;
            for posting in self.segment.postings(range) {
                tools[usize::from(posting.slot)].1.push((*word, posting.weight));
            }
        }

        let alive = tools.into_iter().enumerate().filter(|(slot, _)| !self.gone.contains(*slot));
        let parts =
            alive.map(|(slot, (entry, words))| (Indexed { entry, words }, self.vectors.read(slot)));
        parts.collect()
    }
}

/// All tools at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    pub(super) version: u64,
    pub(super) segments: BTreeMap<u32, Arc<Live>>,
}

/// Where a tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: u32,
    pub(super) slot: u16,
}

/// Where all tools are.
pub(super) type Places = HashMap<ToolId, Place>;

impl Snapshot {
    pub(super) fn entry(&self, place: Place) -> Option<&Entry> {
        self.segments.get(&place.segment)?.segment.entries.get(usize::from(place.slot))
    }

    /// Forgets the tool of a place.
    pub(super) fn remove(&mut self, place: Place) {
        if let Some(live) = self.segments.get_mut(&place.segment) {
            Arc::make_mut(live).gone.insert(usize::from(place.slot));
        }
    }

    /// Takes tools, with those of segments that are mostly gone or no larger than what is added.
    pub(super) fn add(&mut self, added: Vec<Indexed>, dimensions: usize, places: &mut Places) {
        let mut added: Vec<_> = added.into_iter().map(|tool| (tool, None)).collect();
        let is_sparse = |live: &Live| 2 * live.len() < live.segment.entries.len();
        let sparse: Vec<u32> = self
            .segments
            .iter()
            .filter_map(|(key, live)| is_sparse(live).then_some(*key))
            .collect();
        for live in sparse.iter().filter_map(|key| self.segments.remove(key)) {
            added.extend(live.take_apart());
        }
        while let Some((key, live)) = self.segments.last_key_value()
            && live.len() <= 2 * added.len()
            && live.len() + added.len() <= SEGMENT_TOOLS_MAX
        {
            added.extend(live.take_apart());
            let key = *key;
            self.segments.remove(&key);
        }

        let mut rest = added.into_iter().peekable();
        while rest.peek().is_some() {
            let key = self.segments.last_key_value().map_or(0, |(key, _)| key + 1);
            let (tools, vectors): (Vec<_>, Vec<_>) = rest.by_ref().take(SEGMENT_TOOLS_MAX).unzip();
            let segment = Arc::new(Segment::build(tools));
            for (slot, entry) in segment.entries.iter().enumerate() {
                let place = Place { segment: key, slot: slot as u16 };
                places.insert(entry.id.clone(), place);
            }
            let mut all = Vectors::empty(dimensions, vectors.len());
            for (slot, vector) in vectors.iter().enumerate() {
                if let Some(vector) = vector {
                    all.set(slot, vector);
                }
            }
            let live = Live { segment, gone: Slots::NONE, vectors: Arc::new(all) };
            self.segments.insert(key, Arc::new(live));
        }
    }

    /// Gives a tool its vector.
    pub(super) fn set_vector(&mut self, place: Place, vector: &Compact) {
        if let Some(live) = self.segments.get_mut(&place.segment) {
            let live = Arc::make_mut(live);
            Arc::make_mut(&mut live.vectors).set(usize::from(place.slot), vector);
        }
    }
}
