use rmcp::model::ClientCapabilities;
use toolbus_bus::{Progress, Question};
use toolbus_wire::message::toolbus::AskKind;

use super::*;
use crate::talk::{Means, Turn};

fn identity(name: &str) -> Identity {
    let client = Some(Implementation::new("client", "1"));
    Identity { server: None, method: "tools/call", name: name.to_owned(), arguments: 1, client }
}

/// A call that asks once, and the token that fires when it is cancelled.
fn asking(kept: &Kept) -> (Talk, CancellationToken) {
    let client = serde_json::from_value::<ClientCapabilities>(json!({"elicitation": {}})).unwrap();
    let told = CancellationToken::new();
    let tell = told.clone();
    let talk = Talk::begin(kept, client, Default::default(), Progress::none(), |means: Means| {
        Box::pin(async move {
            let params =
                json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
            let question = Question { kind: AskKind::Elicitation, from: None, params, round: None };
            tokio::select! {
                biased;
                () = means.cancelled.cancelled() => {
                    tell.cancel();
                    Err(ErrorData::internal_error("cancelled", None))
                }
                answer = means.asker.ask(question) => {
                    let answer = answer.map_err(|error| error.to_string());
                    Err(ErrorData::internal_error(format!("{answer:?}"), None))
                }
            }
        })
    });
    (talk, told)
}

/// A call whose client is away, and the state to come back with.
async fn away(kept: &Kept, name: &str) -> (String, CancellationToken) {
    let (mut talk, cancelled) = asking(kept);
    assert!(matches!(talk.next().await, Turn::Asks(asked) if asked.len() == 1));
    (kept.put(talk, identity(name)).ok().unwrap(), cancelled)
}

fn why(taken: Result<Talk, StateError>) -> Option<StateError> {
    taken.err()
}

#[tokio::test]
async fn a_state_is_good_once_for_the_request_it_was_given_to() {
    let kept = Kept::new();
    let (state, cancelled) = away(&kept, "t").await;
    let (other, _) = away(&kept, "t").await;
    assert_ne!(state, other);
    assert_eq!(why(kept.take("made up", &identity("t"))), Some(StateError::Unknown));
    let tampered = format!("{state}-TAMPERED");
    assert_eq!(why(kept.take(&tampered, &identity("t"))), Some(StateError::Unknown));
    let elsewhere = Identity { server: Some("s".to_owned()), ..identity("t") };
    let with_others = Identity { arguments: 2, ..identity("t") };
    let of_another = Identity { client: None, ..identity("t") };
    for foreign in [identity("u"), elsewhere, with_others, of_another] {
        assert_eq!(why(kept.take(&state, &foreign)), Some(StateError::Foreign), "{foreign:?}");
    }
    assert!(!cancelled.is_cancelled());

    let mut talk = kept.take(&state, &identity("t")).ok().unwrap();
    assert_eq!(why(kept.take(&state, &identity("t"))), Some(StateError::Used));
    let answer = json!({"action": "decline"});
    let client = serde_json::from_value(json!({"elicitation": {}})).unwrap();
    talk.answer([("question".to_owned(), answer)].into(), client);
    let Turn::Ended(Err(ended)) = talk.next().await else { panic!("it asks again") };
    assert!(ended.message.contains("decline"), "{ended:?}");
    assert!(!cancelled.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_client_stays_away_is_cancelled() {
    let kept = Kept::with_limit(Duration::from_secs(5));
    let (state, cancelled) = away(&kept, "t").await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(!cancelled.is_cancelled());
    tokio::time::timeout(Duration::from_secs(2), cancelled.cancelled()).await.unwrap();
    assert_eq!(why(kept.take(&state, &identity("t"))), Some(StateError::Expired));
}

#[tokio::test]
async fn only_so_many_may_be_away_and_none_after_the_end() {
    let kept = Kept::new();
    let mut states = Vec::new();
    for _ in 0..AWAY_MAX {
        states.push(away(&kept, "t").await);
    }
    let (mut talk, cancelled) = asking(&kept);
    assert!(matches!(talk.next().await, Turn::Asks(_)));
    let back = kept.put(talk, identity("t"));
    assert!(back.is_err() && !cancelled.is_cancelled());
    drop(back);
    cancelled.cancelled().await;

    kept.close().await;
    assert!(states.iter().all(|(_, cancelled)| cancelled.is_cancelled()));
    let (talk, _) = (asking(&Kept::new()).0, ());
    assert!(kept.put(talk, identity("t")).is_err());
}

#[tokio::test]
async fn room_is_bounded_and_comes_back() {
    let kept = Kept::new();
    let most = kept.room(BYTES_MAX - 1).unwrap();
    assert!(kept.room(PIECE).is_none());
    assert!(kept.room(usize::MAX).is_none());
    drop(most);
    assert!(kept.room(BYTES_MAX).is_some());
}
