//! Scenarios that are in no table: which they are, and why they are not run, in words.

use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use super::differences::Surprise;
use super::suite::Offered;
use super::{Kind, Ran};

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
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        let text = |value: &Value| value.as_str().map(str::to_owned).context("a text is missing");
        let read = |value: &Value| {
            let scenarios = value["scenarios"].as_array().context("scenarios are missing")?;
            let kind = Kind::ALL.into_iter().find(|kind| value["kind"] == kind.name());
            anyhow::Ok(Group {
                cause: text(&value["cause"])?,
                kind: kind.context("the kind is missing, or there is none such")?,
                scenarios: scenarios.iter().map(text).collect::<Result<_, _>>()?,
            })
        };
        let all = value.as_array().context("it is not a list")?;
        Ok(Self(all.iter().map(read).collect::<Result<_, _>>()?))
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
