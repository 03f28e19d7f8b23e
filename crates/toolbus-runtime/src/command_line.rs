//! From the command line to the exit code, and what every program can do beside its work: print its
//! completions for a shell, and write its manual pages.
//!
//! Both are made from the built program alone, so that a package of it needs nothing else.

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Command, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::report;
use crate::service::Exit;

// What every program can do beside its work. No comment of documentation: it would be taken for
// what the program itself is about.
#[derive(Debug, Subcommand)]
enum Documents {
    /// Print completions for a shell
    ///
    /// For example, in ~/.bashrc: source <(PROGRAM completions bash); for zsh into a file _PROGRAM
    /// of a folder of $fpath; for fish into ~/.config/fish/completions/PROGRAM.fish.
    Completions {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Write the manual pages, one for each command, into a folder
    // Hidden: it is for who makes packages.
    #[command(hide = true)]
    Man {
        /// The folder; it is made where it is missing
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
}

/// Runs a program whose arguments are an `A`: `work`, unless something else is asked for.
pub fn run<A: Parser>(work: impl FnOnce(A) -> Exit) -> Exit {
    match parse::<A>(std::env::args_os()) {
        Ok(Request::Work(arguments)) => work(arguments),
        Ok(Request::Documents(documents)) => documents.write::<A>(),
        Err(error) => {
            // Help and the version come here too. Whoever closed the stream wants no more of it.
            let _ = error.print();
            if error.use_stderr() { Exit::MISUSE } else { Exit::SUCCESS }
        }
    }
}

/// The command line of a program whose arguments are an `A`, with what every program can do.
#[must_use]
pub fn command<A: Parser>() -> Command {
    Documents::augment_subcommands(A::command())
}

/// What a command line asks for.
#[derive(Debug)]
enum Request<A> {
    Work(A),
    Documents(Documents),
}

fn parse<A: Parser>(line: impl IntoIterator<Item = OsString>) -> Result<Request<A>, clap::Error> {
    let mut command = command::<A>();
    let mut matches = command.try_get_matches_from_mut(line)?;
    let is_ours = matches.subcommand_name().is_some_and(Documents::has_subcommand);
    let request = if is_ours {
        Documents::from_arg_matches_mut(&mut matches).map(Request::Documents)
    } else {
        A::from_arg_matches_mut(&mut matches).map(Request::Work)
    };
    request.map_err(|error| error.format(&mut command))
}

impl Documents {
    fn write<A: Parser>(self) -> Exit {
        match self {
            Self::Completions { shell } => {
                // Whoever closed our standard output wants no more of it.
                let _ = io::stdout().write_all(&completions::<A>(shell));
                Exit::SUCCESS
            }
            Self::Man { folder } => match write_pages::<A>(&folder) {
                Ok(()) => Exit::SUCCESS,
                Err(error) => {
                    let folder = folder.display();
                    report::print_error(format_args!("cannot write into {folder}: {error}"));
                    Exit::FAILURE
                }
            },
        }
    }
}

fn completions<A: Parser>(shell: Shell) -> Vec<u8> {
    let mut command = command::<A>();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    script
}

fn write_pages<A: Parser>(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(command::<A>(), folder)
}
