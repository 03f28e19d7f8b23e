use super::*;

#[test]
fn a_profile_is_its_files_in_the_order_of_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("2-rules.md", "Be brief.\n");
    write("1-soul.md", "\nYou are Ada.");
    write("notes.txt", "not this");
    assert_eq!(read_profile(folder.path()).unwrap(), "You are Ada.\n\nBe brief.");
    write("3.md", &"x".repeat(262_144));
    assert_eq!(read_profile(folder.path()).unwrap().len(), 262_144 + 25);
}

/// What is wrong with a folder, and with which of its files.
fn refusal(folder: &Path) -> (PathBuf, String) {
    match read_profile(folder) {
        Err(Error::Profile { path, problem }) => (path, problem),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_folder_that_is_no_profile_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(refusal(folder), (folder.to_owned(), "it has no .md file".to_owned()));
    let (path, problem) = refusal(Path::new("/nowhere"));
    assert_eq!(path, Path::new("/nowhere"));
    assert!(problem.contains("No such file or directory"), "{problem}");

    for at in 0..33 {
        std::fs::write(folder.join(format!("{at}.md")), "x").unwrap();
    }
    assert_eq!(refusal(folder), (folder.to_owned(), "it has more than 32 .md files".to_owned()));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("1-soul.md"), "You are Ada.").unwrap();
    let file = folder.path().join("2-rules.md");
    let check = |expected: &str| {
        assert_eq!(refusal(folder.path()), (file.clone(), expected.to_owned()));
        let told = read_profile(folder.path()).unwrap_err().to_string();
        let file = file.display();
        assert_eq!(told, format!("the profile cannot be used: {file}: {expected}"));
    };

    std::fs::write(&file, b"Be br\xffef.").unwrap();
    check("it is not UTF-8: byte 5 begins no character");
    std::fs::write(&file, "x".repeat(262_145)).unwrap();
    check("it is over the limit of 262144 bytes");

    let link = |to: &str| {
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(to, &file).unwrap();
    };
    link("not-there.md");
    check("it is a link to nothing");
    link("2-rules.md");
    check("Too many levels of symbolic links (os error 40)");
    // It has no length, and no end.
    link("/dev/zero");
    check("it is not a file");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    check("it is not a file");
}
