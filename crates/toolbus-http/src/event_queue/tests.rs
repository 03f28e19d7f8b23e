use super::{EventQueue, TooSlow};
use crate::turn_message::TurnMessage;

fn text(delta: &str) -> TurnMessage {
    TurnMessage::Text { delta: delta.to_owned() }
}

#[tokio::test]
async fn text_that_waits_is_put_together() {
    let queue = EventQueue::default();
    for delta in ["one ", "two ", "three"] {
        assert_eq!(queue.push(text(delta)), Ok(()));
    }
    assert_eq!(queue.push(TurnMessage::Reasoning { delta: "hm".to_owned() }), Ok(()));
    queue.close();
    assert_eq!(queue.next().await, Some(text("one two three")));
    assert_eq!(queue.next().await, Some(TurnMessage::Reasoning { delta: "hm".to_owned() }));
    assert_eq!(queue.next().await, None);
}

#[tokio::test]
async fn who_does_not_read_is_cut_off() {
    let queue = EventQueue::default();
    let long = "x".repeat(1 << 20);
    let pushed: Vec<_> = (0..5).map(|_| queue.push(text(&long))).collect();
    assert_eq!(pushed[..3], [Ok(()), Ok(()), Ok(())]);
    assert_eq!(pushed[4], Err(TooSlow));
    assert!(queue.next().await.is_some(), "what was taken is told");
    assert_eq!(queue.next().await, None);
}
