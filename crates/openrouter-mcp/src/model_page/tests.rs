use super::*;

const ALL: &str = r#"{"data": [{"id":"a","p":1e-7}, {"id":"b","p":0.10}, {"id":"c","n":12345678901234567890123}]}"#;

fn check(offset: Option<u32>, limit: Option<u32>, expected: &str) {
    let query = ModelsQuery { offset, limit, ..ModelsQuery::default() };
    assert_eq!(cut_page(ALL.to_owned(), &query), expected);
}

#[test]
fn an_answer_that_was_paged_or_need_not_be_stays_as_it_is() {
    check(None, None, ALL);
    check(None, Some(3), ALL);
    check(Some(1), None, ALL);
    let query = ModelsQuery { limit: Some(1), ..ModelsQuery::default() };
    assert_eq!(cut_page("[1, 2]".to_owned(), &query), "[1, 2]");
}

#[test]
fn a_list_that_is_longer_than_was_asked_for_is_cut() {
    check(
        None,
        Some(2),
        r#"{"data":[{"id":"a","p":1e-7},{"id":"b","p":0.10}],"total_count":3,"next_offset":2}"#,
    );
    check(
        Some(2),
        Some(2),
        r#"{"data":[{"id":"c","n":12345678901234567890123}],"total_count":3,"next_offset":null}"#,
    );
    check(Some(9), Some(1), r#"{"data":[],"total_count":3,"next_offset":null}"#);
}
