//! Claims, and lines that stay whole.

use super::*;

#[test]
fn a_program_is_run_in_one_lane() {
    let claims = LaneClaims::new().expect("a folder");
    let folder = claims.folder.clone();
    for (program, is_first) in [("/a/fleet-1", true), ("/a/fleet-1", false), ("/b/fleet-2", true)] {
        assert_eq!(claim_in(&folder, Path::new(program)).expect("it is claimed"), is_first);
    }
    drop(claims);
    assert!(!folder.exists());
    assert!(claim_in(&folder, Path::new("/a/fleet-1")).is_err());
}

#[test]
fn lines_of_a_lane_are_whole_and_numbered() {
    let mut written = Vec::new();
    let mut output = LaneOutput::new(Some(2), &mut written);
    for piece in ["test a ... ", "ok\ntest", " b ... ok\n\nrest"] {
        output.write_all(piece.as_bytes()).expect("written");
    }
    assert_eq!(written, b"2| test a ... ok\n2| test b ... ok\n2| \n");

    let mut written = Vec::new();
    LaneOutput::new(None, &mut written).write_all(b"test a ... ").expect("written");
    assert_eq!(written, b"test a ... ");
}
