//! `docs/errors.md` has a row for each error code, and says whether to call again as the code does.

use toolbus_wire::ErrorCode;

#[test]
fn the_page_of_errors_is_true() {
    let page = include_str!("../../../docs/errors.md");
    let table = page.split("\n## ").next().unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();

    for code in ErrorCode::ALL {
        let name = format!("`{}`", code.as_str());
        let row = rows.iter().find(|row| row[1] == name);
        let row = row.unwrap_or_else(|| panic!("docs/errors.md has no row for {name}"));
        let again = if code.is_retryable() { "yes" } else { "no" };
        assert_eq!(row[3], again, "docs/errors.md says of {name} whether to call again");
    }
    assert_eq!(rows.len(), ErrorCode::ALL.len(), "rows of docs/errors.md for unknown codes");
}
