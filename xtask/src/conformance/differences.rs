//! The expected differences: which scenarios do not pass, and why, in words.

use std::fmt;
use std::path::Path;

use super::{ResultColumn, SuiteTarget, cause_list};

/// All of them, as their file has them.
#[derive(Debug)]
pub(super) struct Differences(Vec<Difference>);

/// Scenarios that do not pass for the same reason.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) cause: String,
    /// The era, or every era where it says none.
    era: Option<String>,
    place: String,
    /// Whether they ask for what the server does not have, which is nobody's fault.
    pub(super) lacks: bool,
    scenarios: Vec<String>,
}

/// A scenario that went otherwise than expected.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Surprise {
    what: String,
    errors: Vec<String>,
}

impl Differences {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        cause_list::read_list(path, Self::parse)
    }

    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let all = cause_list::parse_list(text, |entry| {
            Ok(Difference {
                cause: entry.text("cause")?,
                era: entry.optional_text("era")?,
                place: entry.text("place")?,
                lacks: entry.flag("lacks")?,
                scenarios: entry.scenarios()?,
            })
        })?;
        Ok(Self(all))
    }

    /// What a scenario of a column does not pass for, with its place in the list.
    pub(super) fn cause(
        &self,
        column: &ResultColumn,
        scenario: &str,
    ) -> Option<(usize, &Difference)> {
        self.0.iter().enumerate().find(|(_, difference)| {
            difference.is_of(column) && difference.scenarios.iter().any(|name| name == scenario)
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Difference> {
        self.0.iter()
    }

    /// What went otherwise than expected.
    pub(super) fn find_surprises(&self, columns: &[ResultColumn]) -> Vec<Surprise> {
        let mut surprises = Vec::new();
        for column in columns {
            for scenario in column.results.iter() {
                let expected = self.cause(column, &scenario.name).is_some();
                let what = match (scenario.passes, expected) {
                    (true, true) => "passes, and is listed as one that does not",
                    (false, false) => "does not pass",
                    _ => continue,
                };
                let era = column.era.version;
                let place = column.place.name();
                let what = format!("{era} {place}: {} {what}", scenario.name);
                surprises.push(Surprise { what, errors: scenario.errors.clone() });
            }
        }

        for difference in &self.0 {
            let its = |column: &&ResultColumn| difference.is_of(column);
            for name in &difference.scenarios {
                let has_it = |column: &ResultColumn| column.results.find(name).is_some();
                if !columns.iter().filter(its).any(has_it) {
                    let era = difference.era.as_deref().unwrap_or("every era");
                    let place = &difference.place;
                    let what = format!("{era} {place}: there is no scenario {name}");
                    surprises.push(Surprise::new(what));
                }
            }
        }

        surprises
    }
}

impl Difference {
    fn is_of(&self, column: &ResultColumn) -> bool {
        let era = self.era.as_deref();
        era.is_none_or(|era| era == column.era.version) && self.place == column.place.name()
    }

    /// Whose difference it is, for people.
    pub(super) fn of_what(&self) -> String {
        let place = SuiteTarget::ALL.into_iter().find(|place| place.name() == self.place);
        let place = place.map_or(self.place.as_str(), |place| place.title());
        match &self.era {
            Some(era) => format!("{place}, {era}"),
            None => place.to_owned(),
        }
    }
}

impl Surprise {
    pub(super) fn new(what: String) -> Self {
        Self { what, errors: Vec::new() }
    }
}

impl fmt::Display for Surprise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.errors.iter().try_for_each(|error| write!(f, "\n    {error}"))
    }
}
