//! One call is one trace, through any number of processes.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::trace::{SpanKind, TracerProvider as _};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, Span, SpanData, SpanProcessor};
use tokio::sync::watch;
use toolbus_wire::message::toolbus::Alive;
use toolbus_wire::{Envelope, Topic};
use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Instrument as _};
use tracing_subscriber::layer::SubscriberExt as _;

use super::stage::{Stage, at_once, message};
use crate::{Delivery, Disposition};

/// The span that publishes is a child of the one around it, the span that processes is a child of
/// the one that published, and what the handler does happens within it: so a reply hangs on too.
pub(super) async fn publishing_and_processing_are_one_trace(stage: Stage) {
    traced(stage, |stage, spans| async move {
        let (caller, worker) = (stage.bus().await, stage.bus().await);
        let replies = stage.acks();
        let _replies =
            stage.subscribe(&caller, stage.private("r", "reply", at_once(1)), &replies).await;
        let reply_to = stage.topic("reply");
        let handler = {
            let (bus, topic) = (Arc::clone(&worker), reply_to.clone());
            Arc::new(move |_: Delivery| {
                let (bus, topic) = (Arc::clone(&bus), topic.clone());
                async move {
                    let published = bus.publish(&topic, message("reply")).await;
                    published.expect("the caller listens");
                    Disposition::Ack
                }
            })
        };

        let _worker =
            stage.subscribe(&worker, stage.durable("w", "ask", at_once(1)), &handler).await;

        let ask = stage.topic("ask");
        stage.publish(&caller, &ask, message("ask")).instrument(tracing::info_span!("call")).await;
        let reply = replies.received(1).await.remove(0).delivery;

        let call = spans.one("call", None).await;
        let request = spans.one("publish", Some(&ask)).await;
        let processed = spans.one("process", Some(&ask)).await;
        let answer = spans.one("publish", Some(&reply_to)).await;
        let received = spans.one("process", Some(&reply_to)).await;
        for (parent, child) in
            [(&call, &request), (&request, &processed), (&processed, &answer), (&answer, &received)]
        {
            assert_eq!(child.parent_span_id, parent.span_context.span_id(), "{child:?}");
            assert_eq!(child.span_context.trace_id(), call.span_context.trace_id(), "{child:?}");
        }

        assert_eq!(request.span_kind, SpanKind::Producer);
        assert_eq!(processed.span_kind, SpanKind::Consumer);
        assert!(processed.parent_span_is_remote, "the parent came over the bus");
        let carried = reply.envelope.trace.expect("the envelope carries its trace");
        let expected = answer.span_context.span_id().to_string();
        assert_eq!(carried.traceparent().split('-').nth(2), Some(expected.as_str()));
    })
    .await;
}

/// A message that comes again is processed as a child of the span that first published it, and not
/// of some span of the broker's adapter.
pub(super) async fn a_redelivery_belongs_to_the_trace_of_its_message(stage: Stage) {
    traced(stage, |stage, spans| async move {
        let bus = stage.bus().await;
        let holds = stage.holds();
        let holding = stage.subscribe(&bus, stage.durable("q", "work", at_once(1)), &holds).await;

        let topic = stage.topic("work");
        stage.publish(&bus, &topic, message("again")).await;
        let first = holds.received(1).await.remove(0).delivery;
        stage.within("killing", holding.kill()).await;

        let acks = stage.acks();
        let _acking = stage.subscribe(&bus, stage.durable("q", "work", at_once(1)), &acks).await;
        let second = acks.received(1).await.remove(0).delivery;
        assert!(second.redelivered, "it comes from a consumer that ended");
        assert!(first.envelope.trace.is_some(), "the span of the publish is carried");
        assert_eq!(first.envelope.trace, second.envelope.trace);

        let published = spans.one("publish", Some(&topic)).await;
        for processed in spans.some(2, "process", Some(&topic)).await {
            assert_eq!(processed.parent_span_id, published.span_context.span_id());
            assert_eq!(processed.span_context.trace_id(), published.span_context.trace_id());
        }
    })
    .await;
}

/// What says every second that a worker lives is in no trace.
pub(super) async fn a_sign_of_life_is_no_span(stage: Stage) {
    traced(stage, |stage, spans| async move {
        let bus = stage.bus().await;
        let probe = stage.acks();
        let _consumer = stage.subscribe(&bus, stage.private("q", "life", at_once(1)), &probe).await;
        let topic = stage.topic("life");
        let alive = Alive { instance: "worker".to_owned(), calls: Vec::new(), ..Alive::default() };
        let (first, second) = (Envelope::of(&alive, "worker"), message("after it"));
        let ids = [first.message_id.clone(), second.message_id.clone()];
        let is_of = |span: &SpanData, index: usize| {
            span.attributes.iter().any(|attribute| *attribute.value.as_str() == ids[index])
        };

        stage.publish(&bus, &topic, first).await;
        stage.publish(&bus, &topic, second).await;
        // One after the other: when the second was processed, so was the first.
        let mut ended = spans.ended.subscribe();
        let is_over =
            |all: &Vec<SpanData>| all.iter().any(|span| span.name == "process" && is_of(span, 1));
        let over = tokio::time::timeout(spans.patience, ended.wait_for(is_over)).await;
        let all = over.expect("the second message has a span").expect("it is kept here");
        assert!(!all.iter().any(|span| is_of(span, 0)), "{all:?}");
    })
    .await;
}

/// Makes sure that spans which one thread does not want are not lost to another that does.
///
/// `tracing` remembers for each place in the code whether anybody wants its spans. While it knows
/// of one subscriber at the most, it asks only the thread that comes by first; and that may be a
/// case without a subscriber, in the moment in which [`traced`] begins elsewhere. So there are two
/// from the beginning, which want nothing, and it asks everybody.
pub(super) fn let_every_thread_decide() {
    static UNINTERESTED: OnceLock<[Dispatch; 2]> = OnceLock::new();
    UNINTERESTED.get_or_init(|| [(), ()].map(|()| Dispatch::new(NoSubscriber::new())));
}

/// Runs a part of a case with an OpenTelemetry layer, on a thread of its own: the layer is seen by
/// what runs there and by no other case.
async fn traced<Fut: Future<Output = ()>>(
    stage: Stage,
    part: impl FnOnce(Stage, Spans) -> Fut + Send + 'static,
) {
    let spans = Spans { ended: Arc::default(), patience: stage.patience() };
    let provider = SdkTracerProvider::builder().with_span_processor(spans.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("conformance"));
    let subscriber = tracing_subscriber::registry().with(layer);
    let thread = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a test machine has descriptors to give");
        tracing::subscriber::with_default(subscriber, || {
            runtime.block_on(async {
                part(stage.clone(), spans).await;
                stage.strike().await;
            });
        });
    });

    if let Err(error) = thread.await {
        std::panic::resume_unwind(error.into_panic());
    }

    // The spans above end while their tracer is still there.
    drop(provider);
}

/// The spans that have ended.
#[derive(Clone)]
struct Spans {
    ended: Arc<watch::Sender<Vec<SpanData>>>,
    patience: Duration,
}

impl Spans {
    /// The one span of this name, about this topic if one is given. Waits until it has ended.
    async fn one(&self, name: &str, topic: Option<&Topic>) -> SpanData {
        self.some(1, name, topic).await.swap_remove(0)
    }

    /// The spans of this name, about this topic if one is given. Waits until so many have ended.
    async fn some(&self, count: usize, name: &str, topic: Option<&Topic>) -> Vec<SpanData> {
        let found = |all: &[SpanData]| -> Vec<_> {
            all.iter().filter(|span| is(span, name, topic)).cloned().collect()
        };

        let mut ended = self.ended.subscribe();
        let wait = ended.wait_for(|all| found(all).len() >= count);
        let in_time = tokio::time::timeout(self.patience, wait).await.is_ok();
        let found = found(&self.ended.borrow());

        if !in_time || found.len() != count {
            let all: Vec<_> = self.ended.borrow().iter().map(|span| span.name.clone()).collect();
            panic!("{count} spans {name} of {topic:?} should have ended, but these did: {all:?}");
        }

        found
    }
}

fn is(span: &SpanData, name: &str, topic: Option<&Topic>) -> bool {
    let about = |topic: &Topic| {
        span.attributes.iter().any(|attribute| {
            attribute.key.as_str() == "messaging.destination.name"
                && attribute.value.as_str() == topic.as_str()
        })
    };
    span.name == name && topic.is_none_or(about)
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spans({})", self.ended.borrow().len())
    }
}

impl SpanProcessor for Spans {
    fn on_start(&self, _: &mut Span, _: &opentelemetry::Context) {}

    fn on_end(&self, span: SpanData) {
        self.ended.send_modify(|all| all.push(span));
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}
