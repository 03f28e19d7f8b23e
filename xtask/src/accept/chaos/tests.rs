use super::join_pages;

#[test]
fn pages_are_joined_row_by_row() {
    let page = |fault: &str| format!("head\n\n| fault |\n| --- |\n| {fault} |\n\n- a note\n");
    let joined = join_pages(&[&page("one"), &page("two")]).expect("a page");
    assert_eq!(joined, "head\n\n| fault |\n| --- |\n| one |\n| two |\n\n- a note\n");
    assert!(join_pages(&[]).is_err());
}
