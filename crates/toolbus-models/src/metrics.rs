//! The metrics and spans of models: the one place where they are defined. Their names are
//! OpenTelemetry's.

use std::time::Duration;

use opentelemetry::metrics::{Counter, Histogram};
use opentelemetry::{KeyValue, global};
use toolbus_telemetry::{CALL_SECONDS, Kind, Metric, Span, SpanKind};

use crate::completion::{Completion, TokenUsage};
use crate::error::ModelError;

/// The name of the meter, which is the scope of these metrics.
const METER: &str = "toolbus.models";

const OPERATION: &str = "gen_ai.operation.name";
const PROVIDER: &str = "gen_ai.provider.name";
const MODEL: &str = "gen_ai.request.model";
const TOKEN_TYPE: &str = "gen_ai.token.type";
const ERROR: &str = "error.type";

/// Bounds of histograms of tokens: those that OpenTelemetry names, as far as requests go.
const TOKENS: &[f64] =
    &[1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0];

const DURATION: Metric = Metric {
    name: "gen_ai.client.operation.duration",
    kind: Kind::Histogram(CALL_SECONDS),
    unit: "s",
    description: "How long requests to models took, each attempt by itself, until the end of the \
                  answer or the error",
    attributes: &[OPERATION, PROVIDER, MODEL, ERROR],
};
const TOKEN_USAGE: Metric = Metric {
    name: "gen_ai.client.token.usage",
    kind: Kind::Histogram(TOKENS),
    unit: "{token}",
    description: "Tokens of a request (`input`, those from a cache among them) and of its answer \
                  (`output`), as the API counts them, else estimated by their lengths",
    attributes: &[OPERATION, PROVIDER, MODEL, TOKEN_TYPE],
};
const COST: Metric = Metric {
    name: "toolbus.model.cost",
    kind: Kind::Counter,
    unit: "{microdollar}",
    description: "What answers cost, in millionths of a US dollar, where the API says it or the \
                  settings have prices",
    attributes: &[PROVIDER, MODEL],
};

/// Every metric of this crate.
pub const METRICS: &[Metric] = &[DURATION, TOKEN_USAGE, COST];

/// Every span of this crate.
pub const SPANS: &[Span] = &[Span {
    name: "chat {model}",
    kind: SpanKind::Client,
    description: "A request to a model, from its key to the end of its answer",
    attributes: &[
        OPERATION,
        PROVIDER,
        MODEL,
        "gen_ai.response.model",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
    ],
}];

/// The span of a request.
pub(crate) fn chat_span(model: &str, provider: &str) -> tracing::Span {
    tracing::info_span!(
        "chat",
        otel.name = format!("chat {model}"),
        otel.kind = "client",
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider,
        gen_ai.request.model = model,
        gen_ai.response.model = tracing::field::Empty,
        gen_ai.usage.input_tokens = tracing::field::Empty,
        gen_ai.usage.output_tokens = tracing::field::Empty,
    )
}

/// Notes on the span of a request what its answer took.
pub(crate) fn record_usage(completion: &Completion) {
    let span = tracing::Span::current();
    span.record("gen_ai.response.model", completion.model.as_str());
    span.record("gen_ai.usage.input_tokens", completion.usage.input);
    span.record("gen_ai.usage.output_tokens", completion.usage.output);
}

/// Records the requests of one model.
#[derive(Debug)]
pub(crate) struct Recorder {
    duration: Histogram<f64>,
    tokens: Histogram<f64>,
    cost: Counter<u64>,
    provider: KeyValue,
    model: KeyValue,
}

impl Recorder {
    pub(crate) fn new(model: &str, provider: &'static str) -> Self {
        let meter = global::meter(METER);
        Self {
            duration: DURATION.histogram(&meter),
            tokens: TOKEN_USAGE.histogram(&meter),
            cost: COST.counter(&meter),
            provider: KeyValue::new(PROVIDER, provider),
            model: KeyValue::new(MODEL, model.to_owned()),
        }
    }

    /// Records a request that came to its end.
    pub(crate) fn record(&self, took: Duration, result: &Result<Completion, ModelError>) {
        let operation = KeyValue::new(OPERATION, "chat");
        let mut attributes = vec![operation, self.provider.clone(), self.model.clone()];
        let usage = match result {
            Ok(completion) => Some(completion.usage),
            Err(error) => error.partial.as_ref().map(|partial| partial.usage),
        };
        if let Some(usage) = usage {
            self.record_usage(usage, &attributes);
        }
        if let Err(error) = result {
            attributes.push(KeyValue::new(ERROR, error.kind.label()));
        }
        self.duration.record(took.as_secs_f64(), &attributes);
    }

    fn record_usage(&self, usage: TokenUsage, attributes: &[KeyValue]) {
        for (kind, count) in [("input", usage.input), ("output", usage.output)] {
            let kind = [KeyValue::new(TOKEN_TYPE, kind)];
            self.tokens.record(count as f64, &[attributes, &kind].concat());
        }
        if let Some(cost) = usage.cost_micro_usd {
            self.cost.add(cost, &[self.provider.clone(), self.model.clone()]);
        }
    }
}
