use super::is_well_formed;

#[test]
fn cx_v3_a_key_begins_with_acx_and_is_longer_than_12() {
    assert!(is_well_formed("acx_live_1234"));
    assert!(is_well_formed("acx_123456789"));
    assert!(!is_well_formed("acx_12345678"));
    assert!(!is_well_formed("abc_live_12345678"));
    assert!(!is_well_formed(&format!("acx_{}", "a".repeat(1_000))));
}
