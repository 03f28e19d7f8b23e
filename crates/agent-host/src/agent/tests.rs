use super::*;

#[test]
fn a_profile_is_its_files_in_the_order_of_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let refused = |expected: &str| {
        let error = read_profile(folder.path()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };

    refused("no .md file");
    write("2-rules.md", "Be brief.\n");
    write("1-soul.md", "\nYou are Ada.");
    write("notes.txt", "not this");
    assert_eq!(read_profile(folder.path()).unwrap(), "You are Ada.\n\nBe brief.");

    std::fs::write(folder.path().join("3.md"), [0xff]).unwrap();
    refused("3.md");
    write("3.md", &"x".repeat(300_000));
    refused("over the limit of 262144 bytes");
    assert!(read_profile(Path::new("/nowhere")).is_err());
}
