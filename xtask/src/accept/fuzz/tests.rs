use super::*;

#[test]
fn a_page_is_read_as_it_was_written() {
    let targets = || vec!["wire".to_owned(), "mail".to_owned()];
    let empty = Page::parse("", targets());
    assert!(empty.text().contains("| wire | not run |"));
    let text = format!("{}| wire | 61 | 1000 | 50 | 7 | 80 | 0 | 0123456789ab |\n", empty.text());

    let page = Page::parse(&text, targets());
    assert_eq!((page.cpu_seconds("wire"), page.cpu_seconds("mail")), (61, 0));
    let again = Page::parse(&page.text(), targets());
    assert_eq!(again.text(), page.text());
    assert_eq!(Page::parse(&page.text(), vec!["mail".to_owned()]).cpu_seconds("wire"), 0);
}

#[test]
fn processor_time_is_read_past_a_name_with_blanks() {
    let stat = "42 (a b) c) R 1 2 3 4 5 6 7 8 9 10 250 50 0 0";
    assert_eq!(cpu_ticks(stat), Some(300));
    assert_eq!(cpu_ticks("42 (fuzz) R 1"), None);
}

#[test]
fn numbers_follow_their_words() {
    let said = "#512 NEW cov: 88 ft: 90 corp: 4\nstat::peak_rss_mb: 63\n";
    assert_eq!(number_after(said, "cov:"), Some(88));
    assert_eq!(number_after(said, "stat::peak_rss_mb:"), Some(63));
    assert_eq!(number_after(said, "stat::slowest_unit_time_sec:"), None);
}

#[test]
fn inputs_are_kept_shortest_first() {
    let folder = std::env::temp_dir().join(format!("toolbus-fuzz-{}", std::process::id()));
    let (inputs, file) = (folder.join("inputs"), folder.join("kept.txt"));
    corpus::unpack(&file, &inputs).expect("an absent file has no inputs");
    for (name, input) in [("a", "long input"), ("b", "ab"), ("c", "ab")] {
        fs::write(inputs.join(name), input).expect("a file");
    }

    assert_eq!(corpus::pack(&inputs, &file).expect("it is packed"), 2);
    assert_eq!(fs::read_to_string(&file).expect("a file"), "YWI=\nbG9uZyBpbnB1dA==\n");
    let again = folder.join("again");
    corpus::unpack(&file, &again).expect("it is unpacked");
    assert_eq!(fs::read(again.join("kept-1")).expect("a file"), b"long input");
    fs::remove_dir_all(&folder).expect("it is removed");
}
