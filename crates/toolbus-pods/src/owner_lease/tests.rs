//! Which Lease is the owner.

use serde_json::json;

use super::*;

fn lease(name: &str, deleted: Option<&str>) -> Lease {
    let metadata =
        json!({"name": name, "uid": format!("uid of {name}"), "deletionTimestamp": deleted});
    serde_json::from_value(json!({"metadata": metadata})).expect("a Lease")
}

#[test]
fn what_is_made_belongs_to_the_lease_of_the_installation_as_long_as_that_is_there() {
    let owner = OwnerLease::default();
    let managers = "toolbus-scripts-0f3c";
    assert_eq!(owner.references(), None);
    owner.update(&[lease(managers, None)]);
    assert_eq!(owner.references(), None);
    owner.update(&[lease(managers, None), lease(NAME, None)]);
    let expected = json!([{
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "name": "toolbus-scripts",
        "uid": "uid of toolbus-scripts",
    }]);
    assert_eq!(json!(owner.references()), expected);
    owner.update(&[lease(NAME, Some("2026-01-01T00:00:00Z"))]);
    assert_eq!(owner.references(), None);
}
