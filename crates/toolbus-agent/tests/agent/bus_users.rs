//! Users on a bus, by an agent whose model is a script.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use toolbus_agent::{BusUsers, BusUsersDeps};
use toolbus_bus::{
    Bus, Consumer, Delivery, Disposition, Envelope, Flow, MemoryBus, Subscription, TopicPattern,
};
use toolbus_testkit::eventually;
use toolbus_wire::message::user::{
    AgentReply, ConversationHistoryRequest, ConversationHistoryResponse, ConversationTurn,
    UserFeedback, UserMessage,
};
use toolbus_wire::name::AgentName;
use toolbus_wire::{Message, Topic, message, topic};

use crate::support::{Answer, Bench};

/// A program through which users speak, and an agent that answers them.
struct Chat {
    bus: Arc<dyn Bus>,
    memory: MemoryBus,
    users: BusUsers,
    heard: Arc<Mutex<Vec<Envelope>>>,
    _listening: Consumer,
}

const REPLIES: &str = "user.response.proxy";

impl Chat {
    async fn with(bench: &Bench) -> Self {
        let memory = MemoryBus::new();
        let bus: Arc<dyn Bus> = Arc::new(memory.connect());
        let deps = BusUsersDeps {
            bus: Arc::clone(&bus),
            name: AgentName::standard(),
            agent: bench.agent.clone(),
            turns_max: NonZeroU16::new(4).unwrap(),
        };
        let users = BusUsers::start(deps).await.unwrap();

        let heard = Arc::<Mutex<Vec<Envelope>>>::default();
        let hear = Arc::clone(&heard);
        let handler = move |delivery: Delivery| {
            hear.lock().push(delivery.envelope);
            std::future::ready(Disposition::Ack)
        };
        let pattern = TopicPattern::from(Topic::parse(REPLIES).unwrap());
        let flow = Flow::Ordered { prefetch: NonZeroU16::MIN };
        let listening = Subscription::private("proxy", pattern, flow);
        let listening = bus.subscribe(listening, Arc::new(handler)).await.unwrap();
        Self { bus, memory, users, heard, _listening: listening }
    }

    async fn send<T: Message>(&self, topic: &Topic, message: &T) -> Envelope {
        let envelope = Envelope::of(message, "proxy")
            .with_reply_to(Topic::parse(REPLIES).unwrap())
            .with_correlation_id("c1");
        self.bus.publish(topic, envelope.clone()).await.unwrap();
        envelope
    }

    async fn say(&self, user: &str, session: &str, content: &str) -> Envelope {
        self.send(&topic::USER_MESSAGE, &said(user, session, content)).await
    }

    /// What was answered, once it is so much.
    async fn answers(&self, count: usize) -> Vec<AgentReply> {
        until("answers", async || self.heard.lock().len() >= count).await;
        let heard = self.heard.lock();
        assert_eq!(heard.len(), count);
        heard.iter().map(|envelope| message::read(envelope).unwrap()).collect()
    }
}

/// Waits until this holds.
async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let check = async || if holds().await { Ok(()) } else { Err(what) };
    eventually(Duration::from_secs(20), check).await;
}

fn said(user: &str, session: &str, content: &str) -> UserMessage {
    UserMessage {
        content: content.to_owned(),
        session_id: session.to_owned(),
        user_id: user.to_owned(),
        target_agent: None,
    }
}

fn texts(replies: &[AgentReply]) -> Vec<(&str, bool)> {
    replies.iter().map(|reply| (reply.content.as_str(), reply.is_final)).collect()
}

#[tokio::test]
async fn what_a_user_says_is_answered() {
    for bench in Bench::all().await {
        let chat = Chat::with(&bench).await;
        bench.script.add([
            Answer::SaysAndCalls("I look.", vec![("1", "look", json!({}))]),
            Answer::Says("Here it is."),
            Answer::Says("Again."),
        ]);
        chat.say("alice", "s1", "hello").await;
        let replies = chat.answers(2).await;
        assert_eq!(texts(&replies), [("I look.", false), ("Here it is.", true)]);
        assert_eq!((replies[1].session_id.as_str(), &*replies[1].agent_name), ("s1", "RockBot"));
        assert_eq!(chat.heard.lock()[1].correlation_id.as_deref(), Some("c1"));

        // To this agent by its own topic, in the same session.
        let message = said("alice", "s1", "and now?");
        chat.send(&topic::user_message_agent(&AgentName::standard()), &message).await;
        assert_eq!(texts(&chat.answers(3).await)[2], ("Again.", true));
        assert_eq!(bench.script.asked.lock()[2].messages.len(), 5);

        // Another user has a session of that name as well, and begins it.
        bench.script.add([Answer::Says("Hello.")]);
        chat.say("bob", "s1", "hi").await;
        assert_eq!(texts(&chat.answers(4).await)[3], ("Hello.", true));
        assert_eq!(bench.script.asked.lock()[3].messages.len(), 1);
        chat.users.stop(Duration::from_secs(1)).await;
    }
}

/// A broker hands out again what was not acknowledged. It is answered again, and not done again.
#[tokio::test]
async fn a_message_that_comes_twice_is_one_turn() {
    let bench = Bench::sqlite();
    let chat = Chat::with(&bench).await;
    bench.script.add([Answer::Calls(vec![("1", "write", json!({"n": 1}))]), Answer::Says("Done.")]);
    let envelope = chat.say("alice", "s1", "write it").await;
    chat.answers(1).await;
    chat.bus.publish(&topic::USER_MESSAGE, envelope).await.unwrap();
    let replies = chat.answers(2).await;
    assert_eq!(texts(&replies), [("Done.", true), ("Done.", true)]);
    assert_eq!(bench.written.lock().len(), 1);
    let ids: Vec<_> = chat.heard.lock().iter().map(|reply| reply.message_id.clone()).collect();
    assert_eq!(ids[0], ids[1], "whoever has had it knows it again");
}

/// Whoever ends in the middle of a turn leaves it to the next.
#[tokio::test]
async fn a_turn_goes_on_with_another_process() {
    let bench = Bench::sqlite();
    let first = Chat::with(&bench).await;
    bench.script.add([Answer::Calls(vec![
        ("1", "write", json!({"n": 1})),
        ("2", "never_write", json!({})),
    ])]);
    first.say("alice", "s1", "write it").await;
    until("a call", async || !bench.written.lock().is_empty()).await;

    let next = bench.again();
    next.script.add([Answer::Says("I do not know.")]);
    let deps = BusUsersDeps {
        bus: Arc::clone(&first.bus),
        name: AgentName::standard(),
        agent: next.agent.clone(),
        turns_max: NonZeroU16::MIN,
    };
    let second = BusUsers::start(deps).await.unwrap();
    first.users.stop(Duration::ZERO).await;
    until("an answer", async || !first.heard.lock().is_empty()).await;
    let reply: AgentReply = message::read(&first.heard.lock()[0]).unwrap();
    assert_eq!(reply.content, "I do not know.");
    assert_eq!(bench.written.lock().len(), 1);
    second.stop(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn turns_of_one_session_wait_for_each_other() {
    let bench = Bench::sqlite();
    let chat = Chat::with(&bench).await;
    bench.script.add([
        Answer::Calls(vec![("1", "late", json!({"after": 300}))]),
        Answer::Says("first"),
        Answer::Says("second"),
    ]);
    chat.say("alice", "s1", "one").await;
    until("a question", async || !bench.script.asked.lock().is_empty()).await;
    chat.say("alice", "s1", "two").await;
    assert_eq!(texts(&chat.answers(2).await), [("first", true), ("second", true)]);
}

#[tokio::test]
async fn what_is_meant_for_another_agent_is_left_to_it() {
    let bench = Bench::sqlite();
    let chat = Chat::with(&bench).await;
    let message = UserMessage { target_agent: Some("Other".to_owned()), ..said("a", "s", "hi") };
    chat.send(&topic::USER_MESSAGE, &message).await;
    let envelope = Envelope::of(&said("a", "s", "hi"), "proxy");
    let envelope = Envelope { destination: Some("Other".to_owned()), ..envelope };
    chat.bus.publish(&topic::USER_MESSAGE, envelope).await.unwrap();
    let message = UserMessage { target_agent: Some("rockbot".to_owned()), ..said("a", "s", "me") };
    chat.send(&topic::USER_MESSAGE, &message).await;
    chat.answers(1).await;
    assert_eq!(bench.script.asked.lock().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_read_is_kept_or_told() {
    let bench = Bench::sqlite();
    let chat = Chat::with(&bench).await;
    let junk = [
        Envelope::new(UserMessage::TYPE, "proxy", "{".into()),
        Envelope::new(UserMessage::TYPE, "proxy", r#"{"content": "hi"}"#.into()),
        Envelope::of(&ConversationHistoryRequest { session_id: "s".to_owned() }, "proxy"),
    ];
    for envelope in junk {
        chat.bus.publish(&topic::USER_MESSAGE, envelope).await.unwrap();
    }
    let no_reply = ConversationHistoryRequest { session_id: "s".to_owned() };
    chat.bus.publish(&topic::USER_HISTORY_REQUEST, Envelope::of(&no_reply, "proxy")).await.unwrap();
    until("dead letters", async || {
        chat.memory.dead_letters("RockBot.user-message").len() == 3
            && chat.memory.dead_letters("RockBot.user-history-request").len() == 1
    })
    .await;

    // A session that has no name is told to who names it so, and so is a text that is too long.
    chat.say("alice", "../x", "hello").await;
    chat.answers(1).await;
    chat.say("alice", "s", &"x".repeat((2 << 20) + 1)).await;
    for reply in chat.answers(2).await {
        assert!(reply.content.starts_with("Error: ") && reply.is_final, "{reply:?}");
    }
    assert!(bench.script.asked.lock().is_empty());
}

#[tokio::test]
async fn the_history_of_a_session_is_told_and_the_model_hears_what_users_think() {
    for bench in Bench::all().await {
        let chat = Chat::with(&bench).await;
        bench.script.add([Answer::Says("Hi."), Answer::Says("Better?")]);
        chat.say("alice", "s1", "hello").await;
        chat.answers(1).await;
        let feedback = UserFeedback {
            session_id: "s1".to_owned(),
            message_id: chat.heard.lock()[0].message_id.clone(),
            is_positive: false,
            agent_name: None,
        };
        chat.send(&topic::USER_FEEDBACK, &feedback).await;
        until("feedback", async || {
            let at = toolbus_agent::Event::Rated {
                message: feedback.message_id.clone(),
                is_positive: false,
            };
            bench.events_of_all().await.contains(&at)
        })
        .await;
        chat.say("alice", "s1", "again").await;
        chat.answers(2).await;
        let asked = bench.script.asked.lock().last().unwrap().messages.clone();
        assert_eq!(asked.len(), 4, "{asked:?}");
        assert!(format!("{:?}", asked[3]).contains("not helpful"), "{asked:?}");

        for (session, expected) in [("s1", 4), ("s2", 0)] {
            chat.heard.lock().clear();
            let request = ConversationHistoryRequest { session_id: session.to_owned() };
            chat.send(&topic::USER_HISTORY_REQUEST, &request).await;
            until("a history", async || !chat.heard.lock().is_empty()).await;
            let told: ConversationHistoryResponse = message::read(&chat.heard.lock()[0]).unwrap();
            assert_eq!(told.turns.len(), expected);
            let said = |turn: &ConversationTurn| (turn.role.clone(), turn.content.clone());
            if let [first, .., last] = &*told.turns {
                assert_eq!(said(first), ("user".to_owned(), "hello".to_owned()));
                assert_eq!(said(last), ("assistant".to_owned(), "Better?".to_owned()));
                assert!(first.timestamp.starts_with("20"), "{first:?}");
            }
        }
    }
}
