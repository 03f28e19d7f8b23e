//! Scenarios that are in no table: which they are, and why they are not run, in words.

use std::path::Path;

use anyhow::Context as _;

use super::differences::Surprise;
use super::suite::Offered;
use super::{Kind, Ran, listed};

/// All of them, as their file has them.
#[derive(Debug)]
pub(super) struct LeftOut(Vec<Group>);

/// Scenarios that are not run for the same reason.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) cause: String,
    pub(super) kind: Kind,
    pub(super) scenarios: Vec<String>,
}

impl LeftOut {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        listed::read(path, Self::parse)
    }

    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let all = listed::parse(text, |entry| {
            let name = entry.text("kind")?;
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
            Ok(Group {
                cause: entry.text("cause")?,
                kind: kind.context("there is no such kind")?,
                scenarios: entry.scenarios()?,
            })
        })?;
        Ok(Self(all))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Group> {
        self.0.iter()
    }

    /// What is not run and not listed, and the other way round.
    pub(super) fn surprises(&self, ran: &Ran) -> Vec<Surprise> {
        let is_run = |offered: &Offered| {
            let mut columns = ran.columns.iter().filter(|c| c.place.kind() == offered.kind);
            columns.any(|column| column.results.find(&offered.name).is_some())
        };
        let not_run: Vec<_> = ran.offered.iter().filter(|offered| !is_run(offered)).collect();
        let listed = self.iter().flat_map(|group| {
            group.scenarios.iter().map(|name| Offered { kind: group.kind, name: name.clone() })
        });
        let listed: Vec<_> = listed.collect();
        let told = |offered: &Offered, what: &str| {
            Surprise::new(format!("{}: {} {what}", offered.kind.name(), offered.name))
        };
        let unlisted = not_run.iter().filter(|offered| !listed.contains(offered));
        let unlisted = unlisted.map(|offered| told(offered, "is not run, and nothing says why"));
        let wrong = listed.iter().filter(|offered| !not_run.contains(offered));
        let wrong = wrong.map(|offered| {
            told(offered, "is listed as one that is not run, and is run or not there")
        });
        unlisted.chain(wrong).collect()
    }
}
