//! Gauges that are read from a pool at each export of metrics.

use std::sync::Arc;

use opentelemetry::global;
use toolbus_telemetry::Metric;
use toolbus_telemetry::mcp::Labels;

use super::WeakServerPool;
use crate::metrics::{CIRCUIT_OPEN, METER, TOOLS, UP};
use crate::server::ServerState;

/// Registers the gauges of a pool. They report nothing once the pool is dropped.
pub(super) fn observe_servers(pool: WeakServerPool) {
    let pool = Arc::new(pool);
    let meter = &global::meter(METER);
    let gauge = |metric: &Metric, value: fn(&ServerState) -> Option<u64>| {
        let pool = Arc::clone(&pool);
        let labels = Labels::default();

        metric.observed_gauge(meter, move |observer| {
            for (name, state) in pool.upgrade().iter().flat_map(|pool| pool.states()) {
                if let Some(value) = value(&state) {
                    observer.observe(value, &[labels.server(name.as_str())]);
                }
            }
        });
    };

    gauge(&UP, |state| match state {
        ServerState::Disabled | ServerState::Standby => None,
        state => Some(u64::from(matches!(state, ServerState::Connected { .. }))),
    });
    gauge(&CIRCUIT_OPEN, |state| match state {
        ServerState::Disabled | ServerState::Standby => None,
        ServerState::Failed { is_circuit_open, .. } => Some(u64::from(*is_circuit_open)),
        _ => Some(0),
    });
    gauge(&TOOLS, |state| match state {
        ServerState::Connected { tools, .. } => Some(*tools as u64),
        _ => None,
    });
}
