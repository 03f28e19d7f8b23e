//! Who has a name, whatever comes and goes.

use super::*;

fn tools(names: &[&str], since_ms: u64) -> Vec<(Box<str>, u64)> {
    names.iter().map(|name| ((*name).into(), since_ms)).collect()
}

#[test]
fn the_first_keeps_a_name() {
    let claims = Claims::default();
    claims.set(2, tools(&["echo", "add"], 100));
    claims.set(1, tools(&["echo"], 200));
    assert_eq!(claims.owner("echo"), Some(2), "first seen goes before the order");
    assert_eq!(claims.name_clashes(1), [("echo".into(), 2)]);
    assert_eq!(claims.name_clashes(2), []);
    claims.set(0, tools(&["add"], 100));
    assert_eq!(claims.owner("add"), Some(0), "seen at the same time, the order decides");
    claims.set(2, tools(&["add"], 100));
    assert_eq!(claims.owner("echo"), Some(1), "given up");
    claims.release(0);
    claims.release(1);
    assert_eq!((claims.owner("add"), claims.owner("echo")), (Some(2), None));
    claims.release(2);
    let name = |text| ServerName::parse(text).expect("a name");
    assert_eq!((claims.position(&name("a")), claims.position(&name("b"))), (0, 1));
    assert_eq!(claims.position(&name("A")), 0, "whoever replaces a server has its place");
    claims.release(0);
    assert_eq!(claims.position(&name("a")), 2);
    assert!(claims.0.read().by_tool.is_empty() && claims.0.read().by_server.is_empty());
}
