//! The arguments of `cargo xtask test`.

use std::process::Command;

use anyhow::{Context as _, ensure};

/// A selection of tests, and options for nextest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TestOptions {
    /// Packages of which the tests run; empty for the whole workspace.
    pub(crate) packages: Vec<String>,
    /// The only package whose needs are met, in a run that builds the whole workspace.
    pub(crate) needs_of: Option<String>,
    /// Leaves out what needs a cluster, a container engine or a chaos run.
    pub(crate) is_quick: bool,
    /// Number of tests to list by duration after the run.
    pub(crate) slowest: usize,
    /// Arguments for nextest: filters and options.
    pub(crate) rest: Vec<String>,
    /// Environment variables for the tests.
    pub(crate) environment: Vec<(String, String)>,
}

impl TestOptions {
    /// Reads `[--quick] [--slowest N] [-p PACKAGE]... [ARGUMENTS OF nextest]`.
    pub(crate) fn parse(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut options = Self::default();
        let mut arguments = arguments.iter();

        while let Some(&argument) = arguments.next() {
            match argument {
                "--quick" => options.is_quick = true,
                "--workspace" | "--all" => options.packages.clear(),
                "--slowest" => {
                    let number = arguments.next().context("--slowest takes a number")?;
                    options.slowest = number.parse().context("--slowest takes a number")?;
                }
                "-p" | "--package" => {
                    let name = arguments.next().context("-p takes the name of a package")?;
                    options.packages.push((*name).to_owned());
                }
                "--" => {
                    options.rest.push(argument.to_owned());
                    options.rest.extend(arguments.by_ref().map(|one| (*one).to_owned()));
                }
                _ => match argument.strip_prefix("--package=").or(argument.strip_prefix("-p")) {
                    Some(name) => options.packages.push(name.to_owned()),
                    None => options.rest.push(argument.to_owned()),
                },
            }
        }

        ensure!(options.packages.iter().all(|name| !name.is_empty()), "-p takes a package's name");
        Ok(options)
    }

    /// Selects one test program, as it is built with the whole workspace. A build of its package
    /// alone has other features, and would compile what it depends on again.
    pub(crate) fn of_suite(suite: &str) -> Self {
        let package = suite.split("::").next().unwrap_or(suite);
        Self {
            needs_of: Some(package.to_owned()),
            rest: vec!["-E".to_owned(), format!("binary_id({suite})")],
            ..Self::default()
        }
    }

    /// Selects tests of a package that other runs exclude, by a nextest filter. Without a cluster,
    /// the run does not start a container engine either.
    pub(crate) fn of_left_out(
        package: &str,
        filter: &str,
        has_cluster: bool,
        environment: Vec<(String, String)>,
    ) -> Self {
        let rest = ["--ignore-default-filter", "-E", filter].map(str::to_owned).to_vec();
        Self {
            needs_of: Some(package.to_owned()),
            is_quick: !has_cluster,
            rest,
            environment,
            ..Self::default()
        }
    }

    /// True if the tests of the package can be among those that run.
    pub(crate) fn needs_package(&self, name: &str) -> bool {
        match &self.needs_of {
            Some(only) => only == name,
            None => self.packages.is_empty() || self.packages.iter().any(|one| one == name),
        }
    }

    /// True if doctests are part of the selection: they are not when the arguments filter tests.
    pub(crate) fn has_doctests(&self) -> bool {
        self.rest.is_empty()
    }

    /// Adds the selected packages to a command of cargo or nextest.
    pub(crate) fn select_packages(&self, command: &mut Command) {
        if self.packages.is_empty() {
            command.arg("--workspace");
        }
        for package in &self.packages {
            command.args(["--package", package]);
        }
    }
}
