//! What is generated, and its seed: the same seed gives the same calls.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngSeed, TestRunner};

/// Draws values, and tells its seed where the test fails.
pub(crate) struct Draws {
    seed: u64,
    runner: TestRunner,
}

impl Draws {
    /// Draws by the seed that `PROPTEST_RNG_SEED` says, or else by one that is another each time.
    pub(crate) fn new() -> Self {
        let seed = match Config::default().rng_seed {
            RngSeed::Fixed(seed) => seed,
            RngSeed::Random => draw(&mut TestRunner::new(Config::default()), &any::<u64>()),
        };
        Self { seed, runner: runner_of(seed, 1) }
    }

    /// One more value.
    pub(crate) fn draw<S: Strategy>(&mut self, strategy: &S) -> S::Value {
        draw(&mut self.runner, strategy)
    }

    /// Runs a test for so many values by the same seed.
    pub(crate) fn runner(&self, cases: u32) -> TestRunner {
        runner_of(self.seed, cases)
    }
}

impl Drop for Draws {
    #[allow(clippy::print_stderr, reason = "whoever runs the test is to know")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("PROPTEST_RNG_SEED={} makes the same calls", self.seed);
        }
    }
}

fn runner_of(seed: u64, cases: u32) -> TestRunner {
    let rng_seed = RngSeed::Fixed(seed);
    TestRunner::new(Config { cases, rng_seed, failure_persistence: None, ..Config::default() })
}

fn draw<S: Strategy>(runner: &mut TestRunner, strategy: &S) -> S::Value {
    strategy.new_tree(runner).unwrap().current()
}
