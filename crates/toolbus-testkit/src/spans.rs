//! The spans of one test, as a collector would be sent them.

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing_subscriber::layer::SubscriberExt as _;

/// Keeps the spans of the thread on which it was made, until it is dropped.
pub struct Spans {
    exporter: InMemorySpanExporter,
    /// With one subscriber alone, whether a span is wanted is asked once, of the thread that comes
    /// by first; and that may be another test. With several, all of them are asked.
    _others: [Dispatch; 2],
    _here: DefaultGuard,
}

impl Spans {
    /// Keeps the spans of this thread from now on.
    #[must_use]
    pub fn here() -> Self {
        let others = [(), ()].map(|()| Dispatch::new(NoSubscriber::new()));
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let here = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        Self { exporter, _others: others, _here: here }
    }

    /// Those that have ended, in the order in which they have.
    ///
    /// # Panics
    /// When a test that exported a span panicked meanwhile.
    #[must_use]
    pub fn ended(&self) -> Vec<SpanData> {
        self.exporter.get_finished_spans().expect("nobody panicked while a span was kept")
    }
}
