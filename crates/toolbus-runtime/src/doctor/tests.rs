use super::*;

fn findings() -> Vec<Finding> {
    vec![
        Finding::ok("broker", "embedded"),
        Finding::note("programs", "npx is not there").mended_by("install Node.js"),
        Finding::wrong("mcp time", "it says \u{1b}[31m\u{202e}no"),
    ]
}

#[test]
fn each_finding_is_a_line_and_what_mends_it_is_below() {
    let expected = "\
broker    ok     embedded
programs  note   npx is not there
                 -> install Node.js
mcp time  wrong  it says  [31mno

one thing is wrong
";
    assert_eq!(render(&findings(), false), expected);
    let colored = render(&findings()[..2], true);
    assert!(colored.contains("\u{1b}[33mnote \u{1b}[0m"), "{colored:?}");
    assert!(colored.contains("nothing is wrong, 1 to note"), "{colored:?}");
    assert!(render(&findings()[..1], false).ends_with("\nall is well\n"));
}

#[test]
fn long_details_are_cut() {
    let long = Finding::wrong("model", "x".repeat(2 * DETAIL_CHARS_MAX));
    let text = render(&[long], false);
    assert!(text.contains("x…\n") && text.len() < DETAIL_CHARS_MAX + 100, "{}", text.len());
}

#[tokio::test(start_paused = true)]
async fn a_check_that_takes_too_long_is_wrong() {
    let never = std::future::pending();
    let found = within("store", Duration::from_secs(3), never).await;
    assert_eq!(found, [Finding::wrong("store", "it did not answer within 3 s")]);
}

#[tokio::test]
async fn a_port_is_free_or_says_whose_it_is() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string().parse().unwrap();
    // It hangs up on who asks.
    let hangs_up = std::thread::spawn(move || drop(taken.accept()));
    let found = check_port("http.address", &address).await;
    assert_eq!(found.detail, "in use by another program");
    assert!(found.mend.unwrap().contains("http.address"));
    hangs_up.join().unwrap();

    let found = check_port("http.address", &"127.0.0.1:0".parse().unwrap()).await;
    assert_eq!(found.state, FindingState::Ok, "{found:?}");
    let health = crate::health::serve(&"127.0.0.1:0".parse().unwrap(), Default::default()).await;
    let address = health.as_ref().unwrap().address().to_string().parse().unwrap();
    let found = check_port("health.address", &address).await;
    assert_eq!(found.detail, "in use, by a service of Toolbus that runs");
}
