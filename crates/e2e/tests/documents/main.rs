//! What the pages tell a reader to do works, and prints what they say: every block of commands in
//! README.md and docs/ is run in order, in an empty folder with an empty home. What cannot be run is
//! excused in `lists.rs`, one by one and with a reason.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod blocks;
mod lists;
mod options;
mod printed;
mod programs;
mod run;
mod settings;
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

/// An excuse, a substitute or a program that nothing needs any more is taken out.
#[test]
fn every_item_of_the_lists_fits_something() {
    let mut reasons = Vec::new();
    let texts = |page: &str| std::fs::read_to_string(blocks::root().join(page)).unwrap();
    for excuse in lists::EXCUSED_BLOCKS {
        let blocks = blocks::blocks_of(excuse.page);
        let found = blocks.iter().any(|block| block.first_line() == excuse.line);
        assert!(found, "{} has no block that begins with {:?}", excuse.page, excuse.line);
        reasons.push(excuse.reason);
    }

    let commands = lists::EXCUSED_COMMANDS.iter().map(|excuse| (excuse.page, excuse.line));
    let commands = commands.chain(lists::SERVICES.iter().map(|item| (item.page, item.command)));
    let commands = commands.chain(lists::BEFORE.iter().map(|item| (item.page, item.command)));
    for (page, line) in commands {
        let blocks = blocks::blocks_of(page);
        let commands = blocks::commands_of(&blocks);
        let mut commands = commands.iter().flat_map(|(_, commands)| commands);
        let found = commands.any(|command| lists::first_line(command) == line);
        assert!(found, "{page} has no command {line:?}");
    }
    reasons.extend(lists::EXCUSED_COMMANDS.iter().map(|excuse| excuse.reason));

    for substitute in lists::SUBSTITUTES {
        for page in substitute.pages {
            assert!(texts(page).contains(substitute.text), "{page} has no {:?}", substitute.text);
        }
        reasons.push(substitute.reason);
    }
    for program in lists::PROGRAMS {
        for page in program.pages {
            let given = lists::PAGES.iter().find(|other| other.path == *page).unwrap().given;
            let is_started = [&texts(page), given].iter().any(|text| text.contains(program.name));
            assert!(is_started, "{page} starts no {}", program.name);
        }
        reasons.push(program.reason);
    }
    assert!(reasons.iter().all(|reason| reason.len() > 10), "{reasons:?}");
}

/// The programs that the tutorial shows are those that are compiled and run here.
#[test]
fn the_programs_of_the_tutorial_are_these() {
    let blocks = blocks::blocks_of("docs/tutorial.md");
    for (file, name) in [("src/main.rs", "adder"), ("src/bin/worker.rs", "worker")] {
        let block = blocks.iter().find(|block| block.file() == Some(file)).unwrap();
        let path = format!("crates/e2e/src/bin/tutorial-{name}.rs");
        let program = std::fs::read_to_string(blocks::root().join(&path)).unwrap();
        let is_shown = |line: &&str| !line.starts_with("#![allow(");
        let program: Vec<_> = program.lines().filter(is_shown).collect();
        let shown: Vec<_> = block.text.lines().skip(1).collect();
        assert_eq!(shown, program, "docs/tutorial.md is not {path}");
    }
}
