//! Judging what a canary says.

use toolbus_scripts::runner::Captured;

use super::*;

fn outcome(text: &str, ending: Ending) -> Result<Outcome, Error> {
    let text = Captured { text: text.to_owned(), truncated: false };
    Ok(Outcome {
        output: text.clone(),
        stdout: text,
        stderr: Captured::default(),
        ending,
        elapsed: Duration::ZERO,
        usage: None,
        produced: toolbus_scripts::files::Produced::default(),
    })
}

fn check(text: &str, ending: Ending) -> Result<(), Unavailable> {
    check_canary(outcome(text, ending), Network::Denied)
}

/// With a network, what it shows counts for nothing, and everything else still does.
#[test]
fn a_network_is_no_leak_where_it_is_allowed() {
    let open = FACTS.replace("routes 0", "routes 3").replace("socket refused", "socket allowed");
    let found = |text: &str| outcome(text, Ending::Exited(0));
    assert_eq!(check_canary(found(&open), Network::Allowed), Ok(()));
    assert!(matches!(check(&open, Ending::Exited(0)), Err(Unavailable::Leak { .. })));

    let leaky = open.replace("usr refused", "usr allowed");
    let judged = check_canary(found(&leaky), Network::Allowed);
    assert!(matches!(judged, Err(Unavailable::Leak { .. })), "{judged:?}");
}

#[test]
fn every_fact_counts() {
    assert_eq!(check(FACTS, Ending::Exited(0)), Ok(()));

    for fact in FACTS.lines() {
        let changed = FACTS.replace(fact, &format!("{fact} and more"));
        let judged = check(&changed, Ending::Exited(0));
        assert!(matches!(judged, Err(Unavailable::Leak { .. })), "{fact}: {judged:?}");
        let missing: String =
            FACTS.lines().filter(|line| *line != fact).map(|line| format!("{line}\n")).collect();
        assert!(check(&missing, Ending::Exited(0)).is_err(), "{fact} may be left out");
    }

    assert!(check(FACTS, Ending::Exited(1)).is_err());
    assert!(check_canary(Err(Error::Failed("no".to_owned())), Network::Denied).is_err());
}

#[test]
fn versions_are_compared_as_numbers() {
    for (text, expected) in [
        ("0.8.0", Some([0, 8])),
        ("0.11.1", Some([0, 11])),
        ("6.18.44-x", Some([6, 18])),
        ("x", None),
    ] {
        assert_eq!(parse_version(text), expected, "{text}");
    }
    assert!(
        parse_version("0.11.0") >= Some(BWRAP_OLDEST)
            && parse_version("0.6.1") < Some(BWRAP_OLDEST)
    );
}

#[tokio::test]
async fn a_missing_or_old_bubblewrap_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let fake = folder.path().join("bwrap");
    std::fs::write(&fake, "#!/bin/sh\necho bubblewrap 0.4.0\n").expect("written");
    std::fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("set");

    match find_bwrap(Some(&fake)).await {
        // The system's own comes first.
        Ok(path) => assert_eq!(path, Path::new(BWRAP)),
        Err(unavailable) => {
            let found = "0.4.0".to_owned();
            assert_eq!(unavailable, Unavailable::BubblewrapOld { path: fake, found });
        }
    }
}
