//! Results of a run that takes long, kept unit by unit, so that it can continue.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::workspace;

/// The results of one run at one commit, by the names of its units.
pub(super) struct Results {
    run: &'static str,
    commit: String,
    units: BTreeMap<String, Value>,
}

impl Results {
    /// Reads what the run has at the commit that is checked out. Results of another commit do not
    /// count.
    pub(super) fn read(run: &'static str) -> anyhow::Result<Self> {
        let commit = commit()?;
        let text = fs::read_to_string(path(run)?).unwrap_or_default();
        let stored: Value = serde_json::from_str(&text).unwrap_or_default();
        let units = match stored["commit"] == commit.as_str() {
            true => serde_json::from_value(stored["units"].clone()).unwrap_or_default(),
            false => BTreeMap::new(),
        };
        Ok(Self { run, commit, units })
    }

    pub(super) fn has(&self, unit: &str) -> bool {
        self.units.contains_key(unit)
    }

    /// The result of a unit; null where there is none.
    pub(super) fn get(&self, unit: &str) -> &Value {
        self.units.get(unit).unwrap_or(&Value::Null)
    }

    /// Adds the result of a unit and writes all of them.
    pub(super) fn record(&mut self, unit: &str, result: Value) -> anyhow::Result<()> {
        self.units.insert(unit.to_owned(), result);
        let stored = json!({"commit": self.commit, "units": self.units});
        let path = path(self.run)?;
        fs::write(&path, stored.to_string()).with_context(|| path.display().to_string())
    }
}

/// The file of a run's results.
fn path(run: &str) -> anyhow::Result<PathBuf> {
    let folder = workspace::target_folder()?.join("accept");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder.join(format!("{run}.json")))
}

/// The commit that is checked out.
pub(super) fn commit() -> anyhow::Result<String> {
    let mut describe = std::process::Command::new("git");
    describe.current_dir(workspace::root());
    let printed = workspace::read_output(describe.args(["describe", "--always", "--abbrev=12"]))?;
    Ok(printed.trim().to_owned())
}
