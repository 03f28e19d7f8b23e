//! What callers were told of calls, compared with the effects that the calls had.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Value, json};

/// Names the folder that the sums of the tests are written to.
const TALLIES: &str = "TOOLBUS_TEST_EARLIER_TALLIES";

/// How long calls may be refused after a kill, in milliseconds: until the broker has noticed it and
/// another program has started the servers of the one that was killed.
const AFTER_KILL_MS: i64 = 15_000;

/// How often an effect began and ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Effect {
    pub(super) starts: u64,
    pub(super) ends: u64,
}

/// Counts the effects of a ledger by their numbers: its lines are `start CALL` and `end CALL`.
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

/// What a caller was told of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// It went well.
    Done,
    /// It was not started.
    NotStarted,
    /// It may have happened.
    Unknown,
}

/// A call that has ended, as its caller knows it.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    pub(super) call: String,
    pub(super) told: Told,
    /// The code or state that it was told with.
    pub(super) why: String,
    /// From when to when its caller waited, in milliseconds since 1970.
    pub(super) span_ms: (i64, i64),
}

/// The sum of a test, a row of a table.
#[derive(Debug, Default, Serialize)]
pub(super) struct Tally {
    calls: u64,
    done: u64,
    not_started: u64,
    unknown: u64,
    /// Calls that went well without their effect, and failures while every program was there.
    lost: Vec<String>,
    /// Effects that began more than once, or of calls that were told as not started.
    twice: Vec<String>,
}

impl Tally {
    /// Compares what callers were told with the effects. Only calls that were open while a program
    /// was killed or away may fail; `away_ms` are the beginnings and ends of these times.
    pub(super) fn of(
        ended: &[Ended],
        effects: &BTreeMap<String, Effect>,
        away_ms: &[(i64, i64)],
    ) -> Self {
        let mut tally = Self::default();
        for one in ended {
            let effect = effects.get(&one.call).copied().unwrap_or_default();
            let (from, to) = one.span_ms;
            // Without an effect, a call may also have met what a kill has left.
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
        // Effects of calls whose callers were told nothing, such as those that were killed.
        let told: Vec<_> = ended.iter().map(|one| &*one.call).collect();
        let others = effects.iter().filter(|(call, _)| !told.contains(&call.as_str()));
        let twice = others.filter(|(_, effect)| effect.starts > 1);
        tally.twice.extend(twice.map(|(call, effect)| format!("{call}: {effect:?}")));
        tally
    }

    /// Writes the sum down, and fails where something was lost or ran twice.
    pub(super) fn check(&self, name: &str) {
        if let Some(folder) = std::env::var_os(TALLIES) {
            let path = Path::new(&folder).join(format!("{name}.json"));
            std::fs::write(path, json!(self).to_string()).unwrap();
        }
        assert!(self.done > 0, "{self:#?}");
        assert!(self.lost.is_empty() && self.twice.is_empty(), "{self:#?}");
    }
}

/// The time now, in milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// Reads what `agent-host invoke --json` printed of a call whose text is `CALL: done`. Returns what
/// its caller was told, and why.
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
