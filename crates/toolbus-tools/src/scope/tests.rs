use super::*;
use crate::id::ToolId;

fn scope() -> Scope {
    Scope::new(Door::Turn, Principal::local(), AgentName::parse("RockBot").unwrap())
}

#[test]
fn a_child_has_its_parents_bounds_and_ends_with_it() {
    let parent = scope().with_budget(Budget::calls(1)).with_view(View::all().only(["script/*"]));
    let child = parent.child(Door::Chain, &CallId::random()).unwrap();
    assert_eq!((child.depth, &child.run, child.door), (1, &parent.run, Door::Chain));
    assert!(!child.view.sees(&ToolId::of("mcp:x", "y")));
    assert!(child.budget.charge_call().is_ok());
    assert!(parent.budget.charge_call().is_err());

    child.cancelled.cancel();
    assert!(!parent.cancelled.is_cancelled());
    let child = parent.child(Door::Chain, &CallId::random()).unwrap();
    // What is to go on afterwards is cancelled with the outermost scope, and so is what it starts.
    let grandchild = parent.child(Door::Chain, &CallId::random()).unwrap();
    let grandchild = grandchild.child(Door::Chain, &CallId::random()).unwrap();
    let going_on = grandchild.clone().outliving();
    let below = going_on.child(Door::Chain, &CallId::random()).unwrap().outliving();
    grandchild.cancelled.cancel();
    assert!(!going_on.cancelled.is_cancelled());

    parent.cancelled.cancel();
    assert!(child.cancelled.is_cancelled());
    assert!(going_on.cancelled.is_cancelled() && below.cancelled.is_cancelled());
    let own = parent.clone().outliving();
    assert!(own.cancelled.is_cancelled(), "an outermost scope is outlived by nothing");
}

#[test]
fn scopes_are_nested_only_so_deep() {
    let mut scope = scope();
    for _ in 0..DEPTH_MAX {
        scope = scope.child(Door::Chain, &CallId::random()).unwrap();
    }
    assert!(scope.child(Door::Chain, &CallId::random()).is_none());
}

#[test]
fn a_claimed_name_is_bounded() {
    assert_eq!(Principal::claimed(&"ä".repeat(1_000)).name.len(), crate::id::ID_BYTES_MAX);
}

#[test]
fn doors_are_in_the_order_in_which_calls_came_through_them() {
    let came = DoorSet::of(&[Door::Mcp, Door::Schedule, Door::Mcp]);
    let scope = scope().with_earlier_doors(came);
    let child = scope.child(Door::Chain, &CallId::random()).unwrap();
    let child = child.child(Door::Turn, &CallId::random()).unwrap();
    assert_eq!(child.doors.to_string(), "mcp,schedule,turn,chain");
    let json = serde_json::to_value(child.doors).unwrap();
    assert_eq!(json, serde_json::json!(["mcp", "schedule", "turn", "chain"]));
    let read: DoorSet = serde_json::from_value(json).unwrap();
    assert_eq!(read.to_string(), child.doors.to_string());

    let (all, reversed) = (Door::ALL, Door::ALL.map(|door| Door::ALL[7 - door.position()]));
    assert_eq!(DoorSet::of(&reversed).iter().collect::<Vec<_>>(), reversed);
    assert_eq!(DoorSet::of(&all), DoorSet::of(&reversed), "sets are equal in any order");
    assert_ne!(DoorSet::of(&all[1..]), DoorSet::of(&all));
    assert_eq!(DoorSet::default().iter().next(), None);
}

#[test]
fn a_door_is_written_as_it_is_read() {
    for (position, door) in Door::ALL.into_iter().enumerate() {
        assert_eq!(door.position(), position);
        assert_eq!(serde_json::to_value(door).unwrap(), door.as_str());
        assert_eq!(serde_json::from_value::<Door>(door.as_str().into()).unwrap(), door);
    }
}
