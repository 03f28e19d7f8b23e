use std::fs;

use super::{BYTES_MAX, read};

async fn check(text: &str, expected: Result<&str, &str>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    fs::write(&file, text).unwrap();
    let found = read(&file).await.map_err(|error| error.with_cause());

    match (found, expected) {
        (Ok(found), Ok(expected)) => assert_eq!(found, expected),
        (Err(found), Err(expected)) => {
            assert!(found.ends_with(expected), "{found}");
            assert!(found.contains(&*file.to_string_lossy()), "{found}");
            assert!(text.is_empty() || !found.contains(text), "{found}");
        }
        (found, expected) => panic!("{found:?} instead of {expected:?}"),
    }
}

#[tokio::test]
async fn a_password_is_the_file_without_its_line_end() {
    check("secret", Ok("secret")).await;
    check("secret\r\n", Ok("secret")).await;
    check(" se cret \n", Ok(" se cret ")).await;
    check(&"x".repeat(BYTES_MAX), Ok(&"x".repeat(BYTES_MAX))).await;
}

#[tokio::test]
async fn what_cannot_be_a_password_is_refused_with_the_file_and_without_its_text() {
    check("", Err("it is empty")).await;
    check("\n", Err("it is empty")).await;
    check(&"x".repeat(BYTES_MAX + 1), Err("it is too long")).await;
    let error = read(std::path::Path::new("/")).await.unwrap_err();
    assert!(error.with_cause().ends_with("it is not a file"), "{}", error.with_cause());
}
