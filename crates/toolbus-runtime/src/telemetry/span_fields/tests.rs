//! The fields are those that the library's own formatter writes.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

use super::*;

/// Keeps what was made of each span's fields when it closes.
struct Keep<F>(F, Arc<Mutex<Vec<Value>>>);

impl<S, F> Layer<S> for Keep<F>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    F: for<'a> FormatFields<'a> + 'static,
{
    fn on_new_span(
        &self,
        attributes: &tracing::span::Attributes<'_>,
        id: &tracing::Id,
        context: Context<'_, S>,
    ) {
        let mut fields = FormattedFields::<F>::new(String::new());
        self.0.format_fields(fields.as_writer(), attributes).unwrap();
        context.span(id).unwrap().extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &tracing::Id, record: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let mut extensions = span.extensions_mut();
        self.0.add_fields(extensions.get_mut::<FormattedFields<F>>().unwrap(), record).unwrap();
    }

    fn on_close(&self, id: tracing::Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        let extensions = span.extensions();
        let fields = &extensions.get::<FormattedFields<F>>().unwrap().fields;
        self.1.lock().unwrap().push(serde_json::from_str(fields).expect(fields));
    }
}

fn kept<F>(formatter: F) -> Vec<Value>
where
    F: for<'a> FormatFields<'a> + Send + Sync + 'static,
{
    let spans = Arc::default();
    let subscriber = Registry::default().with(Keep(formatter, Arc::clone(&spans)));
    tracing::subscriber::with_default(subscriber, || {
        drop(tracing::info_span!("nothing"));
        let late = tracing::info_span!("late", late = tracing::field::Empty);
        late.record("late", "\u{1F980} \"quoted\"\n\u{0}\\");
        drop(late);
        let many = tracing::info_span!(
            "many",
            text = "a",
            shown = %"b\"",
            debugged = ?Some("c"),
            whole = -1_i64,
            large = u64::MAX,
            half = 0.5,
            infinite = f64::INFINITY,
            r#type = true,
            dotted.name = "d",
            again = 1,
            unset = tracing::field::Empty,
        );
        many.record("again", "twice");
        many.record("unset", 7);
    });
    let spans: &Mutex<Vec<Value>> = &spans;
    spans.lock().unwrap().clone()
}

#[test]
fn fields_are_those_of_the_librarys_own_formatter() {
    let ours = kept(SpanFields);
    assert_eq!(ours, kept(JsonFields::new()));
    assert_eq!(ours[2]["again"], "twice");
    assert_eq!(ours.len(), 3);
}
