//! Searching one snapshot: which tools the caller may see, what each scores by its words and by its
//! vector, and which of them are shown.
//!
//! Nothing here depends on a tool that the caller may not see: how rare a word is, is counted among
//! those that are allowed, and everything else of a score is the tool's own.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::RandomState;
use std::ops::Range;

use toolbus_tools::id::ToolId;

use super::document::{name_hash, query_words};
use super::segment::{Live, SEGMENT_TOOLS_MAX, Slots, Snapshot};
use super::text::clean;
use super::vectors::QueryVector;
use super::{Candidate, Candidates, FITTING_SIMILARITY};

/// Most words of a step that are looked up.
const QUERY_WORDS_MAX: usize = 64;
/// Most like tools of one server that are shown before others.
const ALIKE_MAX: usize = 4;
/// In so many bits of 64 like texts differ at most.
const ALIKE_BITS_MAX: u32 = 8;
/// What is shown in place of one of many like tools is at least so near to the query as this share
/// of it.
const INSTEAD_SHARE: f32 = 0.5;
/// Hits that are kept before those are dropped that are not shown anyway.
const POOL_HITS_MAX: usize = 512;
/// What words count beside vectors.
const WORDS_SHARE: f32 = 0.5;

/// What cosines mean with a model: up to the first, texts have nothing in common; from the second
/// on they say the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Calibration {
    pub(super) unrelated: f32,
    pub(super) same: f32,
}

impl Calibration {
    fn nearness(&self, cosine: f32) -> f32 {
        ((cosine - self.unrelated) / (self.same - self.unrelated)).clamp(0.0, 1.0)
    }
}

/// What is looked for in one step of a task.
pub(super) struct Step {
    words: Vec<u64>,
    name: u64,
    vector: Option<(QueryVector, Calibration)>,
}

impl Step {
    pub(super) fn of(
        text: &str,
        vector: Option<(QueryVector, Calibration)>,
        hasher: &RandomState,
    ) -> Self {
        let clean = clean(text, super::QUERY_BYTES_MAX);
        let words = query_words(&clean, QUERY_WORDS_MAX, hasher);
        Self { words, name: name_hash(&clean, hasher), vector }
    }
}

/// A segment and which of its tools the caller may see.
struct Visible<'a> {
    live: &'a Live,
    slots: Slots,
}

#[derive(Debug, Clone, Copy)]
struct Hit {
    similarity: f32,
    /// The same without the name: of several tools of the name that is asked for, the one comes
    /// first whose words and vector are nearer, and not one that has nothing but the name.
    content: f32,
    /// The share of what the query says that the tool says anywhere but in its name.
    said: f32,
    segment: u32,
    slot: u16,
}

/// The tools nearest to the steps, among those that are allowed (3c.5).
pub(super) fn search(
    snapshot: &Snapshot,
    steps: &[Step],
    most: usize,
    allows: &(dyn Fn(&ToolId) -> bool + Sync),
) -> Candidates {
    let mut searched = 0;
    let mut visible = Vec::with_capacity(snapshot.segments.len());
    for live in snapshot.segments.values() {
        let mut slots = Slots::NONE;
        for (slot, entry) in live.segment.entries.iter().enumerate() {
            if !live.gone.contains(slot) && allows(&entry.id) {
                slots.insert(slot);
                searched += 1;
            }
        }
        visible.push(Visible { live, slots });
    }

    let lists: Vec<Vec<Hit>> =
        steps.iter().map(|step| Ranking::new(&visible, searched, step).rank(step, most)).collect();
    let hits = merge(&visible, lists, most);
    let found = hits
        .into_iter()
        .map(|hit| Candidate { id: entry(&visible, hit).id.clone(), similarity: hit.similarity });
    Candidates { found: found.collect(), searched, by_words_alone: false }
}

fn entry<'a>(visible: &[Visible<'a>], hit: Hit) -> &'a super::document::Entry {
    &visible[hit.segment as usize].live.segment.entries[usize::from(hit.slot)]
}

/// The nearest first; of the same similarity, by content, then by id.
fn order(visible: &[Visible<'_>], one: &Hit, other: &Hit) -> Ordering {
    let by_id = || entry(visible, *one).id.cmp(&entry(visible, *other).id);
    let by_content = other.content.total_cmp(&one.content);
    other.similarity.total_cmp(&one.similarity).then(by_content).then_with(by_id)
}

/// The words of a step among visible tools.
struct Ranking<'a, 'b> {
    visible: &'b [Visible<'a>],
    /// By word, then by segment.
    ranges: Vec<Vec<Option<Range<usize>>>>,
    /// What each word says, as a share of what all of them say.
    shares: Vec<f32>,
    /// What is known not to be shown is less near than this.
    least: f32,
}

impl<'a, 'b> Ranking<'a, 'b> {
    fn new(visible: &'b [Visible<'a>], searched: usize, step: &Step) -> Self {
        let mut ranges = Vec::with_capacity(step.words.len());
        let mut shares = Vec::with_capacity(step.words.len());
        for word in &step.words {
            let of_word: Vec<_> =
                visible.iter().map(|part| part.live.segment.find(*word)).collect();
            let tools: usize = of_word
                .iter()
                .zip(visible)
                .filter_map(|(range, part)| Some((range.clone()?, part)))
                .map(|(range, part)| {
                    let postings = part.live.segment.postings(range).iter();
                    postings.filter(|posting| part.slots.contains(posting.slot.into())).count()
                })
                .sum();
            let rarity = (searched as f32 - tools as f32 + 0.5) / (tools as f32 + 0.5);
            shares.push((1.0 + rarity).ln());
            ranges.push(of_word);
        }

        let all: f32 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= all.max(f32::MIN_POSITIVE));
        Self { visible, ranges, shares, least: 0.0 }
    }

    fn rank(mut self, step: &Step, most: usize) -> Vec<Hit> {
        let mut pool = Vec::new();
        let (mut words, mut said) = ([0.0_f32; SEGMENT_TOOLS_MAX], [0.0_f32; SEGMENT_TOOLS_MAX]);
        if most == 0 {
            return pool;
        }
        for (at, part) in self.visible.iter().enumerate() {
            let segment = &part.live.segment;
            words[..segment.entries.len()].fill(0.0);
            said[..segment.entries.len()].fill(0.0);
            for (ranges, share) in self.ranges.iter().zip(&self.shares) {
                let Some(range) = ranges[at].clone() else { continue };
                for posting in segment.postings(range) {
                    let slot = usize::from(posting.slot);
                    words[slot] += share * posting.weight.share();
                    said[slot] += if posting.weight.is_said() { *share } else { 0.0 };
                }
            }

            for (slot, words) in words[..segment.entries.len()].iter().enumerate() {
                if !part.slots.contains(slot) {
                    continue;
                }
                let is_named = step.name != 0 && segment.names[slot] == step.name;
                let content = similarity(step, part, slot, *words);
                let similarity = if is_named { 1.0 } else { content };
                if similarity > 0.0 && similarity >= self.least {
                    let (said, segment) = (said[slot], at as u32);
                    pool.push(Hit { similarity, content, said, segment, slot: slot as u16 });
                }
            }
            if pool.len() >= POOL_HITS_MAX.max(4 * most) {
                pool = self.best(pool, most);
            }
        }
        let hits = self.best(pool, most);
        self.order_namesakes(hits)
    }

    /// Tools of one name imitate one another by it, so what they say beside it decides which of
    /// their places each has: the first is for the one that says most of what is asked for.
    fn order_namesakes(&self, mut hits: Vec<Hit>) -> Vec<Hit> {
        let mut named: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, hit) in hits.iter().enumerate() {
            named.entry(entry(self.visible, *hit).name).or_default().push(at);
        }
        let of_several =
            |(name, places): (u64, Vec<usize>)| (name != 0 && places.len() > 1).then_some(places);
        for places in named.into_iter().filter_map(of_several) {
            let mut tools: Vec<Hit> = places.iter().map(|at| hits[*at]).collect();
            tools.sort_by(|one, other| other.said.total_cmp(&one.said));
            for (at, tool) in places.into_iter().zip(tools) {
                let Hit { similarity, content, .. } = hits[at];
                hits[at] = Hit { similarity, content, ..tool };
            }
        }
        hits
    }

    /// The hits that are shown: the nearest, where of many like tools of a server some give way to
    /// others.
    fn best(&mut self, mut pool: Vec<Hit>, most: usize) -> Vec<Hit> {
        let visible = self.visible;
        pool.sort_unstable_by(|one, other| order(visible, one, other));
        let mut kinds: HashMap<u64, Vec<(u64, usize)>> = HashMap::new();
        let (mut kept, mut alike): (Vec<Hit>, Vec<Hit>) = (Vec::new(), Vec::new());
        for hit in pool {
            if kept.len() == most {
                break;
            }
            let entry = entry(visible, hit);
            let kinds = kinds.entry(entry.server).or_default();
            let kind = kinds
                .iter_mut()
                .find(|(likeness, _)| (likeness ^ entry.likeness).count_ones() <= ALIKE_BITS_MAX);
            match kind {
                Some((_, count)) if *count >= ALIKE_MAX => alike.push(hit),
                Some((_, count)) => {
                    *count += 1;
                    kept.push(hit);
                }
                None => {
                    kinds.push((entry.likeness, 1));
                    kept.push(hit);
                }
            }
        }
        if kept.len() == most {
            self.least = kept[most - 1].similarity;
        }

        for hit in alike.into_iter().take(most) {
            if kept.len() < most {
                kept.push(hit);
            } else if kept
                .last()
                .is_some_and(|last| last.similarity < INSTEAD_SHARE * hit.similarity)
            {
                kept.pop();
                let at = kept.partition_point(|other| order(visible, other, &hit).is_le());
                kept.insert(at, hit);
            }
        }
        kept.sort_unstable_by(|one, other| order(visible, one, other));
        kept
    }
}

/// How near a tool is: the share of what the query says that its words have, beside the nearness of
/// its vector, where both are known.
fn similarity(step: &Step, part: &Visible<'_>, slot: usize, words: f32) -> f32 {
    let words = words.clamp(0.0, 1.0);
    let Some((vector, calibration)) = &step.vector else { return words };
    let Some(cosine) = part.live.vectors.cosine(slot, vector) else { return words };
    WORDS_SHARE * words + (1.0 - WORDS_SHARE) * calibration.nearness(cosine)
}

/// The hits of all steps. A step for which anything fits counts as much as the others, so that its
/// tools stand among theirs.
fn merge(visible: &[Visible<'_>], mut lists: Vec<Vec<Hit>>, most: usize) -> Vec<Hit> {
    if lists.len() == 1 {
        return lists.pop().unwrap_or_default();
    }
    let top = |list: &[Hit]| list.first().map_or(0.0, |hit| hit.similarity);
    let best = lists.iter().map(|list| top(list)).fold(0.0, f32::max);
    let mut all: HashMap<(u32, u16), Hit> = HashMap::new();
    for list in lists {
        let lift = if top(&list) >= FITTING_SIMILARITY { best / top(&list) } else { 1.0 };
        for hit in list {
            let hit = Hit { similarity: (hit.similarity * lift).min(1.0), ..hit };
            let known = all.entry((hit.segment, hit.slot)).or_insert(hit);
            known.similarity = known.similarity.max(hit.similarity);
        }
    }

    let mut hits: Vec<_> = all.into_values().collect();
    hits.sort_unstable_by(|one, other| order(visible, one, other));
    hits.truncate(most);
    hits
}
