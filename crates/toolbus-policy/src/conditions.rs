//! The conditions of a rule or a limit, read from settings.

use std::ops::RangeInclusive;

use toolbus_tools::Door;
use toolbus_tools::id::SERVER_PROVIDER_PREFIX;
use toolbus_tools::tool::Risk;

use crate::glob::Glob;
use crate::mistake::Reporter;
use crate::principal::PrincipalPattern;
use crate::settings::ConditionSettings;

/// How many globs one condition may have.
pub(crate) const GLOBS_MAX: usize = 64;

/// What all has to hold of a call. `None` holds of every call.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) doors: Option<Vec<Door>>,
    pub(crate) principals: Option<Vec<PrincipalPattern>>,
    pub(crate) agents: Option<Vec<Glob>>,
    pub(crate) sessions: Option<Vec<Glob>>,
    pub(crate) tools: Option<Vec<Glob>>,
    pub(crate) risk: Option<Risk>,
    pub(crate) read_only: Option<bool>,
    pub(crate) idempotent: Option<bool>,
    pub(crate) destructive: Option<bool>,
}

/// A bit set of all combinations of the properties of calls other than names: door, risk, and the
/// three annotations. There are 256, half of them for tools that are destructive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cells([u128; 2]);

impl Cells {
    /// Returns true if the set contains all of these combinations.
    pub(crate) fn has_all(self, others: Self) -> bool {
        self.0.iter().zip(others.0).all(|(own, other)| own & other == other)
    }

    /// Returns true if the set contains any of these combinations.
    pub(crate) fn has_any(self, others: Self) -> bool {
        self.0.iter().zip(others.0).any(|(own, other)| own & other != 0)
    }

    /// Returns the combinations that are not in `others`.
    pub(crate) fn without(self, others: Self) -> Self {
        Self([self.0[0] & !others.0[0], self.0[1] & !others.0[1]])
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl Conditions {
    /// Reads what an operator has written, and reports what is wrong with it.
    pub(crate) fn read(settings: &ConditionSettings<'_>, reporter: &mut Reporter<'_>) -> Self {
        let principals = settings.principals.map(|texts| {
            read_list("principals", texts, reporter, |text| {
                PrincipalPattern::parse(text).map_err(|error| error.to_string())
            })
        });
        let mut globs =
            |member, texts: Option<&[String]>, check: fn(&str) -> Result<(), String>| {
                texts.map(|texts| {
                    read_list(member, texts, reporter, |text| {
                        let glob = Glob::parse(text).map_err(|error| error.to_string())?;
                        check(text).map(|()| glob)
                    })
                })
            };

        let agents = globs("agents", settings.agents, check_agent);
        let sessions = globs("sessions", settings.sessions, check_session);
        let tools = globs("tools", settings.tools, check_tool);
        // Every call has a principal, an agent and a tool, but not every one has a session.
        let principals = principals.filter(|all| !all.contains(&PrincipalPattern::Anybody));
        let agents = agents.filter(|all| !all.iter().any(Glob::is_any));
        let tools = tools.filter(|all| !all.iter().any(Glob::is_any));
        if settings.doors.is_some_and(<[Door]>::is_empty) {
            reporter.add("doors", EMPTY_LIST);
        }

        Self {
            doors: settings.doors.map(<[Door]>::to_vec),
            principals,
            agents,
            sessions,
            tools,
            risk: settings.risk,
            read_only: settings.read_only,
            idempotent: settings.idempotent,
            destructive: settings.destructive,
        }
    }

    /// How many patterns there are.
    pub(crate) fn pattern_count(&self) -> usize {
        let globs = [&self.agents, &self.sessions, &self.tools];
        let globs = globs.into_iter().flatten().map(Vec::len).sum::<usize>();
        globs + self.principals.as_ref().map_or(0, Vec::len)
    }

    /// Whether calls of this door meet the condition on doors.
    pub(crate) fn has_door(&self, door: Door) -> bool {
        self.doors.as_ref().is_none_or(|doors| doors.contains(&door))
    }

    /// The combinations of door, risk and annotations that meet the conditions on them.
    pub(crate) fn cells(&self) -> Cells {
        let mut of_flags = 0_u128;
        for door in Door::ALL.into_iter().filter(|door| self.has_door(*door)) {
            for risk in least_risk(self.risk) {
                for flags in 0..4_usize {
                    let (read_only, idempotent) = (flags & 1 == 1, flags & 2 == 2);
                    if self.read_only.is_none_or(|wanted| wanted == read_only)
                        && self.idempotent.is_none_or(|wanted| wanted == idempotent)
                    {
                        of_flags |= 1 << (door.position() * 16 + risk * 4 + flags);
                    }
                }
            }
        }

        let has = |destructive: bool| self.destructive.is_none_or(|wanted| wanted == destructive);
        Cells([false, true].map(|destructive| if has(destructive) { of_flags } else { 0 }))
    }
}

/// The ranks of risks that are at least this one.
pub(crate) fn least_risk(risk: Option<Risk>) -> RangeInclusive<usize> {
    risk.map_or(0, |risk| risk as usize)..=Risk::Critical as usize
}

const EMPTY_LIST: &str = "an empty list would match nothing; leave it out to match everything";

fn read_list<T>(
    member: &str,
    texts: &[String],
    reporter: &mut Reporter<'_>,
    read: impl Fn(&str) -> Result<T, String>,
) -> Vec<T> {
    match texts.len() {
        0 => reporter.add(member, EMPTY_LIST),
        count if count > GLOBS_MAX => {
            reporter.add(member, format!("{count} globs are more than {GLOBS_MAX}"));
        }
        _ => {}
    }

    let mut list = Vec::with_capacity(texts.len());
    for text in texts {
        match read(text) {
            Ok(pattern) => list.push(pattern),
            Err(error) => reporter.add(member, format!("the glob {text:?}: {error}")),
        }
    }
    list
}

/// Refuses what no agent is called.
fn check_agent(text: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-*".contains(c);
    refuse_others(text, is_allowed, "no agent's name has")
}

/// Refuses what no session is called.
fn check_session(text: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_alphanumeric() || "-_.:@+=~/*".contains(c);
    refuse_others(text, is_allowed, "no session's id has")
}

/// Refuses what would mean something in another kind of glob, and servers that are called nothing
/// of the kind.
fn check_tool(text: &str) -> Result<(), String> {
    refuse_others(text, |c| !"?[]{}\\".contains(c), "only `*` stands for other text, not")?;

    let server =
        text.strip_prefix(SERVER_PROVIDER_PREFIX).and_then(|rest| rest.split(['/', '*']).next());
    let Some(server) = server.filter(|server| **server != server.to_lowercase()) else {
        return Ok(());
    };
    let meant = text.replacen(server, &server.to_lowercase(), 1);
    Err(format!("servers are in lower case in the ids of their tools, did you mean {meant:?}?"))
}

fn refuse_others(text: &str, is_allowed: impl Fn(char) -> bool, why: &str) -> Result<(), String> {
    match text.chars().find(|c| !is_allowed(*c)) {
        Some(other) => Err(format!("{why} `{other}`")),
        None => Ok(()),
    }
}
