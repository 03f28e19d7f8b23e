//! The help as a person reads it, and what each option sets.

use clap::{Parser, Subcommand};
use insta::assert_snapshot;

use super::*;

/// A service.
#[derive(Debug, Parser)]
#[command(name = "service", term_width = 100)]
struct Arguments {
    #[command(flatten)]
    common: CommonArguments,
    #[command(flatten)]
    member: MemberArguments,
    #[command(flatten)]
    service: ServiceArguments,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Does one thing
    Once {
        /// How
        #[arg(long)]
        json: bool,
    },
}

fn parsed(arguments: &[&str]) -> Arguments {
    Arguments::try_parse_from([&["service"], arguments].concat()).unwrap()
}

fn help_of(arguments: &[&str]) -> String {
    let line = [&["service"], arguments, &["--help"]].concat();
    Arguments::try_parse_from(line).unwrap_err().to_string()
}

#[test]
fn the_help_names_the_variable_of_each_option() {
    assert_snapshot!(help_of(&[]), @r#"
    A service

    Usage: service [OPTIONS] [COMMAND]

    Commands:
      once  Does one thing
      help  Print this message or the help of the given subcommand(s)

    Options:
          --bus <URL>         Broker to join, such as amqp://user:password@host:5672, or the URLs of its
                              nodes with commas between [env: TOOLBUS_BUS]
          --name <NAME>       Name of this instance [env: TOOLBUS_NAME]
          --health <ADDRESS>  Where to serve /healthz, /readyz and /status, such as 127.0.0.1:8080 [env:
                              TOOLBUS_HEALTH]
          --probe             Ask the running process of the same settings whether it is ready, by its
                              health port, and exit: 0 when it is. For the health checks of containers
      -h, --help              Print help

    Global options:
          --config <FILE>  Settings file; without it toolbus.toml of the current folder, where there is
                           one [env: TOOLBUS_CONFIG]
          --log <FILTER>   What to log: a level, or directives such as info,toolbus_bus=debug [env:
                           TOOLBUS_LOG]
      -q, --quiet          Say nothing on standard error but errors: no progress, no warnings, and of
                           the log only errors
          --print-config   Print the effective settings and where each comes from, secrets masked, and
                           exit
    "#);
}

#[test]
fn a_command_that_ends_does_not_list_what_means_nothing_to_it() {
    assert_snapshot!(help_of(&["once"]), @r#"
    Does one thing

    Usage: service once [OPTIONS]

    Options:
          --json  How
      -h, --help  Print help

    Global options:
          --config <FILE>  Settings file; without it toolbus.toml of the current folder, where there is
                           one [env: TOOLBUS_CONFIG]
          --log <FILTER>   What to log: a level, or directives such as info,toolbus_bus=debug [env:
                           TOOLBUS_LOG]
      -q, --quiet          Say nothing on standard error but errors: no progress, no warnings, and of
                           the log only errors
          --print-config   Print the effective settings and where each comes from, secrets masked, and
                           exit
    "#);
    let Some(Command::Once { json: true }) = parsed(&["once", "--json"]).command else {
        panic!("--json is its own")
    };
}

#[test]
fn options_become_settings() {
    let settings = |arguments: &Arguments| {
        let Arguments { common, member, service, .. } = arguments;
        let all = [common.settings(), member.settings(), service.settings()].concat();
        let mut origins: Vec<String> = all.iter().map(|setting| format!("{setting:?}")).collect();
        origins.sort();
        origins
    };
    assert!(settings(&parsed(&[])).is_empty());

    let all = parsed(&[
        "--bus=amqp://u:hunter2@h",
        "--health=:8080",
        "--name=one",
        "--log=debug",
        "--print-config",
    ]);
    assert!(all.common.print_config);
    assert_eq!(settings(&all).len(), 4);
    assert!(!format!("{all:?}").contains("hunter2"));
}

#[test]
fn quiet_means_errors_only_wherever_it_stands() {
    for line in [&["-q", "once"], &["once", "--quiet"]] {
        let common = parsed(line).common;
        assert!(common.quiet);
        let [filter] = &common.settings()[..] else { panic!("one setting") };
        let filter = format!("{filter:?}");
        assert!(filter.contains("log.filter") && filter.contains("error"), "{filter}");
    }
    assert!(Arguments::try_parse_from(["service", "--quiet", "--log=debug"]).is_err());
}

#[test]
fn the_file_is_the_one_named_last() {
    let environment =
        |path: &str| Environment::from_iter([("TOOLBUS_CONFIG".to_owned(), path.to_owned())]);
    let check = |arguments: &[&str], variable: &str, expected: SettingsFile| {
        assert_eq!(parsed(arguments).common.file(&environment(variable)), expected);
    };
    let required = |path: &str, named_by| SettingsFile::Required { path: path.into(), named_by };
    check(&[], "", SettingsFile::IfPresent("toolbus.toml".into()));
    check(&[], "a.toml", required("a.toml", "TOOLBUS_CONFIG"));
    check(&["--config=b.toml"], "a.toml", required("b.toml", "--config"));
}
