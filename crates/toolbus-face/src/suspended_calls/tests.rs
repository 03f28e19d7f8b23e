use futures_util::future::BoxFuture;
use rmcp::model::ClientCapabilities;
use toolbus_bus::{Progress, Question, Slot, SlotPool};
use toolbus_wire::message::toolbus::AskKind;

use super::*;
use crate::pending_call::{CallOutcome, ClientLinks, NewCall, PendingCallEvent};

fn identity(name: &str) -> RequestIdentity {
    let client = Some(Implementation::new("client", "1"));
    RequestIdentity {
        server: None,
        method: "tools/call",
        name: name.to_owned(),
        arguments: 1,
        principal: Principal::claimed("mcp"),
        client,
    }
}

/// A call that asks once, and the token that fires when it is cancelled.
fn asking(suspended: &SuspendedCalls) -> (PendingCall, CancellationToken) {
    asking_in(suspended, Slot::none())
}

/// The same, in a slot.
fn asking_in(suspended: &SuspendedCalls, slot: Slot) -> (PendingCall, CancellationToken) {
    let client = serde_json::from_value::<ClientCapabilities>(json!({"elicitation": {}})).unwrap();
    let told = CancellationToken::new();
    let tell = told.clone();
    let call = PendingCall::begin(
        suspended,
        client,
        Default::default(),
        Progress::none(),
        NewCall {
            slot,
            begin: |means: ClientLinks| -> BoxFuture<'static, CallOutcome> {
                Box::pin(async move {
                    let params = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
                    let question =
                        Question { kind: AskKind::Elicitation, from: None, params, round: None };
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
            },
        },
    );
    (call, told)
}

/// A call whose client is away, and the state to come back with.
async fn away(suspended: &SuspendedCalls, name: &str) -> (String, CancellationToken) {
    let (mut call, cancelled) = asking(suspended);
    assert!(
        matches!(call.next_event().await, PendingCallEvent::NeedsInput(asked) if asked.len() == 1)
    );
    (suspended.suspend(call, identity(name)).ok().unwrap(), cancelled)
}

#[tokio::test]
async fn the_slot_of_a_call_is_free_while_its_client_is_away() {
    let (suspended, slots) = (SuspendedCalls::new(), SlotPool::new(1, 1));
    let (mut call, _) = asking_in(&suspended, slots.try_take().unwrap());
    assert!(matches!(call.next_event().await, PendingCallEvent::NeedsInput(_)));
    assert!(slots.try_take().is_none());
    let state = suspended.suspend(call, identity("a")).ok().unwrap();
    assert!(slots.try_take().is_some());

    let call = suspended.resume(&state, &identity("a")).unwrap();
    call.slot.resume().await.unwrap();
    assert!(slots.try_take().is_none());
    drop(call);
    assert!(slots.try_take().is_some());
}

fn why(taken: Result<PendingCall, StateError>) -> Option<StateError> {
    taken.err()
}

#[tokio::test]
async fn a_state_is_good_once_for_the_request_it_was_given_to() {
    let suspended = SuspendedCalls::new();
    let (state, cancelled) = away(&suspended, "t").await;
    let (other, _) = away(&suspended, "t").await;
    assert_ne!(state, other);
    assert_eq!(why(suspended.resume("made up", &identity("t"))), Some(StateError::Unknown));
    let tampered = format!("{state}-TAMPERED");
    assert_eq!(why(suspended.resume(&tampered, &identity("t"))), Some(StateError::Unknown));
    let elsewhere = RequestIdentity { server: Some("s".to_owned()), ..identity("t") };
    let with_others = RequestIdentity { arguments: 2, ..identity("t") };
    let of_another = RequestIdentity { client: None, ..identity("t") };
    for foreign in [identity("u"), elsewhere, with_others, of_another] {
        assert_eq!(
            why(suspended.resume(&state, &foreign)),
            Some(StateError::Foreign),
            "{foreign:?}"
        );
    }
    assert!(!cancelled.is_cancelled());

    let mut call = suspended.resume(&state, &identity("t")).ok().unwrap();
    assert_eq!(why(suspended.resume(&state, &identity("t"))), Some(StateError::Used));
    let answer = json!({"action": "decline"});
    let client = serde_json::from_value(json!({"elicitation": {}})).unwrap();
    call.take_answers([("question".to_owned(), answer)].into(), client);
    let PendingCallEvent::Finished(Err(ended)) = call.next_event().await else {
        panic!("it asks again")
    };
    assert!(ended.message.contains("decline"), "{ended:?}");
    assert!(!cancelled.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_client_stays_away_is_cancelled() {
    let suspended = SuspendedCalls::with_ttl(Duration::from_secs(5));
    let (state, cancelled) = away(&suspended, "t").await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(!cancelled.is_cancelled());
    tokio::time::timeout(Duration::from_secs(2), cancelled.cancelled()).await.unwrap();
    assert_eq!(why(suspended.resume(&state, &identity("t"))), Some(StateError::Expired));
}

#[tokio::test]
async fn only_so_many_may_be_away_and_none_after_the_end() {
    let suspended = SuspendedCalls::new();
    let mut states = Vec::new();
    for _ in 0..SUSPENDED_MAX {
        states.push(away(&suspended, "t").await);
    }
    let (mut call, cancelled) = asking(&suspended);
    assert!(matches!(call.next_event().await, PendingCallEvent::NeedsInput(_)));
    let back = suspended.suspend(call, identity("t"));
    assert!(back.is_err() && !cancelled.is_cancelled());
    drop(back);
    cancelled.cancelled().await;

    suspended.close().await;
    assert!(states.iter().all(|(_, cancelled)| cancelled.is_cancelled()));
    let (call, _) = (asking(&SuspendedCalls::new()).0, ());
    assert!(suspended.suspend(call, identity("t")).is_err());
}

#[tokio::test]
async fn room_is_bounded_and_comes_back() {
    let suspended = SuspendedCalls::new();
    let most = suspended.reserve_bytes(BYTES_MAX - 1).unwrap();
    assert!(suspended.reserve_bytes(PIECE_BYTES).is_none());
    assert!(suspended.reserve_bytes(usize::MAX).is_none());
    drop(most);
    assert!(suspended.reserve_bytes(BYTES_MAX).is_some());
}
