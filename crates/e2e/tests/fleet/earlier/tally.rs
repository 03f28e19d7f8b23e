//! Compares the results that callers received with the effects of their calls.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Value, json};

/// Variable with the folder for the totals of the tests.
const TALLIES: &str = "TOOLBUS_TEST_EARLIER_TALLIES";

/// Time in milliseconds during which calls may fail after a kill: the broker must notice the lost
/// connection, and another program must start the servers of the killed one.
const AFTER_KILL_MS: i64 = 15_000;

/// Number of times that an effect started and ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Effect {
    pub(super) starts: u64,
    pub(super) ends: u64,
}

/// Counts the effects in a ledger by number. Its lines are `start CALL` and `end CALL`.
pub(super) fn count_effects<'a>(
    lines: impl IntoIterator<Item = &'a str>,
) -> BTreeMap<String, Effect> {
    let mut effects: BTreeMap<String, Effect> = BTreeMap::new();
    for line in lines {
        let (event, call) = line.split_once(' ').expect("an event and a call");
        let effect = effects.entry(call.to_owned()).or_default();
        match event {
            "start" => effect.starts += 1,
            _ => effect.ends += 1,
        }
    }
    effects
}

/// Result of a call as its caller received it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// The call succeeded.
    Done,
    /// The call did not start.
    NotStarted,
    /// The call may have run.
    Unknown,
}

/// An ended call, as its caller saw it.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    pub(super) call: String,
    pub(super) told: Told,
    /// Error code or state in the result.
    pub(super) why: String,
    /// Time span in which the caller waited, in milliseconds since 1970.
    pub(super) span_ms: (i64, i64),
}

/// Totals of a test, which are a row of a table.
#[derive(Debug, Default, Serialize)]
pub(super) struct Tally {
    calls: u64,
    done: u64,
    not_started: u64,
    unknown: u64,
    /// Successful calls without an effect, and failed calls while every program was up.
    lost: Vec<String>,
    /// Effects that started more than once, or whose calls were reported as not started.
    twice: Vec<String>,
}

impl Tally {
    /// Compares results with effects. Only calls that were open while a program was killed or away
    /// may fail; `away_ms` are the beginnings and ends of these times.
    pub(super) fn of(
        ended: &[Ended],
        effects: &BTreeMap<String, Effect>,
        away_ms: &[(i64, i64)],
    ) -> Self {
        let mut tally = Self::default();
        for one in ended {
            let effect = effects.get(&one.call).copied().unwrap_or_default();
            let (from, to) = one.span_ms;
            // A kill may also cause the failure of a later call without an effect.
            let from = if effect.starts == 0 { from - AFTER_KILL_MS } else { from };
            let may_fail = away_ms.iter().any(|(start, end)| from <= *end && *start <= to);
            tally.calls += 1;
            let is_whole = match one.told {
                Told::Done => {
                    tally.done += 1;
                    effect == Effect { starts: 1, ends: 1 }
                }
                Told::NotStarted => {
                    tally.not_started += 1;
                    may_fail
                }
                Told::Unknown => {
                    tally.unknown += 1;
                    may_fail
                }
            };

            let Ended { call, told, why, span_ms } = one;
            let describe = || format!("{call}: {told:?} ({why}) in {span_ms:?}, {effect:?}");
            if !is_whole && effect.starts <= 1 {
                tally.lost.push(describe());
            }
            if effect.starts > 1 || (one.told == Told::NotStarted && effect.starts > 0) {
                tally.twice.push(describe());
            }
        }
        // Effects of calls whose callers received no result, such as killed callers.
        let told: Vec<_> = ended.iter().map(|one| &*one.call).collect();
        let others = effects.iter().filter(|(call, _)| !told.contains(&call.as_str()));
        let twice = others.filter(|(_, effect)| effect.starts > 1);
        tally.twice.extend(twice.map(|(call, effect)| format!("{call}: {effect:?}")));
        tally
    }

    /// Writes the totals, and fails if a call was lost or ran twice.
    pub(super) fn check(&self, name: &str) {
        if let Some(folder) = std::env::var_os(TALLIES) {
            let path = Path::new(&folder).join(format!("{name}.json"));
            std::fs::write(path, json!(self).to_string()).unwrap();
        }
        assert!(self.done > 0, "{self:#?}");
        assert!(self.lost.is_empty() && self.twice.is_empty(), "{self:#?}");
    }
}

/// Returns the current time in milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// Parses the output of `agent-host invoke --json` for a call whose text is `CALL: done`. Returns
/// the result of the caller and its reason.
pub(super) fn read_outcome(printed: &str, call: &str) -> (Told, String) {
    let printed: Value = serde_json::from_str(printed).unwrap_or_default();
    if printed["isError"] == false {
        let content = printed["content"].as_str().unwrap_or_default();
        let is_its = content.trim_end() == format!("{call}: done");
        return (if is_its { Told::Done } else { Told::Unknown }, content.to_owned());
    }
    let told = match printed["error"]["execution"] == "not_started" {
        true => Told::NotStarted,
        false => Told::Unknown,
    };
    (told, printed["error"].to_string())
}
