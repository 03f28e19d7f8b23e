//! What is looked up of a set at each export of metrics.

use std::sync::Arc;

use opentelemetry::global;
use toolbus_telemetry::Metric;
use toolbus_telemetry::mcp::Labels;

use super::Reference;
use crate::metrics::{METER, TOOLS, UP};
use crate::server::State;

/// Makes what is looked up at each export. Servers of a set that is gone are not looked up any
/// more.
pub(super) fn observe(set: Reference) {
    let set = Arc::new(set);
    let meter = &global::meter(METER);
    let gauge = |metric: &Metric, value: fn(&State) -> Option<u64>| {
        let (set, labels) = (Arc::clone(&set), Labels::default());
        metric.observed_gauge(meter, move |observer| {
            for (name, state) in set.upgrade().iter().flat_map(|set| set.states()) {
                if let Some(value) = value(&state) {
                    observer.observe(value, &[labels.server(name.as_str())]);
                }
            }
        });
    };
    gauge(&UP, |state| Some(u64::from(matches!(state, State::Connected { .. }))));
    gauge(&TOOLS, |state| match state {
        State::Connected { tools, .. } => Some(*tools as u64),
        _ => None,
    });
}
