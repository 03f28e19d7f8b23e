//! Every target takes the inputs that it begins with, those that a fuzzer kept, and changes of
//! both.

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use fuzz::{INPUT_BYTES_MAX, TARGETS, Target};

/// Changed inputs of each input.
const CHANGES: u64 = 8;
/// Most inputs of a target that are changed: the first ones, which are the shortest.
const CHANGED_MAX: usize = 100;

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 1).expect("63 bits") % end.max(1)
    }

    /// An input that differs from this one in one place: a byte, a part that is missing, that is
    /// there twice, or that is from another input.
    fn change(&mut self, input: &[u8], other: &[u8]) -> Vec<u8> {
        let from = self.below(input.len() + 1);
        let to = from + self.below((input.len() - from).min(32) + 1);
        let mut changed = input.to_vec();

        match self.below(4) {
            0 if from < input.len() => {
                changed[from] = u8::try_from(self.below(256)).expect("a byte")
            }
            1 => drop(changed.drain(from..to)),
            2 => drop(changed.splice(from..from, input[from..to].to_vec())),
            _ => {
                let begin = self.below(other.len() + 1);
                let end = begin + self.below((other.len() - begin).min(64) + 1);
                drop(changed.splice(from..to, other[begin..end].to_vec()));
            }
        }
        changed.truncate(INPUT_BYTES_MAX);
        changed
    }
}

/// Runs a target, and says how many inputs it took.
fn replay(target: &Target) -> usize {
    let inputs = target.inputs();
    let take = |input: &[u8]| {
        let taken = catch_unwind(|| (target.run)(input));
        assert!(taken.is_ok(), "{} fails on {}", target.name, input.escape_ascii());
    };
    inputs.iter().for_each(|input| take(input));

    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut count = inputs.len();
    for input in inputs.iter().take(CHANGED_MAX) {
        for _ in 0..CHANGES {
            let other = &inputs[numbers.below(inputs.len())];
            take(&numbers.change(input, other));
            count += 1;
        }
    }
    count
}

#[test]
fn every_target_takes_what_was_kept_and_changes_of_it() {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(target) = TARGETS.get(next.fetch_add(1, Ordering::Relaxed)) {
            let count = replay(target);
            println!("{}: {count} inputs", target.name);
        }
    };

    thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        for worker in workers {
            worker.join().expect("no target fails");
        }
    });
}

#[test]
fn every_target_has_a_name_of_its_own_and_inputs() {
    let mut names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), TARGETS.len());
    for target in TARGETS {
        assert!(!target.inputs().is_empty(), "{} begins with nothing", target.name);
    }
}
