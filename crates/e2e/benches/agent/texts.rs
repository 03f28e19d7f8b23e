//! What is done with texts: long results are split, and services are searched.

use std::hint::black_box;
use std::time::{Duration, Instant};

use e2e::bench::{Goal, Latencies, Report, Rounds, Row};
use toolbus_memory::ContentChunker;
use toolbus_search::{Ability, Service, ServiceIndex, ServiceKind};

use super::ROUNDS;

const MARKDOWN_BYTES: usize = 10 << 20;
/// How long a chunk may be, in UTF-16 code units.
const CHUNK_UNITS: usize = 20_000;
const SERVICES: usize = 2_000;
const SEARCHES_A_ROUND: usize = 500;

const GOAL_CHUNKS_MS: f64 = 100.0;
const GOAL_SEARCH_MS: f64 = 1.0;

pub(super) fn measure_chunks(report: &mut Report) {
    let text = markdown();
    let chunker = ContentChunker::new(CHUNK_UNITS);
    let mut rounds = Rounds::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        black_box(chunker.chunk(black_box(&text)));
        rounds.add(began.elapsed().as_secs_f64() * 1e3);
    }
    let row = Row::new("splitting 10 MiB of markdown", "ms", rounds);
    report.add(row.with_goal(Goal::AtMost(GOAL_CHUNKS_MS)));
}

/// Sections of all lengths, some longer than a chunk.
fn markdown() -> String {
    let mut text = String::with_capacity(MARKDOWN_BYTES);
    for section in 1_usize.. {
        text.push_str(&format!("{} Section {section}\n\n", "#".repeat(section % 3 + 1)));
        for line in 0..(section * 7_919) % 900 {
            text.push_str(&format!("Line {line} says what the line before it did not, née Ü.\n"));
        }
        if text.len() >= MARKDOWN_BYTES {
            break;
        }
    }
    text
}

pub(super) fn measure_services(report: &mut Report) {
    let index = ServiceIndex::build((0..SERVICES).map(service).collect());
    let mut tails = Rounds::new();
    let mut medians = Rounds::new();
    for _ in 0..ROUNDS {
        let mut latencies = Latencies::default();
        for at in 0..SEARCHES_A_ROUND {
            let query = format!("find the {} of a {} and send it", VERBS[at % 8], NOUNS[at % 16]);
            let began = Instant::now();
            black_box(index.search(black_box(&query)));
            latencies.add(began.elapsed());
        }
        let ms = |share| Duration::as_secs_f64(&latencies.percentile(share)) * 1e3;
        let (median, tail) = (ms(0.5), ms(0.99));
        medians.add(median);
        tails.add(tail);
    }
    report.add(Row::new(format!("search of {SERVICES} services, p50"), "ms", medians));
    let row = Row::new(format!("search of {SERVICES} services, p99"), "ms", tails);
    report.add(row.with_goal(Goal::AtMost(GOAL_SEARCH_MS)));
}

const VERBS: [&str; 8] = ["status", "owner", "price", "history", "size", "name", "date", "state"];
const NOUNS: [&str; 16] = [
    "ticket", "invoice", "server", "customer", "branch", "message", "order", "file", "meeting",
    "contract", "shipment", "camera", "sensor", "account", "pipeline", "recipe",
];

fn service(at: usize) -> Service {
    let (noun, verb) = (NOUNS[at % 16], VERBS[at / 16 % 8]);
    let ability = |which: usize| Ability {
        id: format!("{}_{noun}_{which}", VERBS[(at + which) % 8]),
        ..Ability::default()
    };
    Service {
        display_name: Some(format!("The {noun} service number {at}")),
        summary: Some(format!("Tells the {verb} of every {noun}, and changes it where it may.")),
        abilities: (0..8).map(ability).collect(),
        ..Service::new(ServiceKind::McpServer, format!("{noun}-{at}"))
    }
}
