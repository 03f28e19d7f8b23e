//! The help as a person reads it, and what each option sets.

use clap::Parser;
use insta::assert_snapshot;

use super::*;

/// A service.
#[derive(Debug, Parser)]
#[command(name = "service", term_width = 100)]
struct Arguments {
    #[command(flatten)]
    common: CommonArguments,
}

fn parsed(arguments: &[&str]) -> CommonArguments {
    Arguments::try_parse_from([&["service"], arguments].concat()).unwrap().common
}

#[test]
fn the_help_names_the_variable_of_each_option() {
    let help = Arguments::try_parse_from(["service", "--help"]).unwrap_err().to_string();
    assert_snapshot!(help, @r#"
    A service

    Usage: service [OPTIONS]

    Options:
          --bus <URL>         Broker to join, such as amqp://user:password@host:5672, or the URLs of its
                              nodes with commas between [env: TOOLBUS_BUS]
          --config <FILE>     Settings file; without it toolbus.toml of the current folder, where there
                              is one [env: TOOLBUS_CONFIG]
          --health <ADDRESS>  Where to serve /healthz, /readyz and /status, such as 127.0.0.1:8080 [env:
                              TOOLBUS_HEALTH]
          --name <NAME>       Name of this instance [env: TOOLBUS_NAME]
          --log <FILTER>      What to log: a level, or directives such as info,toolbus_bus=debug [env:
                              TOOLBUS_LOG]
          --probe             Ask the running process of the same settings whether it is ready, by its
                              health port, and exit: 0 when it is. For the health checks of containers
          --print-config      Print the effective settings and where each comes from, secrets masked,
                              and exit
      -h, --help              Print help
    "#);
}

#[test]
fn options_become_settings() {
    assert!(parsed(&[]).settings().is_empty());
    let all = parsed(&[
        "--bus=amqp://u:hunter2@h",
        "--health=:8080",
        "--name=one",
        "--log=debug",
        "--print-config",
    ]);
    assert!(all.print_config);
    assert_eq!(all.settings().len(), 4);
    assert!(!format!("{all:?}").contains("hunter2"));
}

#[test]
fn the_file_is_the_one_named_last() {
    let environment =
        |path: &str| Environment::from_iter([("TOOLBUS_CONFIG".to_owned(), path.to_owned())]);
    let check = |arguments: &[&str], variable: &str, expected: SettingsFile| {
        assert_eq!(parsed(arguments).file(&environment(variable)), expected);
    };
    let required = |path: &str, named_by| SettingsFile::Required { path: path.into(), named_by };
    check(&[], "", SettingsFile::IfPresent("toolbus.toml".into()));
    check(&[], "a.toml", required("a.toml", "TOOLBUS_CONFIG"));
    check(&["--config=b.toml"], "a.toml", required("b.toml", "--config"));
}
