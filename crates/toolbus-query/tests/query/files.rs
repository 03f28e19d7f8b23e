//! Many files as one value.

use std::io::Cursor;
use std::thread;

use toolbus_query::question::{Grep, GrepFiles};
use toolbus_query::{Answer, Error, FilesWriter, Question, Value};

use super::support::{engine, limits, runtime};

fn value_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut value = Vec::new();
    let mut writer = FilesWriter::new(&mut value);
    for (name, bytes) in files {
        writer.begin_file(name).expect("a name");
        // In pieces, which make no difference.
        bytes.chunks(3).for_each(|piece| writer.write_bytes(piece).expect("room"));
        writer.end_file().expect("room");
    }
    value
}

fn ask(question: GrepFiles, value: Vec<u8>) -> Result<Answer, Error> {
    let (question, value) = (Question::GrepFiles(question), Value::stream(Cursor::new(value)));
    runtime().block_on(engine().ask(&question, value, &limits()))
}

fn lines(pattern: &str) -> GrepFiles {
    let grep = Grep { pattern: pattern.to_owned(), ..Grep::default() };
    GrepFiles { grep, names: false }
}

const FILES: [(&str, &[u8]); 4] = [
    ("a.txt", b"one\ntwo\nthree"),
    ("empty", b""),
    ("image", b"two\n\0two\n"),
    ("sub/b.txt", b"none\r\ntwo twos\nfour\n"),
];

#[track_caller]
fn check(question: GrepFiles, expected: &str) -> Answer {
    let answer = ask(question.clone(), value_of(&FILES));
    let answer = answer.unwrap_or_else(|error| panic!("{question:?}: {error}"));
    assert_eq!(answer.text, expected, "{question:?}");
    answer
}

#[test]
fn lines_stand_behind_their_files() {
    check(lines("two"), "a.txt:2:two\nsub/b.txt:2:two twos\n");
    check(lines("^one$|four"), "a.txt:1:one\nsub/b.txt:3:four\n");
    check(lines("nothing"), "");

    let question = lines("two");
    let grep = Grep { before: 1, after: 1, ..question.grep };
    let shown = "a.txt-1-one\na.txt:2:two\na.txt-3-three\n--\n\
                 sub/b.txt-1-none\nsub/b.txt:2:two twos\nsub/b.txt-3-four\n";
    let answer = check(GrepFiles { grep, names: false }, shown);
    assert_eq!((answer.count, answer.more), (Some(2), None));
}

#[test]
fn files_are_named_and_counted() {
    check(GrepFiles { names: true, ..lines("t") }, "a.txt\nsub/b.txt\n");
    let grep = Grep { count: true, ..lines("e").grep };
    check(GrepFiles { grep, names: false }, "a.txt:2\nsub/b.txt:1\n");
}

#[test]
fn what_does_not_fit_can_be_skipped_to() {
    let grep = Grep { max_matches: 2, ..lines("o").grep };
    let first = check(GrepFiles { grep, names: false }, "a.txt:1:one\na.txt:2:two\n");
    assert_eq!(first.more.expect("there is more").skip, Some(2));

    let grep = Grep { skip: 2, ..lines("o").grep };
    let rest = "sub/b.txt:1:none\nsub/b.txt:2:two twos\nsub/b.txt:3:four\n";
    assert_eq!(check(GrepFiles { grep, names: false }, rest).more, None);
    let grep = Grep { skip: 1, ..lines("o").grep };
    check(GrepFiles { grep, names: true }, "sub/b.txt\n");
}

#[test]
fn a_broken_stream_is_an_error() {
    let whole = value_of(&FILES);
    for length in [1, 3, 6, 12, whole.len() - 1] {
        let broken = ask(lines("x"), whole[..length].to_vec());
        assert!(matches!(broken, Err(Error::Failed { .. })), "{length}: {broken:?}");
    }
    let endless = ask(lines("x"), vec![0xFF; 64]);
    assert!(matches!(endless, Err(Error::Failed { .. })), "{endless:?}");
}

#[test]
fn names_have_bounds() {
    let mut writer = FilesWriter::new(Vec::new());
    assert!(writer.begin_file("").is_err() && writer.begin_file(&"x".repeat(17 << 10)).is_err());
    let invalid = ask(lines("("), value_of(&FILES));
    assert!(matches!(invalid, Err(Error::Invalid { .. })), "{invalid:?}");
    assert!(matches!(ask(lines(""), Vec::new()), Err(Error::Invalid { .. })));
}

/// The reader ends with the answer, and so does who writes.
#[test]
fn a_pipe_breaks_when_the_answer_is_there() {
    let (reader, pipe) = std::io::pipe().expect("a pipe");
    let writing = thread::spawn(move || {
        let mut writer = FilesWriter::new(pipe);
        loop {
            let written = writer.begin_file("endless").and_then(|()| {
                writer.write_bytes(b"line\n")?;
                writer.end_file()
            });
            if let Err(error) = written {
                return error.kind();
            }
        }
    });

    let question = Question::GrepFiles(lines("line"));
    let answer = runtime().block_on(engine().ask(&question, Value::pipe(reader), &limits()));
    assert_eq!(answer.expect("an answer").count, Some(100));
    assert_eq!(writing.join().expect("it does not panic"), std::io::ErrorKind::BrokenPipe);
}
