use super::*;

#[test]
fn shared_memory_is_known_by_its_inode_and_its_end() {
    let line = "7fe766288000-7fe766388000 rw-s 00001000 00:01 4782    /dev/zero (deleted)";
    assert_eq!(parse_shared_mapping(line), Some((4782, (1 << 20) + 4096)));
    assert_eq!(parse_shared_mapping("no mapping"), None);
}

/// This process is like any other.
#[test]
fn a_process_is_found_with_what_it_holds() {
    let process = PathBuf::from("/proc/self");
    let resident = resident_bytes(&process);
    assert!(resident > 1 << 20, "{resident}");

    let gone = PathBuf::from("/proc/0");
    assert_eq!((resident_bytes(&gone), proportional_bytes(&gone)), (0, 0));
    assert_eq!(mappings_bytes(&[gone]), Some(0));

    let proportional = proportional_bytes(&process);
    assert!((1 << 18..1 << 30).contains(&proportional), "{proportional}");
    assert!(mappings_bytes(&[process]).is_some_and(|bytes| bytes > 0));
}
