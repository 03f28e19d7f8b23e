//! Lines of supervisors, as they may arrive.

use super::*;
use crate::files::{File, FileName};

fn reports(pieces: &[&str]) -> Result<Vec<Report>, Error> {
    let mut reader = ReportReader::new("n0");
    let mut reports = Vec::new();
    for piece in pieces {
        reports.extend(reader.accept(piece.as_bytes())?);
    }
    Ok(reports)
}

#[test]
fn lines_are_put_together_wherever_they_are_cut() {
    let text = "n0 0 ready \nn0 1 started \nn0 2 out aMOp\nn0 3 err /w==\n\
                n0 4 end {\"elapsed_ms\": 5, \"cpu_ms\": 3, \"memory_peak\": 7, \"code\": 2}\n";
    let usage = Usage { cpu: Duration::from_millis(3), memory_peak: 7 };
    let end = ScriptEnd { ending: Ending::Exited(2), elapsed: Duration::from_millis(5), usage };
    let expected = vec![
        Report::Ready,
        Report::Started,
        Report::Output(Stream::Stdout, "hé".as_bytes().to_vec()),
        Report::Output(Stream::Stderr, vec![0xff]),
        Report::Ended(end),
    ];
    assert_eq!(reports(&[text]), Ok(expected.clone()));
    for cut in 0..text.len() {
        let (first, second) = text.split_at(cut);
        assert_eq!(reports(&[first, second]), Ok(expected.clone()), "cut at {cut}");
    }
}

#[test]
fn every_way_to_end_is_understood_and_a_strange_one_is_not() {
    let check = |members: &str, expected: Option<Ending>| {
        let line = format!(
            "n0 0 end {{\"elapsed_ms\": 1, \"cpu_ms\": 1, \"memory_peak\": 1, {members}}}\n"
        );
        let ending = match reports(&[&line]) {
            Ok(reports) => match &reports[..] {
                [Report::Ended(end)] => Some(end.ending.clone()),
                other => panic!("{other:?}"),
            },
            Err(error) => {
                assert!(matches!(error, Error::Unknown(_)), "{error:?}");
                None
            }
        };
        assert_eq!(ending, expected, "{members}");
    };
    check("\"code\": 255", Some(Ending::Exited(255)));
    check("\"signal\": 11", Some(Ending::Killed { signal: 11 }));
    check("\"cause\": \"timed_out\"", Some(Ending::TimedOut));
    check("\"cause\": \"cancelled\"", Some(Ending::Cancelled));
    check("\"cause\": \"out_of_memory\"", Some(Ending::OutOfMemory));
    let too_many = |object| Some(Ending::TooMany(object));
    check("\"cause\": \"too_many_files\"", too_many(KernelObject::Files));
    check("\"cause\": \"too_many_file_locks\"", too_many(KernelObject::FileLocks));
    check("\"cause\": \"tired\"", None);
    check("\"code\": null", None);
}

#[test]
fn files_are_told_by_header_and_pieces() {
    let text =
        "n0 0 over \nn0 1 file w7w= 4\nn0 2 part AAEC\nn0 3 part /w==\nn0 4 omitted Kg== d2h5\n";
    let expected = vec![
        Report::Over,
        Report::File("ü".as_bytes().to_vec(), 4),
        Report::Part(vec![0, 1, 2]),
        Report::Part(vec![0xff]),
        Report::Omitted(b"*".to_vec(), b"why".to_vec()),
    ];
    assert_eq!(reports(&[text]), Ok(expected));
    for line in
        ["file w7w=", "file w7w= -1", "file %% 1", "part %", "omitted Kg==", "omitted Kg== %"]
    {
        let told = reports(&[&format!("n0 0 {line}\n")]);
        assert!(matches!(told, Err(Error::Unknown(_))), "{line}: {told:?}");
    }
}

#[test]
fn requests_of_scripts_are_told_in_pieces() {
    let text =
        "n0 0 ask 7 more aGk=\nn0 1 ask 7 last \nn0 2 answered 7\nn0 3 mark x1\nn0 4 closed \n";
    let request =
        |piece: &[u8], is_last| Report::Request { number: 7, piece: piece.into(), is_last };
    let expected = vec![
        request(b"hi", false),
        request(b"", true),
        Report::Answered(7),
        Report::Mark("x1".to_owned()),
        Report::Closed,
    ];
    assert_eq!(reports(&[text]), Ok(expected));
    for line in ["ask 7 last", "ask -1 last aGk=", "ask 7 some aGk=", "ask 7 last %", "answered x"]
    {
        let told = reports(&[&format!("n0 0 {line}\n")]);
        assert!(matches!(told, Err(Error::Unknown(_))), "{line}: {told:?}");
    }
    assert_eq!(response_message(258, b"ok"), Bytes::from_static(b"R\0\0\0\x06\0\0\x01\x02ok"));
    assert_eq!(mark_message("m"), Bytes::from_static(b"M\0\0\0\x01m"));
}

#[test]
fn strangers_are_not_heard_and_losses_are_noticed() {
    assert_eq!(reports(&["other 0 ready \nn01 0 ready \n\nn0\n"]), Ok(vec![]));
    assert_eq!(reports(&["n0 0 ready \nn0 2 started \n"]), Err(Error::Gap { expected: 1 }));
    assert_eq!(reports(&["n0 0 ready \nn0 0 ready \n"]), Err(Error::Gap { expected: 1 }));
    assert!(matches!(reports(&["n0 0 shout x\n"]), Err(Error::Unknown(_))));
    assert!(matches!(reports(&["n0 0 out %%\n"]), Err(Error::Unknown(_))));
    let long = "x".repeat(LINE_BYTES_MAX);
    assert_eq!(reports(&[&long, "x"]), Err(Error::TooLong));
    assert_eq!(reports(&[&long, "\nn0 0 ready \n"]), Ok(vec![Report::Ready]));
    assert_eq!(reports(&[&format!("{long}x\n")]), Err(Error::TooLong));
}

#[test]
fn who_comes_later_hears_from_the_next_ready_on() {
    let mut reader = ReportReader::joining_late("n0");
    let accepted = reader.accept(b"n0 6 out aA==\nn0 7 ready \nn0 8 started \n");
    assert_eq!(accepted, Ok(vec![Report::Ready, Report::Started]));
    assert_eq!(reader.accept(b"n0 10 ready \n"), Err(Error::Gap { expected: 9 }));

    let mut reader = ReportReader::joining_late("n0");
    assert_eq!(reader.accept(b"n0 18446744073709551614 ready \n"), Ok(vec![Report::Ready]));
    let last = reader.accept(b"n0 18446744073709551615 started \n");
    assert_eq!(last, Err(Error::Unknown("started ".to_owned())));
}

#[test]
fn no_more_reports_are_built_than_a_supervisor_writes_at_once() {
    let lines = |count: usize| (0..count).map(|number| format!("n0 {number} ready\n"));
    let most: String = lines(REPORTS_MAX).collect();
    assert_eq!(reports(&[&most]), Ok(vec![Report::Ready; REPORTS_MAX]));
    let more: String = lines(REPORTS_MAX + 1).collect();
    assert_eq!(reports(&[&more]), Err(Error::TooMany));
}

#[test]
fn requests_are_read_as_they_were_meant() {
    let settings = ScriptLimits {
        timeout_ms: 1,
        output_bytes: 2,
        processes: 3,
        open_files: 4,
        file_bytes: 5,
        address_space_bytes: 6,
        memory_bytes: 13,
        inodes: 11,
        file_locks: 12,
        packages: 1,
        files: 7,
        files_bytes: 8,
        name_bytes: 9,
        entries: 10,
    };
    let name = FileName::parse("ü").expect("a name");
    let script = Script {
        source: "é".to_owned(),
        input: String::new(),
        timeout: Duration::from_secs(1),
        packages: Vec::new(),
        files: vec![File { name, content: Bytes::from_static(b"\0x") }],
        prelude: Some("p".to_owned()),
    };
    let request = start_message(&settings, &script);
    let (head, rest) = request.split_at(5);
    let length = usize::from(head[4]);
    assert_eq!(head[..4], [b'L', 0, 0, 0]);
    let mut lines: Vec<&[u8]> = rest[..length].split_inclusive(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    let expected: &[u8] = b"address_space_bytes 6\nchannel 1\nentries 10\nfile_bytes 5\nfile_locks 12\nfiles 7\nfiles_bytes 8\n\
                            inodes 11\nmemory_bytes 13\nname_bytes 9\nopen_files 4\noutput_bytes 2\npackages 1\nprocesses 3\ntimeout_ms 1\n";
    assert_eq!(lines.concat(), expected);
    let expected: &[u8] =
        b"S\0\0\0\x02\xc3\xa9I\0\0\0\0P\0\0\0\x01pF\0\0\0\x05\xc3\xbc\0\0xG\0\0\0\0";
    assert_eq!(&rest[length..], expected);
}
