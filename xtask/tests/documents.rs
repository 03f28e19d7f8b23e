//! What the pages for people say of the workspace is true: paths are there, links lead somewhere,
//! the index of decisions lists them all, the first page every other, the glossary words in use.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

/// Pages whose paths in backticks are compared with the workspace.
const PAGES_WITH_PATHS: [&str; 2] = ["CONTRIBUTING.md", "AGENTS.md"];

/// How a path begins that is meant from the workspace's folder.
const TOP_FOLDERS: [&str; 8] =
    ["crates/", "xtask/", "docs/", "deploy/", "docker/", "helm/", "dev/", ".ci/"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The pages of the workspace's folder and, at any depth, of these folders.
fn pages() -> Vec<PathBuf> {
    let mut pages = pages_in(root());
    let mut folders: Vec<_> =
        ["docs", "deploy", "helm"].iter().map(|folder| root().join(folder)).collect();

    while let Some(folder) = folders.pop() {
        pages.extend(pages_in(&folder));
        let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        folders.extend(entries.filter(|path| path.is_dir()));
    }
    pages
}

fn pages_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|end| end == "md")).collect()
}

#[test]
fn paths_that_pages_name_are_there() {
    for page in PAGES_WITH_PATHS {
        let text = read(page);
        let mut paths = 0;

        for (line, text) in (1..).zip(text.lines()) {
            // What stands in backticks is every second part; a command is no path.
            for name in text.split('`').skip(1).step_by(2).filter(|name| !name.contains(' ')) {
                let is_path = TOP_FOLDERS.iter().any(|folder| name.starts_with(folder))
                    || name.ends_with(".md") && !name.contains('/');
                if is_path {
                    assert!(root().join(name).exists(), "{page}:{line}: there is no {name}");
                    paths += 1;
                }
            }
        }
        assert!(paths > 10, "{page} names {paths} paths");
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let folder = page.parent().unwrap();

        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap();
            let is_elsewhere = path.is_empty() || path.contains("://") || path.contains(' ');
            assert!(
                is_elsewhere || folder.join(path).exists(),
                "{}: there is no {link}",
                page.display()
            );
        }
    }
}

/// Generated pages and those of one topic alike: whoever reads the first page finds them all.
#[test]
fn the_first_page_links_to_every_other() {
    let readme = read("README.md");
    for page in pages_in(&root().join("docs")) {
        let link = format!("](docs/{})", page.file_name().unwrap().to_str().unwrap());
        assert!(readme.contains(&link), "README.md has no link {link}");
    }
}

#[test]
fn words_of_the_glossary_are_used_and_in_order() {
    let glossary = read("docs/glossary.md");
    let words = glossary.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let words: Vec<_> = words.skip(1).collect();
    assert!(words.len() > 50, "{} words", words.len());
    assert!(words.is_sorted_by_key(|word| word.to_lowercase()), "{words:?}");

    let others = pages().into_iter().filter(|page| !page.ends_with("glossary.md"));
    let mut text: String = others.map(|page| fs::read_to_string(page).unwrap()).collect();
    text.extend(sources().map(|source| fs::read_to_string(source).unwrap()));
    let text = text.to_lowercase();
    for word in words {
        let word = word.to_lowercase();
        // A type has its word without the blank: `CallContext`.
        let is_used = text.contains(&word) || text.contains(&word.replace(' ', ""));
        assert!(is_used, "nothing is called {word:?}");
    }
}

/// The sources of all crates, without their tests.
fn sources() -> impl Iterator<Item = PathBuf> {
    let crates = fs::read_dir(root().join("crates")).unwrap();
    let mut folders: Vec<_> = crates.map(|entry| entry.unwrap().path().join("src")).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                found.push(path);
            }
        }
    }
    found.into_iter()
}

#[test]
fn the_index_lists_every_decision() {
    let index = read("docs/adr/README.md");
    let mut listed: Vec<_> = index.lines().filter_map(|line| line.strip_prefix("| [")).collect();
    listed.sort_unstable_by_key(|row| row.split(']').next().unwrap().parse::<u32>().unwrap());

    let mut expected = Vec::new();
    for page in pages_in(&root().join("docs/adr")) {
        let name = page.file_name().unwrap().to_str().unwrap();
        if name == "README.md" {
            continue;
        }
        let text = fs::read_to_string(&page).unwrap();
        let headline = text.lines().next().unwrap();
        let (number, title) = headline.strip_prefix("# ").unwrap().split_once(". ").unwrap();
        let status = text.lines().find_map(|line| line.strip_prefix("**Status:** "));

        assert_eq!(name.split('-').next().unwrap(), format!("{number:0>4}"), "{name}");
        expected.push((
            number.parse::<u32>().unwrap(),
            format!("{number}]({name}) | {title} |"),
            format!("| {} |", status.unwrap_or_else(|| panic!("{name} has no status"))),
        ));
    }
    expected.sort_unstable();

    assert_eq!(listed.len(), expected.len(), "decisions in the index and in the folder");
    for (row, (_, start, status)) in listed.iter().zip(expected) {
        assert!(row.starts_with(&start), "{row:?} should begin with {start:?}");
        assert!(row.contains(&status), "{row:?} should contain {status:?}");
    }
}
