//! The project's own tasks, run as `cargo xtask NAME`. Only chooses the task; each has its file.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool of the terminal")]

mod bench;
mod ci;
mod cluster;
mod conformance;
mod keeper;
mod real_parts;
mod soak;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = include_str!("usage.txt");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["test", rest @ ..] => test::run(rest),
        ["bench", name] => bench::run(name, bench::Table::Show),
        ["bench", name, "--keep"] => bench::run(name, bench::Table::Keep),
        ["soak", "scripts", rest @ ..] => soak::scripts(rest),
        ["conformance"] => conformance::run(conformance::Table::Compare),
        ["conformance", "--keep"] => conformance::run(conformance::Table::Keep),
        ["tidy"] => tidy::run(tidy::Pending::Count),
        ["tidy", "--strict"] => tidy::run(tidy::Pending::List),
        ["tidy", "--figures"] => tidy::print_figures(),
        ["ci"] => ci::run(),
        // Not for people: how cargo starts a test program.
        ["run-program", program, rest @ ..] => cluster::run_program(program, rest),
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
