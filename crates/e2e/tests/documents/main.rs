//! What the pages tell a reader to do works, and prints what they say: every block of commands in
//! README.md and docs/ is run in order, in an empty folder with an empty home. What cannot be run is
//! excused in `lists.rs`, one by one and with a reason.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod blocks;
mod lists;
mod printed;
mod programs;
mod run;
mod world;

/// Runs a page.
async fn check(path: &str) {
    let page = lists::PAGES.iter().find(|page| page.path == path).unwrap();
    let Some(faults) = run::faults_of(page).await else { return };
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

/// A test for each page.
macro_rules! pages {
    ($($name:ident: $path:literal;)+) => {
        $(
            #[tokio::test]
            async fn $name() {
                check($path).await;
            }
        )+

        #[test]
        fn every_page_with_commands_is_run() {
            let tested = [$($path),+];
            let listed: Vec<_> = lists::PAGES.iter().map(|page| page.path).collect();
            assert_eq!(listed, tested);
            for page in blocks::pages() {
                let blocks = blocks::blocks_of(&page);
                let has_commands = !blocks::commands_of(&blocks).is_empty();
                assert_eq!(has_commands, tested.contains(&&*page), "{page}");
            }
        }
    };
}

pages! {
    readme: "README.md";
    agent: "docs/agent.md";
    approvals: "docs/approvals.md";
    artifacts: "docs/artifacts.md";
    audit: "docs/audit.md";
    chains: "docs/chains.md";
    discovery: "docs/discovery.md";
    install: "docs/install.md";
    mcp_json: "docs/mcp-json.md";
    operations: "docs/operations.md";
    scripts: "docs/scripts.md";
    security: "docs/security.md";
    trouble: "docs/trouble.md";
    tutorial: "docs/tutorial.md";
}
