//! Scenarios that are in no table: which they are, and why they are not run, in words.

use std::path::Path;

use anyhow::Context as _;

use super::differences::Surprise;
use super::suite::OfferedScenario;
use super::{ScenarioKind, SuiteRun, cause_list};

/// All of them, as their file has them.
#[derive(Debug)]
pub(super) struct NotRunList(Vec<NotRunGroup>);

/// Scenarios that are not run for the same reason.
#[derive(Debug)]
pub(super) struct NotRunGroup {
    pub(super) cause: String,
    pub(super) kind: ScenarioKind,
    pub(super) scenarios: Vec<String>,
}

impl NotRunList {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        cause_list::read_list(path, Self::parse)
    }

    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let all = cause_list::parse_list(text, |entry| {
            let name = entry.text("kind")?;
            let kind = ScenarioKind::ALL.into_iter().find(|kind| kind.name() == name);
            Ok(NotRunGroup {
                cause: entry.text("cause")?,
                kind: kind.context("there is no such kind")?,
                scenarios: entry.scenarios()?,
            })
        })?;
        Ok(Self(all))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &NotRunGroup> {
        self.0.iter()
    }

    /// What is not run and not listed, and the other way round.
    pub(super) fn find_surprises(&self, ran: &SuiteRun) -> Vec<Surprise> {
        let is_run = |offered: &OfferedScenario| {
            let mut columns = ran.columns.iter().filter(|c| c.place.kind() == offered.kind);
            columns.any(|column| column.results.find(&offered.name).is_some())
        };

        let not_run: Vec<_> = ran.offered.iter().filter(|offered| !is_run(offered)).collect();
        let listed = self.iter().flat_map(|group| {
            group
                .scenarios
                .iter()
                .map(|name| OfferedScenario { kind: group.kind, name: name.clone() })
        });

        let listed: Vec<_> = listed.collect();
        let told = |offered: &OfferedScenario, what: &str| {
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
