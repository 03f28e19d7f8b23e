//! What may happen at each point. The first option is what happens where all goes well.

use crate::event::{Event, Kind, Moment, Party, Point};

/// An outage of a caller that its own checks hardly notice.
const SHORT_MS: u64 = 200;
/// An outage after which a worker still counts as living, and for which a reply does not wait.
const MEDIUM_MS: u64 = 6_000;
/// An outage that is longer than workers may be silent.
const LONG_MS: u64 = 18_000;
/// A delay of a request that is longer than its caller waits for a word of it after a lost confirm.
const LATE_MS: u64 = 18_000;
/// When a caller cancels that waits for a while.
const CANCEL_MS: u64 = 3_017;
/// A delay that lets other messages overtake.
const OVERTAKEN_MS: u64 = 2_500;
/// Heartbeats after these are like those before.
const HEARTBEATS_MAX: u32 = 2;

/// A caller is often back before the workers.
const RESTART: Event = Event::Restart { caller_ms: SHORT_MS, workers_ms: MEDIUM_MS };

/// The options at a point.
pub(crate) fn at(point: Point) -> Vec<Event> {
    let Point { moment, party, number } = point;
    let mut options = vec![Event::Normal];
    match moment {
        // It is published again where its confirm was lost.
        Moment::Publish(Kind::Request) if number > 1 => {
            options.extend([Event::LoseConfirm, Event::LoseMessage, Event::Refuse, Event::Cancel]);
        }
        Moment::Publish(Kind::Request) => {
            options.extend([
                Event::LoseConfirm,
                Event::LoseMessage,
                Event::LoseUnnoticed(LONG_MS),
                Event::NotSent,
                Event::Refuse,
                Event::RefuseOneCopy,
                Event::Delay(OVERTAKEN_MS),
                Event::DelayUnconfirmed(OVERTAKEN_MS),
                Event::DelayUnconfirmed(LATE_MS),
                Event::Cancel,
                Event::CancelLater(CANCEL_MS),
                Event::WorkersAway(MEDIUM_MS),
            ]);
        }
        Moment::Publish(Kind::Reply) => {
            options.extend([Event::LoseConfirm, Event::LoseMessage, Event::Refuse]);
            // Several of them would take longer than the caller waits.
            if number == 1 {
                options.push(Event::LoseUnnoticed(LONG_MS));
            }
        }
        Moment::Publish(Kind::Heartbeat) if number <= HEARTBEATS_MAX => {
            options.push(Event::LoseMessage);
            if number > 1 {
                options.extend(worker_events(party));
                options.extend(caller_events());
            }
        }
        Moment::Publish(Kind::Cancel) => {
            options.extend([Event::LoseMessage, Event::Delay(OVERTAKEN_MS)]);
        }
        Moment::Publish(Kind::Query | Kind::Status | Kind::ReplyRequest | Kind::Other) => {
            options.push(Event::LoseMessage);
        }
        Moment::Publish(Kind::Heartbeat | Kind::Loopback) | Moment::Choose => {}
        Moment::Deliver => {
            options.extend([
                Event::Disconnect(party, MEDIUM_MS),
                Event::Kill(party),
                RESTART,
                Event::Cancel,
            ]);
        }
        Moment::RunStarts | Moment::RunEnds => {
            options.extend(worker_events(party));
            options.extend(caller_events());
        }
        Moment::Reconnect => options.push(Event::RequestsFirst),
        Moment::ReplyArrives => {
            options.extend([
                Event::Disconnect(Party::Caller, SHORT_MS),
                Event::Disconnect(Party::Caller, MEDIUM_MS),
            ]);
        }
    }
    options
}

fn worker_events(worker: Party) -> [Event; 5] {
    [
        Event::Disconnect(worker, MEDIUM_MS),
        Event::Disconnect(worker, LONG_MS),
        Event::Stall(worker, LONG_MS),
        Event::Kill(worker),
        RESTART,
    ]
}

fn caller_events() -> [Event; 5] {
    [
        Event::Disconnect(Party::Caller, SHORT_MS),
        Event::Disconnect(Party::Caller, MEDIUM_MS),
        Event::HalfOpen(Party::Caller, MEDIUM_MS),
        Event::Stall(Party::Caller, MEDIUM_MS),
        Event::Cancel,
    ]
}
