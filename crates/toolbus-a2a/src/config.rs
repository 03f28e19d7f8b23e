//! What an agent says of itself, and how much it asks and does for others.

use std::num::NonZeroU16;
use std::time::Duration;

use toolbus_bus::Flow;
use toolbus_wire::message::a2a::AgentCard;
use toolbus_wire::name::AgentName;

use crate::{caller, presence, worker};

/// What an agent says of itself, and how much it asks and does for others.
#[derive(Debug, Clone)]
pub struct A2aConfig {
    /// What the agent announces, under its own name whatever name is in it. `None`: it hears
    /// others and says nothing, for it takes no tasks.
    pub card: Option<AgentCard>,
    /// Agents that are known without an announcement, and stay known.
    pub well_known: Vec<AgentCard>,
    /// How often the agent announces itself.
    pub announce_interval: Duration,
    /// Shortest time between two announcements, however many newcomers ask for one.
    pub announce_pace: Duration,
    /// Time that agents have to announce themselves after this one has asked them to.
    pub settle_grace: Duration,
    /// How long an agent is known that does not announce itself again.
    pub seen_ttl: Duration,
    /// Most agents in the directory.
    pub agents_max: usize,
    /// How long a task for another agent may take, where nobody says.
    pub timeout: Duration,
    /// The longest that may be said.
    pub timeout_max: Duration,
    /// Most tasks for other agents that a principal has open at a time.
    pub asked_max: u64,
    /// The same of all principals of the agent.
    pub agent_asked_max: u64,
    /// Tasks of others that are worked on at a time, in one process.
    pub tasks_max: NonZeroU16,
    /// How long such a task may take: RabbitMQ closes the channel of a consumer that has not
    /// acknowledged a message after 30 minutes.
    pub task_timeout: Duration,
    /// How long a process that was killed keeps a task to itself. It is renewed in a third of it.
    pub lease_ttl: Duration,
    /// How long a task may go on that was cancelled. It is dropped then.
    pub cancel_grace: Duration,
    /// Time that a task has to end after its own time is over.
    pub timeout_grace: Duration,
    /// Longest time between two looks for tasks of lost processes, while there are any tasks.
    pub look_interval: Duration,
    /// Longest time between two looks for answers to tell, while there are any tasks.
    pub tell_interval: Duration,
    /// Time during which only the process that asked for a task tells its end.
    pub handover_grace: Duration,
    /// Time before an end that a session could not take is told again. It doubles each time, up
    /// to 5 seconds.
    pub tell_backoff: Duration,
    /// How long tasks are remembered after their end.
    pub history_ttl: Duration,
    /// Most tasks of others that are remembered. Beyond it the oldest are forgotten of the clients
    /// that have most.
    pub history_max: u64,
}

impl A2aConfig {
    /// For an agent of this name, of which there is nothing to say.
    #[must_use]
    pub fn new(agent: &AgentName) -> Self {
        Self {
            card: Some(AgentCard { agent_name: agent.to_string(), ..AgentCard::default() }),
            well_known: Vec::new(),
            announce_interval: Duration::from_secs(2 * 60),
            announce_pace: Duration::from_millis(500),
            settle_grace: Duration::from_secs(1),
            seen_ttl: Duration::from_secs(24 * 60 * 60),
            agents_max: 1_000,
            timeout: Duration::from_secs(5 * 60),
            timeout_max: Duration::from_secs(24 * 60 * 60),
            asked_max: 20,
            agent_asked_max: 500,
            tasks_max: const { NonZeroU16::new(4).expect("4 is not zero") },
            task_timeout: Duration::from_secs(25 * 60),
            lease_ttl: Duration::from_secs(10),
            cancel_grace: Duration::from_secs(10),
            timeout_grace: Duration::from_secs(2),
            look_interval: Duration::from_secs(1),
            tell_interval: Duration::from_secs(2),
            handover_grace: Duration::from_secs(3),
            tell_backoff: Duration::from_millis(500),
            history_ttl: Duration::from_secs(24 * 60 * 60),
            history_max: 10_000,
        }
    }
}

/// How many bytes of messages are held at most, where so many tasks of others are worked on at a
/// time.
#[must_use]
pub const fn bus_bytes_max(tasks_max: NonZeroU16) -> usize {
    caller::RESPONSES_FLOW.bytes_max()
        + caller::STATUSES_FLOW.bytes_max()
        + presence::ANNOUNCEMENTS_FLOW.bytes_max()
        + worker::CANCELS_FLOW.bytes_max()
        + Flow::Concurrent(tasks_max).bytes_max()
}

/// A time in milliseconds.
pub(crate) fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
