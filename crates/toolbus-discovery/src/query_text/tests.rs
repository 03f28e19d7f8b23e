//! How queries are normalised.

use super::normalise;

#[test]
fn cx_d1_a_query_is_normalised() {
    let check = |query: &str, expected: &str| assert_eq!(normalise(query), expected, "{query}");
    check("  Create a  Pull-Request! ", "create a pull request");
    check("edit_file", "edit file");
    check("createPullRequest NOW", "createPullRequest now");
    check("?! …", "");
    check("Привет, МИР", "привет мир");
    check("日本語", "日本語");
}
