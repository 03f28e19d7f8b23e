//! Scopes: who calls, for which session, within which budget, and seeing what.
//!
//! Every door makes one scope for whoever it lets in, and every call carries it. What a call starts
//! in turn runs in a child, which never has more than its parent.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use toolbus_wire::name::AgentName;

use crate::artifact::ArtifactReach;
use crate::budget::Budget;
use crate::id::{CallId, RunId, SessionId};
use crate::subject::Subject;
use crate::view::View;

/// How deep scopes may be nested: a chain in a chain in a turn, and so on.
pub const DEPTH_MAX: u8 = 16;

/// Where calls come in. Operators write it in kebab case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Door {
    /// The command line.
    CommandLine,
    /// A message on the bus.
    Bus,
    /// An MCP client.
    Mcp,
    /// The HTTP interface.
    Http,
    /// A turn of an agent.
    Turn,
    /// A schedule.
    Schedule,
    /// A program that a model wrote.
    Chain,
    /// The program that embeds the fleet.
    Embedded,
}

/// A set of doors, in the order in which calls first came through them. Equality ignores the order.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Door>", into = "Vec<Door>")]
pub struct DoorSet {
    /// A bit for each door, at its position.
    doors: u8,
    /// The positions of the doors, [`POSITION_BITS`] each, from the lowest bit on.
    order: u32,
}

/// No door has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no door has this name")]
pub struct UnknownDoor;

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// Its name, which means nothing without the proof.
    pub name: Arc<str>,
    /// How that is known.
    pub proof: Proof,
}

/// How it is known who a principal is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Proof {
    /// Nothing but its own word.
    Claimed,
    /// The broker checked the user that the message was sent by.
    Broker {
        /// The broker's user.
        user: Arc<str>,
    },
    /// It had a token that was checked.
    Token {
        /// Who gave the token out.
        issuer: Arc<str>,
        /// The id of the token or the client, which no later one gets, whatever its name. Rules go
        /// by names; what belongs to somebody goes by this. `None`: the issuer gives names to
        /// nobody else.
        id: Option<Arc<str>>,
    },
    /// It is whoever runs this process.
    Local,
}

/// The name of the rules for the calls of a scope. Not read yet: reserved for rate limits and
/// approvals.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RulesName(Arc<str>);

/// Who calls, and within which bounds.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The door that its calls came through last; `doors` contains it.
    pub door: Door,
    /// Every door that the calls came through, outermost first: the calls of a program that an MCP
    /// client starts came through `mcp` and `chain`. Child scopes inherit them.
    pub doors: DoorSet,
    /// Who calls.
    pub principal: Principal,
    /// The agent that it calls for.
    pub agent: AgentName,
    /// The namespace that the memory of its calls lives under.
    pub session: Option<SessionId>,
    /// What its calls belong to.
    pub run: RunId,
    /// The call that it is a child of.
    pub parent: Option<CallId>,
    /// How many scopes are above it.
    pub depth: u8,
    /// What it may spend.
    pub budget: Budget,
    /// What it may see.
    pub view: View,
    /// Which artifacts it may refer to.
    pub artifacts: ArtifactReach,
    /// Which rules hold for its calls. Not read yet: reserved for rate limits and approvals.
    pub rules: RulesName,
    /// Fires when all of it is over: every call in it and below it is cancelled.
    pub cancelled: CancellationToken,
    /// The token of the outermost scope, where this one is within another: what a call starts may
    /// outlive the chain that made the call, and not the work that the chain belongs to.
    pub outer: Option<CancellationToken>,
}

impl Door {
    /// Every door, in the order of their declaration.
    pub const ALL: [Self; 8] = [
        Self::CommandLine,
        Self::Bus,
        Self::Mcp,
        Self::Http,
        Self::Turn,
        Self::Schedule,
        Self::Chain,
        Self::Embedded,
    ];

    /// Its place in [`ALL`](Door::ALL).
    #[must_use]
    pub const fn position(self) -> usize {
        self as usize
    }

    /// Its name, as operators write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CommandLine => "command-line",
            Self::Bus => "bus",
            Self::Mcp => "mcp",
            Self::Http => "http",
            Self::Turn => "turn",
            Self::Schedule => "schedule",
            Self::Chain => "chain",
            Self::Embedded => "embedded",
        }
    }
}

/// Bits per door in `DoorSet::order`.
const POSITION_BITS: u32 = 3;

// Each door has a bit and a position.
const _: () = assert!(Door::ALL.len() <= u8::BITS as usize);
const _: () = assert!(Door::ALL.len() <= 1 << POSITION_BITS);

impl DoorSet {
    /// Creates a set of these doors, in this order.
    #[must_use]
    pub fn of(doors: &[Door]) -> Self {
        doors.iter().fold(Self::default(), |set, door| set.with(*door))
    }

    /// Returns the doors of both sets, those of this set first.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        let mut all = self;
        let mut place = 0;
        while place < other.count() {
            all = all.with(other.door_at(place));
            place += 1;
        }
        all
    }

    /// Whether the door is one of them.
    #[must_use]
    pub const fn contains(self, door: Door) -> bool {
        self.doors & (1 << door.position()) != 0
    }

    /// Iterates over the doors in order.
    pub fn iter(self) -> impl Iterator<Item = Door> {
        (0..self.count()).map(move |place| self.door_at(place))
    }

    const fn count(self) -> u32 {
        self.doors.count_ones()
    }

    const fn door_at(self, place: u32) -> Door {
        let position = (self.order >> (place * POSITION_BITS)) & ((1 << POSITION_BITS) - 1);
        Door::ALL[position as usize]
    }

    const fn with(self, door: Door) -> Self {
        if self.contains(door) {
            return self;
        }
        let position = (door as u32) << (self.count() * POSITION_BITS);
        Self { doors: self.doors | (1 << door.position()), order: self.order | position }
    }
}

impl PartialEq for DoorSet {
    fn eq(&self, other: &Self) -> bool {
        self.doors == other.doors
    }
}

impl Eq for DoorSet {}

impl Hash for DoorSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.doors.hash(state);
    }
}

impl From<Vec<Door>> for DoorSet {
    fn from(doors: Vec<Door>) -> Self {
        Self::of(&doors)
    }
}

impl From<DoorSet> for Vec<Door> {
    fn from(doors: DoorSet) -> Self {
        doors.iter().collect()
    }
}

impl FromStr for Door {
    type Err = UnknownDoor;

    fn from_str(name: &str) -> Result<Self, UnknownDoor> {
        Self::ALL.into_iter().find(|door| door.as_str() == name).ok_or(UnknownDoor)
    }
}

/// Reads the names of doors with commas between them. An empty text is no door.
impl FromStr for DoorSet {
    type Err = UnknownDoor;

    fn from_str(names: &str) -> Result<Self, UnknownDoor> {
        let names = names.split(',').filter(|_| !names.is_empty());
        let doors: Result<Vec<Door>, _> = names.map(|name| name.trim().parse()).collect();
        Ok(doors?.into())
    }
}

/// The names of the doors, with commas between them.
impl fmt::Display for DoorSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, door) in self.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{door}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for DoorSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Proof {
    /// The name of every kind of proof.
    pub const NAMES: [&str; 4] = ["claimed", "broker", "token", "local"];

    /// The name of its kind.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Broker { .. } => "broker",
            Self::Token { .. } => "token",
            Self::Local => "local",
        }
    }
}

impl Principal {
    /// Whoever runs this process.
    #[must_use]
    pub fn local() -> Self {
        Self { name: "local".into(), proof: Proof::Local }
    }

    /// Somebody who says to be this. What is too long for a name is cut off.
    #[must_use]
    pub fn claimed(name: &str) -> Self {
        let end = name.floor_char_boundary(crate::id::ID_BYTES_MAX);
        Self { name: name[..end].into(), proof: Proof::Claimed }
    }
}

impl RulesName {
    /// The rules of these words.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for RulesName {
    fn default() -> Self {
        Self::new("direct")
    }
}

impl Scope {
    /// A scope without a session, a limit or anything that it may not see.
    #[must_use]
    pub fn new(door: Door, principal: Principal, agent: AgentName) -> Self {
        Self {
            door,
            doors: DoorSet::of(&[door]),
            principal,
            agent,
            session: None,
            run: RunId::random(),
            parent: None,
            depth: 0,
            budget: Budget::unlimited(),
            view: View::all(),
            artifacts: ArtifactReach::default(),
            rules: RulesName::default(),
            cancelled: CancellationToken::new(),
            outer: None,
        }
    }

    /// The scope of whoever runs this process.
    #[must_use]
    pub fn local(agent: AgentName) -> Arc<Self> {
        Arc::new(Self::new(Door::CommandLine, Principal::local(), agent))
    }

    /// The same scope, with these doors added to those that its calls came through.
    #[must_use]
    pub fn through(self, doors: DoorSet) -> Self {
        Self { doors: self.doors.union(doors), ..self }
    }

    /// Adds doors that the calls came through before those of this scope.
    #[must_use]
    pub fn with_earlier_doors(self, doors: DoorSet) -> Self {
        Self { doors: doors.union(self.doors), ..self }
    }

    /// The same scope in this session.
    #[must_use]
    pub fn with_session(self, session: Option<SessionId>) -> Self {
        Self { session, ..self }
    }

    /// The same scope with this budget.
    #[must_use]
    pub fn with_budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// The same scope, seeing this.
    #[must_use]
    pub fn with_view(self, view: View) -> Self {
        Self { view, ..self }
    }

    /// The same scope under these rules.
    #[must_use]
    pub fn with_rules(self, rules: RulesName) -> Self {
        Self { rules, ..self }
    }

    /// Whether it sees what a call is about: that is in its view, and there for the principal.
    #[must_use]
    pub fn sees(&self, subject: &Subject) -> bool {
        self.view.sees(&subject.id) && subject.audience.has(&self.principal)
    }

    /// The chain whose calls these are, where it is one: its run and its call. Models number their
    /// calls alike in every run.
    #[must_use]
    pub fn chain(&self) -> Option<String> {
        let chain = self.parent.as_ref().filter(|_| self.door == Door::Chain)?;
        Some(format!("{}/{chain}", self.run.as_str()))
    }

    /// The scope of what a call starts: the same principal, session and run, the same budget and
    /// view, which the caller may narrow, and cancelled with this one. `None` when scopes are
    /// nested too deep already.
    #[must_use]
    pub fn child(&self, door: Door, parent: &CallId) -> Option<Self> {
        let depth = self.depth.checked_add(1).filter(|depth| *depth <= DEPTH_MAX)?;

        Some(Self {
            door,
            doors: self.doors.union(DoorSet::of(&[door])),
            parent: Some(parent.clone()),
            depth,
            cancelled: self.cancelled.child_token(),
            outer: Some(self.outer.as_ref().unwrap_or(&self.cancelled).clone()),
            ..self.clone()
        })
    }

    /// The same scope for work that goes on when this one is over: it is cancelled with the
    /// outermost scope that this one is within, and is the outermost of what it starts itself.
    #[must_use]
    pub fn outliving(self) -> Self {
        let outer = self.outer.as_ref().unwrap_or(&self.cancelled);
        Self { cancelled: outer.child_token(), outer: None, ..self }
    }
}

#[cfg(test)]
mod tests;
