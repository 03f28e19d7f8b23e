//! Which definitions lead back to themselves.

use proptest::prelude::*;

use super::*;

/// Whether one node leads to another, by at least one edge.
fn leads_to(targets: &[Vec<usize>], from: usize, to: usize) -> bool {
    let mut is_seen = vec![false; targets.len()];
    let mut open = targets[from].clone();
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut is_seen[node], true) {
            open.extend(&targets[node]);
        }
    }
    is_seen[to]
}

fn graph() -> impl Strategy<Value = Vec<Vec<usize>>> {
    let nodes = 1..9_usize;
    nodes.prop_flat_map(|nodes| prop::collection::vec(prop::collection::vec(0..nodes, 0..4), nodes))
}

proptest! {
    #[test]
    fn a_group_is_what_leads_to_each_other(targets in graph()) {
        let groups = groups_of(&targets);
        prop_assert_eq!(groups.len(), targets.len());
        for (one, group) in groups.iter().enumerate() {
            prop_assert!(group.is_some());
            for (other, other_group) in groups.iter().enumerate() {
                let is_cycle = leads_to(&targets, one, other) && leads_to(&targets, other, one);
                prop_assert_eq!(group == other_group, one == other || is_cycle);
            }
        }
    }
}

#[test]
fn a_long_way_takes_no_stack() {
    const NODES: usize = 100_000;
    let ring: Vec<Vec<usize>> = (1..=NODES).map(|node| vec![node % NODES]).collect();
    assert_eq!(groups_of(&ring), vec![Some(0); NODES]);
    let line: Vec<Vec<usize>> = (1..=NODES).map(|node| (node..NODES).take(1).collect()).collect();
    assert_eq!(groups_of(&line), (0..NODES).map(Some).collect::<Vec<_>>());
}
