use super::*;

fn heard(threshold: Option<LoggingLevel>, level: Option<&str>) -> bool {
    let news = ToolProgress {
        level: level.map(str::to_owned),
        message: Some("hi".to_owned()),
        ..ToolProgress::default()
    };
    Threshold(threshold).log_line(&news).is_some_and(|line| line.data == "hi")
}

#[test]
fn lines_are_heard_that_are_grave_enough() {
    for (level, expected) in [("debug", false), ("info", false), ("warning", true), ("error", true)]
    {
        assert_eq!(heard(Some(LoggingLevel::Warning), Some(level)), expected, "{level}");
        assert!(!heard(None, Some(level)), "{level}");
    }
    assert!(!heard(Some(LoggingLevel::Debug), Some("loud")));
    assert!(!heard(Some(LoggingLevel::Debug), None));
}
