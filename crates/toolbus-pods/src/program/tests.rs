//! How the program is packed.

use flate2::read::ZlibDecoder;

use super::*;

#[test]
fn the_program_takes_little_of_every_pods_description() {
    let text = POD.program();
    assert!(!text.contains("# "), "a comment is left");
    let pack_program = pack_program(&text);
    assert!(pack_program.len() < 13 << 10, "{} bytes", pack_program.len());
    let (_, rest) = pack_program.split_once('"').expect("what is packed");
    let (inner, _) = rest.split_once('"').expect("its end");
    let inner = STANDARD.decode(inner).expect("base64");
    let mut unpacked = String::new();
    ZlibDecoder::new(inner.as_slice()).read_to_string(&mut unpacked).expect("a text");
    assert_eq!(unpacked, text);
}
