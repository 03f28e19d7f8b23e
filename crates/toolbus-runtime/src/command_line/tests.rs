//! What is written about a small program.

use std::process::Command as Process;

use clap::{CommandFactory as _, Subcommand};

use super::*;

/// Talks with a person.
#[derive(Debug, Parser)]
#[command(name = "program", version)]
struct Arguments {
    /// How loud
    #[arg(long, global = true)]
    volume: Option<u8>,
    #[command(subcommand)]
    command: Option<Own>,
}

#[derive(Debug, PartialEq, Subcommand)]
enum Own {
    /// Says it
    Say { text: String },
    /// Asks it
    Ask,
}

fn request(line: &[&str]) -> Result<Request<Arguments>, clap::Error> {
    parse([&["program"], line].concat().into_iter().map(OsString::from))
}

#[test]
fn the_work_of_a_program_goes_before_its_documents() {
    let Ok(Request::Work(arguments)) = request(&["say", "hello", "--volume", "3"]) else {
        panic!("it is work")
    };
    assert_eq!(arguments.command, Some(Own::Say { text: "hello".to_owned() }));
    assert_eq!(arguments.volume, Some(3));

    let Ok(Request::Work(arguments)) = request(&[]) else { panic!("it is work") };
    assert_eq!(arguments.command, None);

    let documents = request(&["completions", "zsh"]);
    let is_of_zsh =
        matches!(documents, Ok(Request::Documents(Documents::Completions { shell: Shell::Zsh })));
    assert!(is_of_zsh, "{documents:?}");
    let error = request(&["completions", "cmd"]).unwrap_err().to_string();
    assert!(error.contains("bash, elvish, fish, powershell, zsh"), "{error}");
}

#[test]
fn the_help_is_that_of_the_program() {
    let help = request(&["--help"]).unwrap_err();
    assert!(!help.use_stderr());
    let help = help.to_string();
    assert!(help.starts_with("Talks with a person\n"), "{help}");
    assert!(help.contains("completions  Print completions"), "{help}");
    assert!(!help.contains("  man "), "{help}");
}

#[test]
fn every_shell_has_completions_of_every_command() {
    for shell in [Shell::Bash, Shell::Elvish, Shell::Fish, Shell::PowerShell, Shell::Zsh] {
        let script = String::from_utf8(completions::<Arguments>(shell)).unwrap();
        for subcommand in Arguments::command().get_subcommands() {
            assert!(script.contains(subcommand.get_name()), "{shell}: {script}");
        }
    }
}

#[test]
fn bash_completes_a_command() {
    let script = String::from_utf8(completions::<Arguments>(Shell::Bash)).unwrap();
    let check = |word: &str, expected: &str| {
        let ask = format!(
            "{script}\nCOMP_WORDS=(program {word}); COMP_CWORD=1\n\
             _program program {word} program; echo \"${{COMPREPLY[*]}}\""
        );
        let output = Process::new("bash").args(["--norc", "-c", &ask]).output().unwrap();
        let replied = String::from_utf8_lossy(&output.stdout);
        assert_eq!(replied.trim(), expected, "{}", String::from_utf8_lossy(&output.stderr));
    };
    check("sa", "say");
    check("comp", "completions");
    check("--vol", "--volume");
}

#[test]
fn there_is_a_page_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("man1");
    write_pages::<Arguments>(&made).unwrap();

    let mut pages: Vec<_> = std::fs::read_dir(&made)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    // The one that writes them is hidden.
    assert_eq!(pages, ["program-ask.1", "program-completions.1", "program-say.1", "program.1"]);

    let page = std::fs::read_to_string(made.join("program.1")).unwrap();
    assert!(page.contains("\n.TH program 1 "), "{page}");
    assert!(page.contains("program\\-say(1)"), "{page}");
}
