//! What a subagent may see and do: never more than who has spawned it.

use toolbus_tools::budget::BudgetLimits;
use toolbus_tools::id::{CallId, SessionId};
use toolbus_tools::{Scope, View};

/// What the sessions of subagents begin with.
const SESSION_PREFIX: &str = "subagent/";
/// The place that a subagent is inside of, for [`View::inside`].
const PLACE: &str = "subagent";
/// What a subagent does not see: what outlives it, what it would wait for in vain, and its like.
const WITHHELD: [&str; 7] = [
    "subagent/spawn_subagent",
    "subagent/cancel_subagent",
    "subagent/list_subagents",
    "scheduling/*",
    "a2a/*",
    "mcp:management/mcp_register_server",
    "mcp:management/mcp_unregister_server",
];

/// The part of a view that a subagent sees.
fn subagent_view(view: &View) -> View {
    view.without(WITHHELD).inside(PLACE)
}

/// The session that a subagent works in.
pub(crate) fn subagent_session(id: &str) -> Option<SessionId> {
    SessionId::parse(format!("{SESSION_PREFIX}{id}")).ok()
}

/// The id of the subagent whose session this is.
pub(crate) fn subagent_of(session: &SessionId) -> Option<&str> {
    session.as_str().strip_prefix(SESSION_PREFIX)
}

/// The scope of a subagent that a call spawns: with the caller's door, so that rules for doors hold
/// below it, and with an account of its own within the caller's budget. It goes on when a chain
/// that has spawned it is over. `None`: nested too deep.
pub(crate) fn child_scope(caller: &Scope, call: &CallId, session: SessionId) -> Option<Scope> {
    let child = caller.child(caller.door, call)?.outliving();
    let budget = child.budget.child(BudgetLimits::default());
    let view = subagent_view(&child.view);
    Some(child.with_session(Some(session)).with_budget(budget).with_view(view))
}
