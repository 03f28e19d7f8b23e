use super::*;

#[test]
fn an_open_request_is_never_forgotten_and_of_answers_the_last_are_kept() {
    let mut answers = Answers::default();
    let most = u32::try_from(ANSWERS_MAX).unwrap();
    // The first is open while many others are answered.
    for number in 0..most + 11 {
        answers.by_number.insert(number, watch::channel(None).1);
        if number > 0 {
            answers.forget_oldest_but(number);
        }
    }

    assert!(answers.by_number.contains_key(&0), "it would be made again");
    assert!(!answers.by_number.contains_key(&10) && answers.by_number.contains_key(&11));
    assert_eq!(answers.by_number.len(), ANSWERS_MAX + 1);
}
