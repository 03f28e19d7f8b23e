//! What is wrong with definitions: every mistake with its place, and what to write instead.

use std::fmt::Write as _;

use serde_json::{Value, json};
use toolbus_tools::CallError;

use crate::texts;

/// Most mistakes that are told one by one.
pub(crate) const TOLD_MAX: usize = 50;

/// Something wrong in a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// Which wisp, from 1.
    pub(crate) wisp: usize,
    /// Which step: its id, or its number where that is none.
    pub(crate) step: Option<String>,
    pub(crate) member: String,
    pub(crate) problem: String,
    pub(crate) instead: String,
}

/// All that is wrong with the definitions of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mistakes {
    pub(crate) told: Vec<Mistake>,
    /// How many there are beside those.
    pub(crate) more: usize,
}

impl Mistakes {
    pub(crate) fn add(&mut self, mistake: Mistake) {
        match self.told.len() {
            TOLD_MAX.. => self.more += 1,
            _ => self.told.push(mistake),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.told.is_empty()
    }
}

impl Mistake {
    fn describe(&self) -> String {
        let mut place = format!("wisp {}", self.wisp);
        if let Some(step) = &self.step {
            // Writing to a text never fails.
            let _ = write!(place, ", step {}", texts::quote(step));
        }
        let Self { member, problem, instead, .. } = self;
        format!("- {place}, `{}`: {problem}. {instead}", texts::one_line(member, 80))
    }

    fn to_json(&self) -> Value {
        json!({
            "wisp": self.wisp, "step": self.step, "member": self.member,
            "problem": self.problem, "instead": self.instead,
        })
    }
}

impl From<Mistakes> for CallError {
    fn from(mistakes: Mistakes) -> Self {
        let count = mistakes.told.len() + mistakes.more;
        let mut text = match count {
            1 => "Nothing was run: there is a mistake in the definitions.".to_owned(),
            _ => format!("Nothing was run: there are {count} mistakes in the definitions."),
        };
        for mistake in &mistakes.told {
            text.push('\n');
            text.push_str(&mistake.describe());
        }
        if mistakes.more > 0 {
            let _ = write!(text, "\n… and {} more", mistakes.more);
        }

        let told: Vec<_> = mistakes.told.iter().map(Mistake::to_json).collect();
        Self::invalid_arguments(text).with_details(json!({"mistakes": told}))
    }
}
