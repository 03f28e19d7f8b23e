//! The check of the policy.

use toolbus_config::Finding;
use toolbus_policy::PolicySettings;

/// Reports the active preset and the number of rules that the operator has added.
pub(super) fn describe(policy: &PolicySettings) -> Finding {
    let preset = policy
        .preset
        .map_or_else(|| "no preset".to_owned(), |preset| format!("the preset {preset} is active"));
    let own = match policy.rules.len() {
        0 => "no rules of the settings".to_owned(),
        1 => "1 rule of the settings".to_owned(),
        count => format!("{count} rules of the settings"),
    };
    Finding::ok("policy", format!("{preset}, {own}: agent-host policy show prints it"))
}

#[cfg(test)]
mod tests;
