//! How often the right tool is found among those of real servers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::bench::{Goal, Latencies, Report, Rounds, Row};
use toolbus_search::{Bm25Index, Embed, FITTING_SIMILARITY, ToolDocument, ToolIndex};

use super::catalogue;
use super::hostile;
use super::plot::Point;

const QUERIES: &str = include_str!("queries.txt");
/// The kind of queries that no tool answers.
const NOTHING: &str = "nothing";
const DEPTH: usize = 10;
/// Kinds whose queries avoid the words of the descriptions that they ask for, and which share of
/// their words, on average, may be there all the same.
const OTHER_WORDS: [&str; 2] = ["paraphrase", "task"];
const SHARED_WORDS_MAX: f64 = 0.35;
/// Of their nDCG@10, so much is left to queries among hostile tools.
const KEPT_AMONG_HOSTILE_MIN: f64 = 0.98;
/// So much more nDCG@10 than BM25 alone a model is to bring, in hundredths.
const POINTS_OVER_BM25_MIN: f64 = 15.0;
/// Of the queries that no tool answers, so many are to be recognised.
const NOTHING_RECOGNISED_PERCENT_MIN: f64 = 80.0;

struct Query {
    kind: &'static str,
    text: &'static str,
    /// The ids of the tools that answer it.
    answers: Vec<&'static str>,
}

/// Means over queries.
#[derive(Debug, Clone, Copy, Default)]
struct Quality {
    queries: f64,
    gain: f64,
    recall_5: f64,
    recall_10: f64,
    /// Queries whose best tool fits.
    fitting: f64,
}

/// What was measured of one way to search.
#[derive(Debug, Clone)]
struct Judged {
    name: String,
    kinds: BTreeMap<&'static str, Quality>,
    /// How long each search took.
    rounds: Rounds,
}

/// Measures the search by words alone and with each of the models, by name, and gives what is to be
/// drawn of them.
pub(super) async fn measure(
    report: &mut Report,
    models: &[(&str, Arc<dyn Embed>)],
    catalogue: &Path,
) -> anyhow::Result<Vec<Point>> {
    let tools = catalogue::read(catalogue)?;
    let queries = parse(&tools)?;
    let servers: BTreeSet<_> = tools.iter().map(|tool| &tool.server).collect();
    report.note(format!(
        "Quality: {} tools of {} servers, {} queries. The peer of a row is BM25 alone over name, \
         description, parameters and server as one text, as RockBot ranks texts.",
        tools.len(),
        servers.len(),
        queries.len()
    ));
    add_shared_words(report, &queries, &tools)?;

    let bm25 = judge_bm25(&queries, &tools);
    let words = ToolIndex::new();
    words.update(tools.clone(), &[]);
    let words = judge("words alone", &queries, &words).await;
    add_rows(report, &words, &bm25);
    let mut judged = vec![bm25.clone(), words];

    for (at, (name, model)) in models.iter().enumerate() {
        let index = catalogue::index(tools.clone(), model).await?;
        let hybrid = judge(&format!("hybrid, {name}"), &queries, &index).await;
        add_rows(report, &hybrid, &bm25);
        add_goals(report, &hybrid, &bm25);
        if at == 0 {
            add_attacks(report, &hybrid, &queries, &tools, model).await?;
        }
        judged.push(hybrid);
    }
    Ok(judged.iter().map(Judged::to_point).collect())
}

/// How many of the words of queries are in the descriptions of what they ask for: a search that
/// finds those only by their words needs no meaning.
fn add_shared_words(
    report: &mut Report,
    queries: &[Query],
    tools: &[ToolDocument],
) -> anyhow::Result<()> {
    let words = |text: &str| -> BTreeSet<String> {
        let runs = text.split(|c: char| !c.is_alphanumeric());
        runs.filter(|word| word.chars().count() > 3).map(str::to_lowercase).collect()
    };
    let descriptions: BTreeMap<&str, BTreeSet<String>> =
        tools.iter().map(|tool| (tool.id.as_str(), words(&tool.description))).collect();

    for kind in OTHER_WORDS {
        let (mut sum, mut count) = (0.0, 0.0);
        for query in queries.iter().filter(|query| query.kind == kind) {
            let said = words(query.text);
            let shared = query.answers.iter().filter_map(|answer| descriptions.get(answer));
            let shared = shared.map(|described| said.intersection(described).count());
            sum += shared.max().unwrap_or_default() as f64 / said.len().max(1) as f64;
            count += 1.0;
        }
        let share: f64 = sum / count;
        ensure!(share <= SHARED_WORDS_MAX, "{share:.2} of the words of {kind} are descriptions'");
        report.add(Row::new(format!("words shared with descriptions, {kind}"), "", once(share)));
    }
    Ok(())
}

fn add_rows(report: &mut Report, ours: &Judged, bm25: &Judged) {
    let (all, all_bm25) = (ours.answered(), bm25.answered());
    let mut row = |what: &str, kind: &str, ours_value: f64, peer: f64| {
        let name = format!("{what}, {}{kind}", ours.name);
        report.add(Row::new(name, "", once(ours_value)).beside(once(peer)));
    };
    let mut rows = |kind: &str, of: &Quality, peer: &Quality| {
        row("nDCG@10", kind, of.mean(of.gain), peer.mean(peer.gain));
        row("R@5", kind, of.mean(of.recall_5), peer.mean(peer.recall_5));
        row("R@10", kind, of.mean(of.recall_10), peer.mean(peer.recall_10));
    };
    rows("", &all, &all_bm25);
    for (kind, of) in ours.kinds.iter().filter(|(kind, _)| **kind != NOTHING) {
        rows(&format!(", {kind}"), of, &bm25.kinds[kind]);
    }

    let row = Row::new(format!("a query, {}", ours.name), "ms", ours.rounds.clone());
    report.add(row.beside(bm25.rounds.clone()));
    let recognised = |what: &str, share: f64| {
        let name = format!("{what} fits, recognised, {}", ours.name);
        Row::new(name, "%", once(100.0 * share))
    };
    report.add(recognised("something", all.mean(all.fitting)));
    let nothing = ours.kinds[NOTHING];
    let row = recognised("nothing", 1.0 - nothing.mean(nothing.fitting));
    report.add(row.with_goal(Goal::AtLeast(NOTHING_RECOGNISED_PERCENT_MIN)));
}

/// What is wanted of a search with a model.
fn add_goals(report: &mut Report, hybrid: &Judged, bm25: &Judged) {
    let (all, all_bm25) = (hybrid.answered(), bm25.answered());
    let more = 100.0 * (all.mean(all.gain) - all_bm25.mean(all_bm25.gain));
    let row = Row::new(format!("nDCG@10 over BM25 alone, {}", hybrid.name), "points", once(more));
    report.add(row.with_goal(Goal::AtLeast(POINTS_OVER_BM25_MIN)));
}

/// Each attack by itself, then all at once; the peer is the search without hostile tools.
async fn add_attacks(
    report: &mut Report,
    without: &Judged,
    queries: &[Query],
    tools: &[ToolDocument],
    model: &Arc<dyn Embed>,
) -> anyhow::Result<()> {
    let mut attacks = hostile::attacks(tools);
    let all = attacks.iter().flat_map(|(_, tools)| tools.iter().cloned()).collect();
    attacks.push(("all hostile tools", all));
    let before = without.answered();

    for (name, hostile) in attacks {
        let index = catalogue::index([tools.to_vec(), hostile].concat(), model).await?;
        let attacked = judge(name, queries, &index).await.answered();
        let row = Row::new(
            format!("nDCG@10, hybrid, among {name}"),
            "",
            once(attacked.mean(attacked.gain)),
        );
        let row = row.beside(once(before.mean(before.gain)));
        report.add(row.with_goal(Goal::RatioAtLeast(KEPT_AMONG_HOSTILE_MIN)));
    }
    Ok(())
}

impl Judged {
    /// The sum over the queries that a tool answers.
    fn answered(&self) -> Quality {
        let kinds = self.kinds.iter().filter(|(kind, _)| **kind != NOTHING);
        kinds.fold(Quality::default(), |sum, (_, of)| sum.plus(of))
    }

    fn to_point(&self) -> Point {
        let all = self.answered();
        Point {
            name: self.name.clone(),
            milliseconds: self.rounds.median(),
            quality: all.mean(all.gain),
        }
    }
}

fn once(value: f64) -> Rounds {
    let mut rounds = Rounds::new();
    rounds.add(value);
    rounds
}

impl Quality {
    fn plus(self, other: &Self) -> Self {
        Self {
            queries: self.queries + other.queries,
            gain: self.gain + other.gain,
            recall_5: self.recall_5 + other.recall_5,
            recall_10: self.recall_10 + other.recall_10,
            fitting: self.fitting + other.fitting,
        }
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / self.queries
    }

    fn of(query: &Query, found: &[(&str, f64)]) -> Self {
        let is_answer = |at: usize| found.get(at).is_some_and(|(id, _)| query.answers.contains(id));
        let discount = |at: usize| 1.0 / (at as f64 + 2.0).log2();
        let gain: f64 = (0..DEPTH).filter(|at| is_answer(*at)).map(discount).sum();
        let ideal: f64 = (0..query.answers.len().min(DEPTH)).map(discount).sum();
        let recall = |depth: usize| {
            let hits = (0..depth).filter(|at| is_answer(*at)).count();
            hits as f64 / query.answers.len().clamp(1, depth) as f64
        };
        let fits = found.first().is_some_and(|best| best.1 >= f64::from(FITTING_SIMILARITY));
        Self {
            queries: 1.0,
            gain: if ideal > 0.0 { gain / ideal } else { 0.0 },
            recall_5: recall(5),
            recall_10: recall(DEPTH),
            fitting: if fits { 1.0 } else { 0.0 },
        }
    }
}

async fn judge(name: &str, queries: &[Query], index: &ToolIndex) -> Judged {
    let mut kinds = BTreeMap::new();
    let mut latencies = Latencies::default();
    for query in queries {
        let began = Instant::now();
        let candidates = index.search(query.text, DEPTH, &|_| true).await;
        latencies.add(began.elapsed());

        let hits = candidates.found.iter();
        let found: Vec<_> = hits.map(|hit| (hit.id.as_str(), f64::from(hit.similarity))).collect();
        let of: &mut Quality = kinds.entry(query.kind).or_default();
        *of = of.plus(&Quality::of(query, &found));
    }
    Judged { name: name.to_owned(), kinds, rounds: in_milliseconds(latencies) }
}

/// BM25 over name, description, parameters and server as one text. What scores at all fits.
fn judge_bm25(queries: &[Query], tools: &[ToolDocument]) -> Judged {
    let text = |tool: &ToolDocument| {
        format!("{} {} {} {}", tool.name, tool.description, tool.parameters, tool.server)
    };
    let index = Bm25Index::build(tools.iter().map(text));
    let mut kinds = BTreeMap::new();
    let mut latencies = Latencies::default();
    for query in queries {
        let began = Instant::now();
        let ranked = index.search(query.text, DEPTH);
        latencies.add(began.elapsed());

        let found: Vec<_> =
            ranked.iter().map(|hit| (tools[hit.document].id.as_str(), hit.score)).collect();
        let of: &mut Quality = kinds.entry(query.kind).or_default();
        *of = of.plus(&Quality::of(query, &found));
    }
    Judged { name: "BM25 alone".to_owned(), kinds, rounds: in_milliseconds(latencies) }
}

fn in_milliseconds(latencies: Latencies) -> Rounds {
    let mut rounds = Rounds::new();
    rounds.add_latencies(latencies, Duration::from_millis(1));
    rounds
}

/// Reads the queries; each answer must be a tool that there is.
fn parse(tools: &[ToolDocument]) -> anyhow::Result<Vec<Query>> {
    let lines = QUERIES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut queries = Vec::new();
    for line in lines {
        let mut parts = line.split('|').map(str::trim);
        let (kind, text, answers) = (parts.next(), parts.next(), parts.next());
        let (Some(kind), Some(text), Some(answers)) = (kind, text, answers) else {
            anyhow::bail!("a query without answers: {line}");
        };
        let answers: Vec<_> =
            answers.split(',').map(str::trim).filter(|answer| !answer.is_empty()).collect();
        ensure!(answers.is_empty() == (kind == NOTHING), "{line}");
        for answer in &answers {
            let is_there = tools.iter().any(|tool| tool.id.as_str() == *answer);
            is_there.then_some(()).with_context(|| format!("no tool {answer}"))?;
        }
        queries.push(Query { kind, text, answers });
    }
    Ok(queries)
}
