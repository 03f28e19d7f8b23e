//! Warns about an agent that makes grants for all calls from the bus. Such an agent seals every
//! call that its policy allows, and everyone with the broker's credentials can make such calls.

use toolbus_config::Finding;
use toolbus_policy::{Effect, PolicySettings, RuleSettings};
use toolbus_tools::Door;

use crate::settings::Settings;

const UNDECIDED: &str = "calls from the bus get grants, and no rule of the policy decides about \
                         them: everybody with the broker's credentials can run tools through this \
                         agent";
const MEND: &str = "add rules with doors = [\"bus\"] to the section policy, or set policy.preset = \
                    \"strict\" or policy.default = \"deny\"";

/// Returns a finding if an agent on a broker makes grants for all calls from the bus.
pub(crate) fn examine(settings: &Settings) -> Option<Finding> {
    let makes_grants = settings.bus.url.is_some() && settings.grants.has_key();
    let is_open = makes_grants && !decides_about_bus(&settings.policy);
    is_open.then(|| Finding::note("grants", UNDECIDED).mended_by(MEND))
}

/// Logs the same finding at startup.
pub(crate) fn warn(settings: &Settings) {
    if examine(settings).is_some() {
        tracing::warn!(mend = MEND, "{UNDECIDED}");
    }
}

/// Returns true if the policy decides about calls from the bus: by its default, by a rule for this
/// door, or by a rule for every door whose effect is not `allow`.
fn decides_about_bus(policy: &PolicySettings) -> bool {
    let decides = |rule: &RuleSettings| match &rule.doors {
        Some(doors) => doors.contains(&Door::Bus),
        None => rule.effect != Effect::Allow,
    };
    policy.default != Effect::Allow
        || policy.approval_required_risk.is_some()
        || policy.with_preset_rules().rules.iter().any(decides)
}

#[cfg(test)]
mod tests;
