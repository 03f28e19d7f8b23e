//! The metrics of this program: the one place where they are defined. What is counted of every
//! script, whatever runs it, is defined beside the service that takes them.

use toolbus_telemetry::{Kind, Metric};

/// The name of the meter, which is the scope of these metrics.
pub(crate) const METER: &str = "toolbus.scripts-manager";

pub(crate) const REASON: &str = "toolbus.reason";
pub(crate) const OUTCOME: &str = "toolbus.outcome";

pub(crate) const WARM_CLAIMS: Metric = Metric {
    name: "toolbus.scripts.warm.claims",
    kind: Kind::Counter,
    unit: "{script}",
    description: "Scripts by whether they were given a warm pod: `hit`, or `none` where none waited, \
                  `lost` where those that did could not be had, `unsuited` where the script asks for \
                  what no warm pod can do",
    attributes: &[REASON],
};
pub(crate) const WARM_REFILLS: Metric = Metric {
    name: "toolbus.scripts.warm.refills",
    kind: Kind::Counter,
    unit: "{attempt}",
    description: "Attempts to make a warm pod, `ok` or `failed`",
    attributes: &[OUTCOME],
};
pub(crate) const WARM_PODS: Metric = Metric {
    name: "toolbus.scripts.warm.pods",
    kind: Kind::UpDownCounter,
    unit: "{pod}",
    description: "Warm pods that wait for a script",
    attributes: &[],
};
pub(crate) const WARM_SIZE: Metric = Metric {
    name: "toolbus.scripts.warm.size",
    kind: Kind::UpDownCounter,
    unit: "{pod}",
    description: "Warm pods that are to wait for a script",
    attributes: &[],
};

/// Every metric of this program.
pub const METRICS: &[Metric] = &[WARM_CLAIMS, WARM_REFILLS, WARM_PODS, WARM_SIZE];
