use futures_util::FutureExt as _;

use super::*;
use crate::testing::{at_once, topic};

fn queue() -> Queue {
    let pattern = TopicPattern::from(topic("t"));
    Queue::new(&Subscription::durable("q", pattern, at_once(1)))
}

fn message(bytes: usize) -> QueuedMessage {
    QueuedMessage::new(topic("t"), Envelope::new("Test", "", vec![0; bytes].into()))
}

fn take(queue: &Queue) -> QueuedMessage {
    match queue.pop() {
        QueueHead::QueuedMessage(message) => message,
        QueueHead::Expired(_) => panic!("the message has expired"),
        QueueHead::Empty => panic!("the queue is empty"),
    }
}

fn holds(queue: &Queue) -> (usize, usize) {
    let state = queue.state.lock();
    (state.count, state.bytes)
}

/// Two consumers saw an empty queue; before either waits, two messages come. The second consumer
/// must not sleep while the first is busy.
#[test]
fn every_consumer_is_woken_as_long_as_messages_wait() {
    let queue = queue();
    queue.push(message(1)).unwrap();
    queue.push(message(1)).unwrap();
    assert!(queue.next_arrival().now_or_never().is_some());
    take(&queue);
    assert!(queue.next_arrival().now_or_never().is_some(), "the second consumer sleeps");
    take(&queue);
    assert!(matches!(queue.pop(), QueueHead::Empty));
}

#[test]
fn a_message_counts_until_it_is_forgotten() {
    let queue = queue();
    for bytes in [1, 10, 100] {
        queue.push(message(bytes)).unwrap();
    }

    assert_eq!(holds(&queue), (3, 111));
    let first = take(&queue);
    let second = take(&queue);
    assert_eq!(holds(&queue), (3, 111));
    queue.give_back(first);
    queue.forget(&second);
    assert_eq!(holds(&queue), (2, 101));
    let third = take(&queue);
    queue.give_back(third);

    for bytes in [1, 100] {
        let message = take(&queue);
        assert_eq!(message.envelope.body.len(), bytes);
        queue.forget(&message);
    }

    assert_eq!(holds(&queue), (0, 0));
}
