//! The points of a schedule at which something may go wrong, and what may happen there, in words
//! that a trace is made of.

use std::fmt;
use std::time::Duration;

use toolbus_wire::message::tool::{ToolError, ToolInvokeRequest, ToolInvokeResponse};
use toolbus_wire::message::toolbus::{Alive, CallQuery, CallStatus, ReplyRequest, ToolCancel};
use toolbus_wire::{Envelope, message};

/// Name of the caller's agent.
pub(crate) const CALLER: &str = "RockBot";

/// Who is connected to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Party {
    Caller,
    WorkerA,
    WorkerB,
}

impl Party {
    pub(crate) const WORKERS: [Self; 2] = [Self::WorkerA, Self::WorkerB];
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Caller => "the caller",
            Self::WorkerA => "worker A",
            Self::WorkerB => "worker B",
        })
    }
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Reply,
    Heartbeat,
    /// The message of a caller to itself.
    Loopback,
    Cancel,
    /// A worker's query whether a call is still waited for.
    Query,
    /// The answer to a query.
    Status,
    /// A caller's request for replies that it may have missed.
    ReplyRequest,
    Other,
}

impl Kind {
    /// What a message is, as its type says.
    pub(crate) fn of(envelope: &Envelope) -> Self {
        if message::is::<Alive>(envelope) {
            let is_caller = envelope.source == CALLER;
            return if is_caller { Self::Loopback } else { Self::Heartbeat };
        }
        let is_reply =
            message::is::<ToolInvokeResponse>(envelope) || message::is::<ToolError>(envelope);
        let kinds = [
            (is_reply, Self::Reply),
            (message::is::<ToolInvokeRequest>(envelope), Self::Request),
            (message::is::<ToolCancel>(envelope), Self::Cancel),
            (message::is::<CallQuery>(envelope), Self::Query),
            (message::is::<CallStatus>(envelope), Self::Status),
            (message::is::<ReplyRequest>(envelope), Self::ReplyRequest),
        ];
        kinds.into_iter().find_map(|(is, kind)| is.then_some(kind)).unwrap_or(Self::Other)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "request",
            Self::Reply => "reply",
            Self::Heartbeat => "heartbeat",
            Self::Loopback => "message to itself",
            Self::Cancel => "cancel message",
            Self::Query => "query",
            Self::Status => "status",
            Self::ReplyRequest => "request for replies",
            Self::Other => "other message",
        })
    }
}

/// What is about to happen at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The party's message of this kind comes to the broker.
    Publish(Kind),
    /// The queue has a request for whichever worker is free.
    Choose,
    /// A request is handed to the worker.
    Deliver,
    /// The worker starts a run.
    RunStarts,
    /// A run of the worker is at its end.
    RunEnds,
    /// A reply is on its way from the queue to the caller.
    ReplyArrives,
    /// The worker has a connection again, after an outage.
    Reconnect,
}

/// A point of a schedule: the moment, whom it concerns, and the how many-th of its kind it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) moment: Moment,
    pub(crate) party: Party,
    pub(crate) number: u32,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { moment, party, number } = self;
        match moment {
            Moment::Publish(kind) => write!(f, "{party} publishes {kind} {number}"),
            Moment::Choose => write!(f, "the queue hands out a request, time {number}"),
            Moment::Deliver => write!(f, "{party} is handed request {number}"),
            Moment::RunStarts => write!(f, "{party} starts run {number}"),
            Moment::RunEnds => write!(f, "{party} is about to end run {number}"),
            Moment::ReplyArrives => write!(f, "{party} is handed reply {number}"),
            Moment::Reconnect => write!(f, "{party} connects again, time {number}"),
        }
    }
}

/// How long a party that was cut off takes to connect again.
pub(crate) const RECONNECT: Duration = Duration::from_millis(300);

/// What happens at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// Nothing goes wrong.
    Normal,
    /// The message never comes to the broker, and the publisher hears nothing.
    LoseMessage,
    /// The same, and it takes the publisher so many milliseconds to find out.
    LoseUnnoticed(u64),
    /// The message is taken, and the publisher hears nothing.
    LoseConfirm,
    /// The message is not sent, and the publisher knows it.
    NotSent,
    /// The broker has no room for the message.
    Refuse,
    /// One queue has no room for the message, and another takes it.
    RefuseOneCopy,
    /// The message is confirmed, and comes to its queue late by so many milliseconds.
    Delay(u64),
    /// The publisher hears nothing, and the message comes to its queue late.
    DelayUnconfirmed(u64),
    /// The request goes to this worker.
    HandTo(Party),
    /// The party's connection is lost, with its private queues, and is back after so long.
    Disconnect(Party, u64),
    /// Nothing comes from the party or to it for so long. Then its connection is lost; until then
    /// the broker takes and confirms what is for it.
    HalfOpen(Party, u64),
    /// Nothing comes from the party or to it for so long, and nothing is lost.
    Stall(Party, u64),
    /// Everybody's connection is lost. The caller is back after so long, workers after so long.
    Restart { caller_ms: u64, workers_ms: u64 },
    /// Both workers lose their connections for so long.
    WorkersAway(u64),
    /// The party's process ends, and does not come back.
    Kill(Party),
    /// The caller cancels the call.
    Cancel,
    /// The caller cancels the call after so long.
    CancelLater(u64),
    /// A worker consumes from the shared queue a moment before its private queues are there.
    RequestsFirst,
}

impl Event {
    /// Whether a schedule may have only so many of these.
    pub(crate) fn is_fault(self) -> bool {
        !matches!(self, Self::Normal | Self::HandTo(_))
    }

    /// Who is cut off, and for how long.
    pub(crate) fn outages(self) -> Vec<(Party, Duration)> {
        let time = Duration::from_millis;
        match self {
            Self::Disconnect(party, ms) | Self::Stall(party, ms) => vec![(party, time(ms))],
            Self::HalfOpen(party, ms) => vec![(party, time(ms) + RECONNECT)],
            Self::WorkersAway(ms) => Party::WORKERS.map(|worker| (worker, time(ms))).to_vec(),
            Self::Restart { caller_ms, workers_ms } => {
                let mut outages = Self::WorkersAway(workers_ms).outages();
                outages.push((Party::Caller, time(caller_ms)));
                outages
            }
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Normal => f.write_str("all goes well"),
            Self::LoseMessage => f.write_str("message and confirm are lost"),
            Self::LoseUnnoticed(ms) => {
                write!(f, "message and confirm are lost, which takes {ms} ms to find out")
            }
            Self::LoseConfirm => f.write_str("the confirm is lost"),
            Self::NotSent => f.write_str("it is not sent"),
            Self::Refuse => f.write_str("the broker refuses it"),
            Self::RefuseOneCopy => f.write_str("one queue refuses it, another takes it"),
            Self::Delay(ms) => write!(f, "it is late by {ms} ms"),
            Self::DelayUnconfirmed(ms) => write!(f, "it is late by {ms} ms, its confirm is lost"),
            Self::HandTo(party) => write!(f, "to {party}"),
            Self::Disconnect(party, ms) => write!(f, "{party} loses its connection for {ms} ms"),
            Self::HalfOpen(party, ms) => {
                write!(f, "{party} is cut off for {ms} ms, then loses its connection")
            }
            Self::Stall(party, ms) => write!(f, "{party} is cut off for {ms} ms"),
            Self::Restart { caller_ms, workers_ms } => write!(
                f,
                "the broker restarts, the caller is back after {caller_ms} ms, workers after \
                 {workers_ms} ms"
            ),
            Self::WorkersAway(ms) => write!(f, "both workers lose their connections for {ms} ms"),
            Self::Kill(party) => write!(f, "{party} is killed"),
            Self::Cancel => f.write_str("the caller cancels"),
            Self::CancelLater(ms) => write!(f, "the caller will cancel after {ms} ms"),
            Self::RequestsFirst => f.write_str("it takes requests before it hears cancel messages"),
        }
    }
}
