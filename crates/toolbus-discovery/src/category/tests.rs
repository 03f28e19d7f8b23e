//! Which category is guessed.

use super::Category;

#[test]
fn a_category_is_guessed_by_tags_and_the_name_of_the_server() {
    let check = |server: &str, tags: &[&str], expected: Category| {
        let tags: Vec<_> = tags.iter().map(ToString::to_string).collect();
        assert_eq!(Category::guess(server, &tags), expected, "{server} {tags:?}");
    };
    check("github", &[], Category::VersionControl);
    check("my-github-mcp", &[], Category::VersionControl);
    check("acme", &["ci-cd"], Category::CiCd);
    check("acme", &["PostgreSQL"], Category::Databases);
    check("digital", &[], Category::Custom);
    check("github", &["monitoring"], Category::Monitoring);
}

#[test]
fn each_name_is_parsed_back() {
    for category in Category::ALL {
        assert_eq!(Category::parse(category.as_str()), Some(category));
    }
    assert_eq!(Category::parse("Custom"), None);
}
