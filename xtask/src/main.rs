//! The project's own tasks, run as `cargo xtask NAME`. Only chooses the task; each has its file.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool of the terminal")]

mod accept;
mod bench;
mod ci;
mod clean;
mod cluster;
mod conformance;
mod kept_process;
mod real_parts;
mod size;
mod test_run;
mod tidy;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = include_str!("usage.txt");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if arguments.iter().take_while(|one| **one != "--").any(|one| *one == "--help") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }

    let outcome = match arguments.as_slice() {
        ["test", rest @ ..] => test_run::run_and_print_sum(rest),
        ["bench", name, rest @ ..] => bench::run_benchmark(name, rest),
        ["conformance", rest @ ..] => conformance::build_and_run(rest),
        ["tidy"] => tidy::run_checks(),
        ["tidy", "--figures"] => tidy::print_figures(),
        ["accept", name, rest @ ..] => accept::run(name, rest),
        ["size", rest @ ..] => size::run(rest),
        ["clean", rest @ ..] => clean::run(rest),
        ["ci"] => ci::run_all_parts(),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };

    outcome.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}
