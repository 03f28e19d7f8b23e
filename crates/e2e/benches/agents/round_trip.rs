//! A message and its reply, over queues such as those of tasks: what the broker takes for the two
//! hops.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use e2e::bench::{Latencies, Rounds};
use toolbus_bus::{
    Bus, Consumer, Delivery, Disposition, Envelope, Flow, Subscription, Topic, TopicPattern,
};
use toolbus_wire::envelope::new_id;
use toolbus_wire::message::a2a::{
    AgentMessage, AgentTaskRequest, AgentTaskResult, AgentTaskState, ROLE_AGENT, ROLE_USER,
};

use crate::MILLISECOND;
use crate::signal::{Moments, signal};

const REQUEST_TOPIC: &str = "bench.round-trip";
const REPLY_TOPIC: &str = "bench.round-trip.reply";
/// Tasks that are worked on at a time, and answers that are written down, as in `toolbus-a2a`.
const REQUESTS_FLOW: Flow = Flow::Concurrent(NonZeroU16::new(4).expect("4 is not zero"));
const REPLIES_FLOW: Flow = Flow::Concurrent(NonZeroU16::new(2).expect("2 is not zero"));

/// Two ends that answer each other.
pub(crate) struct RoundTrip {
    asking: Arc<dyn Bus>,
    requests: Topic,
    replies: Topic,
    heard: Moments,
    consumers: [Consumer; 2],
}

impl RoundTrip {
    pub(crate) async fn start(
        asking: &Arc<dyn Bus>,
        working: &Arc<dyn Bus>,
    ) -> anyhow::Result<Self> {
        let (requests, replies) = (Topic::parse(REQUEST_TOPIC)?, Topic::parse(REPLY_TOPIC)?);
        let durable = |topic: &Topic, flow| {
            Subscription::durable(topic.as_str(), TopicPattern::from(topic.clone()), flow)
        };

        let (bus, topic) = (Arc::clone(working), replies.clone());
        let handler = move |delivery| answer(Arc::clone(&bus), topic.clone(), delivery);
        let requested = durable(&requests, REQUESTS_FLOW);
        let requested = working.subscribe(requested, Arc::new(handler)).await?;

        let (hear, heard) = signal();
        let handler = move |_: Delivery| {
            hear.note();
            std::future::ready(Disposition::Ack)
        };
        let replied = durable(&replies, REPLIES_FLOW);
        let replied = asking.subscribe(replied, Arc::new(handler)).await?;
        let (asking, consumers) = (Arc::clone(asking), [requested, replied]);
        Ok(Self { asking, requests, replies, heard, consumers })
    }

    pub(crate) async fn round(&mut self, count: usize, rounds: &mut Rounds) -> anyhow::Result<()> {
        let mut latencies = Latencies::with_capacity(count);
        for _ in 0..count {
            let id = new_id();
            let request = AgentTaskRequest {
                task_id: id.clone(),
                context_id: None,
                skill: "sums".to_owned(),
                message: AgentMessage::of_text(ROLE_USER, "What is 6 * 7?".to_owned()),
            };
            let envelope = Envelope::of(&request, "bench")
                .with_correlation_id(&id)
                .with_reply_to(self.replies.clone());

            let began = Instant::now();
            self.asking.publish(&self.requests, envelope).await?;
            latencies.add(self.heard.next().await? - began);
        }
        rounds.add_latencies(latencies, MILLISECOND);
        Ok(())
    }

    pub(crate) async fn close(self, grace: Duration) {
        for consumer in self.consumers {
            consumer.stop(grace).await;
        }
    }
}

async fn answer(bus: Arc<dyn Bus>, topic: Topic, delivery: Delivery) -> Disposition {
    let result = AgentTaskResult {
        task_id: delivery.envelope.correlation_id.clone().unwrap_or_default(),
        context_id: None,
        state: AgentTaskState::Completed,
        artifacts: None,
        message: Some(AgentMessage::of_text(ROLE_AGENT, "It is 42.".to_owned())),
    };
    // One that is lost is missed by the other end.
    let _ = bus.publish(&topic, Envelope::of(&result, "bench")).await;
    Disposition::Ack
}
