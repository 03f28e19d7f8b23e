//! Paths in variables.

use super::*;

#[test]
fn paths_are_found_in_variables() {
    let paths = |value: &str| {
        let trees = paths_in_variable(value);
        trees.into_iter().map(|tree| tree.path.display().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(paths("/etc/ssl/certs"), ["/etc/ssl/certs"]);
    assert_eq!(paths("/opt/wheels file:///srv/w"), ["/opt/wheels", "/srv/w"]);
    assert_eq!(paths("https://me:secret@example.org/simple"), [""; 0]);
    assert_eq!(paths("/etc/ssl/certs:/srv/certs"), ["/etc/ssl/certs", "/srv/certs"]);
    assert_eq!(paths("1"), [""; 0]);
    assert_eq!(paths("/"), [""; 0], "the root is never mounted");
}
