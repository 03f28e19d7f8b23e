use super::*;
use crate::FindingState;

#[test]
fn a_missing_part_names_its_feature() {
    let error = LeftOut(BuildFeature::Postgres).to_string();
    assert_eq!(error, "this build has no PostgreSQL support; build with --features postgres");
}

#[test]
fn names_are_sorted_and_unique() {
    let names = BuildFeature::ALL.map(BuildFeature::name);
    assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
}

#[test]
fn doctor_lists_missing_parts_with_the_command_that_adds_them() {
    assert_eq!(examine("agent-host", &[]), None);
    let found = examine("agent-host", &[BuildFeature::Postgres, BuildFeature::S3]).unwrap();
    assert_eq!((&*found.name, found.state), ("build", FindingState::Note));
    assert_eq!(found.detail, "left out: PostgreSQL support (postgres), S3 support (s3)");
    let command = "cargo build --package agent-host --features postgres,s3";
    assert_eq!(found.mend.as_deref(), Some(command));
}
