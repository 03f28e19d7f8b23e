//! Questions about 100 MB, beside the programs that are made for them: jq and ripgrep.
//!
//! `cargo bench --profile measured -p toolbus-query --bench query`. Needs `jq` and `rg`. Prints a table, writes it as
//! `target/bench/query.md` and `query.json`, and exits 1 when a goal is missed.

mod input;
mod peers;

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Benchmark, Goal, Latencies, Report, Rounds, Row, runtime};
use tikv_jemallocator::Jemalloc;
use tokio::runtime::Runtime;
use toolbus_query::question::{Grep, Head, Jq, Sql};
use toolbus_query::{Answer, Engine, Limits, Question, Value, WORKER_MODE};

/// What ships allocates with jemalloc, so what is measured does: see
/// docs/adr/0017-one-allocator-for-every-service.md.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const ROUNDS: usize = 7;
const SMALL_QUESTIONS_A_ROUND: usize = 100;

/// A pattern that begins with what every line has, and has a literal inside that few have.
const RARE_LITERAL: &str = "grep, a regex with a rare literal inside";

/// How long it may take over what jq takes.
const GOAL_RATIO_JQ: f64 = 1.5;
/// How long it may take over what ripgrep takes.
const GOAL_RATIO_GREP: f64 = 1.2;

fn main() -> anyhow::Result<ExitCode> {
    // It is its own worker, as a service is.
    if std::env::args_os().nth(1).is_some_and(|mode| mode == WORKER_MODE) {
        toolbus_query::run_worker();
    }

    let folder = tempfile::tempdir()?;
    let path = folder.path().join("lines.json");
    input::write(&path)?;
    let bench = Bench {
        engine: Engine::new("/proc/self/exe", [WORKER_MODE])?,
        runtime: runtime()?,
        path: &path,
    };
    let parts = ["head", "jq", "grep", "sql"];
    let mut benchmark = Benchmark::begin("query", env!("CARGO_TARGET_TMPDIR"), &parts)?;
    benchmark.part("head", |report| bench.measure_small(report));
    benchmark.part("jq", |report| bench.measure_jq(report));
    benchmark.part("grep", |report| bench.measure_grep(report));
    benchmark.part("sql", |report| bench.measure_sql(report));
    benchmark.note(format!(
        "The value has {} JSON lines, {} MB. Every number is a whole process, from its start to \
         the end of what it writes, in turns with its peer: {}, {}.",
        input::LINES,
        std::fs::metadata(&path)?.len() / 1_000_000,
        peers::version("jq")?,
        peers::version("rg")?,
    ));
    Ok(benchmark.finish())
}

struct Bench<'a> {
    engine: Engine,
    runtime: Runtime,
    path: &'a Path,
}

impl Bench<'_> {
    /// What one question costs when it is about next to nothing.
    fn measure_small(&self, report: &mut Report) -> anyhow::Result<()> {
        let question = Question::Head(Head { lines: Some(1), bytes: None });
        let mut rounds = Rounds::new();
        for _ in 0..ROUNDS {
            let mut latencies = Latencies::with_capacity(SMALL_QUESTIONS_A_ROUND);
            for _ in 0..SMALL_QUESTIONS_A_ROUND {
                latencies.add(self.ask(&question)?.0);
            }
            rounds.add_latencies(latencies, Duration::from_millis(1));
        }
        report.add(Row::new("head of one line", "ms", rounds));
        Ok(())
    }

    fn measure_jq(&self, report: &mut Report) -> anyhow::Result<()> {
        for (what, filter) in [
            ("jq, `.a.b` of every line", "last(inputs | .a.b)"),
            ("jq, `select`", "inputs | select(.a.b == 7) | .id"),
            ("jq, `select` by a string", "inputs | select(.level == \"fatal\") | .message"),
        ] {
            let question =
                Question::Jq(Jq { filter: filter.to_owned(), null_input: true, ..Jq::default() });
            let arguments = ["-n", "-c", filter];
            self.measure(
                report,
                what,
                &question,
                &Peer { program: "jq", arguments: &arguments, goal: Some(GOAL_RATIO_JQ) },
            )?;
        }
        Ok(())
    }

    fn measure_grep(&self, report: &mut Report) -> anyhow::Result<()> {
        for (what, pattern, goal) in [
            ("grep, a literal", r#""level":"fatal""#, Some(GOAL_RATIO_GREP)),
            ("grep, a regex", r#""pod":"pod-[0-9a-f]+-(61a8|c350)""#, Some(GOAL_RATIO_GREP)),
            (RARE_LITERAL, "worker-[0-9]+ lost its (lease|claim) after 9{3}ms", None),
        ] {
            let question = Question::Grep(Grep { pattern: pattern.to_owned(), ..Grep::default() });
            let arguments = ["--no-config", "-n", "-m", "100", "-e", pattern];
            let peer = Peer { program: "rg", arguments: &arguments, goal };
            self.measure(report, what, &question, &peer)?;
        }
        report.note(
            "The regex with a rare literal inside begins with one that every line has. Our \
             time there goes into trying the pattern at each of them, which ripgrep 13 does not do.",
        );
        Ok(())
    }

    fn measure_sql(&self, report: &mut Report) -> anyhow::Result<()> {
        let statement = "SELECT level, count(*) AS n FROM data GROUP BY level ORDER BY n";
        let question = Question::Sql(Sql { statement: statement.to_owned(), ..Sql::default() });
        let mut rounds = Rounds::new();
        for _ in 0..ROUNDS / 3 {
            rounds.add(milliseconds(self.ask(&question)?.0));
        }
        report.add(Row::new("sql, a group of every line", "ms", rounds));
        Ok(())
    }

    fn measure(
        &self,
        report: &mut Report,
        what: &str,
        question: &Question,
        peer: &Peer<'_>,
    ) -> anyhow::Result<()> {
        let (mut ours, mut theirs) = (Rounds::new(), Rounds::new());
        for round in 0..=ROUNDS {
            let (took, answer) = self.ask(question)?;
            let (peer_took, output) = peers::run(peer.program, peer.arguments, self.path)?;
            anyhow::ensure!(answer.text == output, "{what}: {answer:?}, and the peer: {output}");
            anyhow::ensure!(!output.is_empty(), "{what} finds nothing");
            // The first round warms up.
            if round > 0 {
                ours.add(milliseconds(took));
                theirs.add(milliseconds(peer_took));
            }
        }
        let row = Row::new(what, "ms", ours).beside(theirs);
        report.add(match peer.goal {
            Some(goal) => row.with_goal(Goal::RatioAtMost(goal)),
            None => row,
        });
        Ok(())
    }

    fn ask(&self, question: &Question) -> anyhow::Result<(Duration, Answer)> {
        let value = Value::file(File::open(self.path)?);
        let limits = Limits { timeout: Duration::from_secs(120), ..Limits::default() };
        let started = Instant::now();
        let answer = self.runtime.block_on(self.engine.ask(question, value, &limits))?;
        Ok((started.elapsed(), answer))
    }
}

struct Peer<'a> {
    program: &'static str,
    arguments: &'a [&'a str],
    goal: Option<f64>,
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
