//! `docs/errors.md` has one row for each error code, in the order of the codes, and says of each what
//! the code says: whether its call was started, and whether to make it again.

use toolbus_wire::{ErrorCode, Execution};

/// What the page calls its columns.
const COLUMNS: [&str; 5] = ["code", "it means", "execution", "again?", "what to do"];

#[test]
fn the_page_of_errors_is_true() {
    let page = include_str!("../../../docs/errors.md");
    let table = page.split("\n## ").next().unwrap();
    let mut rows = table.lines().filter(|line| line.starts_with('|')).map(cells_of);
    assert_eq!(rows.next().unwrap(), COLUMNS);
    assert!(rows.next().unwrap().iter().all(|cell| *cell == "---"));

    for code in ErrorCode::ALL {
        let row = rows.next().unwrap_or_else(|| panic!("docs/errors.md has no row for {code}"));
        let [name, meaning, execution, again, advice] = row[..] else {
            panic!("docs/errors.md has {} columns for {code}", row.len());
        };

        assert_eq!(name, format!("`{code}`"));
        assert_eq!(execution, format!("`{}`", code.execution().as_str()), "{code}");
        assert_eq!(again, again_of(code), "{code}");
        assert!(!meaning.is_empty(), "{code}");
        assert!(!advice.is_empty() || *code == ErrorCode::Cancelled, "{code}");
        // A call that nobody knows to have ended was not stopped for sure.
        let is_unknown = code.execution() == Execution::Unknown;
        assert!(!is_unknown || meaning.contains("may have taken effect"), "{code}: {meaning}");
    }
    assert_eq!(rows.count(), 0, "rows of docs/errors.md for unknown codes");
}

fn cells_of(row: &str) -> Vec<&str> {
    let row = row.trim().trim_start_matches('|').trim_end_matches('|');
    row.split('|').map(str::trim).collect()
}

/// Whether to make the call again, where nobody says more than the code.
fn again_of(code: &ErrorCode) -> &'static str {
    match (code.is_retryable(), code.execution()) {
        (true, Execution::NotStarted) => "yes",
        (true, _) => "if not started",
        (false, _) => "no",
    }
}
