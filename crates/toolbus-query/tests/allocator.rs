//! Workers that allocate with jemalloc, as the services do, are held to their memory as well.
//!
//! The program is its own worker: a test harness cannot be one.

use std::time::Duration;

use tikv_jemallocator::Jemalloc;
use toolbus_query::question::{Jq, Sql};
use toolbus_query::{Answer, Engine, Error, Limits, Question, Value, WORKER_MODE};

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// The name of the one test in this program.
const TEST_NAME: &str = "workers_with_jemalloc_keep_to_their_memory";

#[allow(clippy::print_stdout, reason = "the list of tests is the output")]
fn main() {
    let mode = std::env::args_os().nth(1);
    if mode.is_some_and(|mode| mode == WORKER_MODE) {
        toolbus_query::run_worker();
    }

    // The part of the harness's protocol that nextest uses: list the tests, then run one.
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.iter().any(|argument| argument == "--list") {
        if !arguments.iter().any(|argument| argument == "--ignored") {
            println!("{TEST_NAME}: test");
        }
        return;
    }

    for filter in ["[range(1e12)]", "\"x\" * 1000000000", "[limit(1e9; repeat(\"x\" * 100000))]"] {
        check_memory(&jq(filter));
    }
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    let statement = format!("{numbers} SELECT randomblob(100000) FROM n ORDER BY 1");
    check_memory(&Question::Sql(Sql { statement, ..Sql::default() }));

    let honest = jq("[range(100000)] | add");
    assert_eq!(ask(&honest).expect("an answer").text, "4999950000\n");
    let endless = ask(&jq("def f: 1 + f; f"));
    assert!(matches!(endless, Err(Error::Invalid { .. })), "{endless:?}");
}

fn jq(filter: &str) -> Question {
    Question::Jq(Jq { filter: filter.to_owned(), ..Jq::default() })
}

#[track_caller]
fn check_memory(question: &Question) {
    let answer = ask(question);
    assert!(matches!(answer, Err(Error::OutOfMemory)), "{question:?}: {answer:?}");
}

fn ask(question: &Question) -> Result<Answer, Error> {
    let engine = Engine::new("/proc/self/exe", [WORKER_MODE]).expect("a thread");
    let limits =
        Limits { memory_bytes: 64 << 20, timeout: Duration::from_secs(60), ..Limits::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let value = Value::stream(&b"1"[..]);
    runtime.expect("a runtime").block_on(engine.ask(question, value, &limits))
}
