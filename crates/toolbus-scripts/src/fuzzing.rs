//! The parsers of this crate as targets of a fuzzer.

use std::time::Duration;

use futures_util::FutureExt as _;

use crate::files::{FILES_MAX, FileName, mime_type};
use crate::packages::Requirements;
use crate::packages::requirement::Error as RequirementError;
use crate::runner::{Ending, OUTPUT_BYTES_MAX};
use crate::supervisor::protocol::{Error as ReportError, Report, ReportReader};
use crate::supervisor::{Requests, Transcript};

/// What each line of a supervisor begins with.
const NONCE: &str = "n";
/// A mark that requests wait for.
const MARK: &str = "m";
/// Most bytes of an input: as one line it is shorter than the longest.
const INPUT_BYTES_MAX: usize = 32 << 10;
/// Bytes of a piece of what a supervisor writes.
const PIECE_BYTES: usize = 50;

/// Reads lines of a supervisor, to which nonce and number are added here, whole and in pieces, with
/// the same result. Records the output, files and requests that they report.
pub fn supervisor_reports(bytes: &[u8]) {
    let mut written = Vec::new();
    let mut number = 0;
    for line in lines(bytes) {
        written.extend_from_slice(format!("{NONCE} {number} ").as_bytes());
        written.extend_from_slice(line);
        written.push(b'\n');
        // Lines that are no text do not count.
        number += u32::from(std::str::from_utf8(line).is_ok());
    }

    let mut reader = ReportReader::new(NONCE);
    let mut reports = Vec::new();
    let accepted: Result<(), ReportError> = written.chunks(PIECE_BYTES).try_for_each(|piece| {
        reports.extend(reader.accept(piece)?);
        Ok(())
    });
    match &ReportReader::new(NONCE).accept(&written) {
        Ok(whole) => assert_eq!((&accepted, &reports), (&Ok(()), whole)),
        Err(error) => assert_eq!(accepted.as_ref(), Err(error)),
    }
    record(reports, Requests::new(None));
}

/// Reads lines of a supervisor, to which the nonce is added here, from its next `ready` on. Records
/// what they report, of a script that another runner started.
pub fn late_supervisor_reports(bytes: &[u8]) {
    let mut reader = ReportReader::joining_late(NONCE);
    let mut reports = Vec::new();
    for line in lines(bytes) {
        match reader.accept(&[NONCE.as_bytes(), b" ", line, b"\n"].concat()) {
            Ok(more) => reports.extend(more),
            Err(_) => break,
        }
    }

    let mut requests = Requests::of_adopted(None);
    requests.pause_until(MARK.to_owned());
    record(reports, requests);
}

/// Reads requirements of packages, one in a line. No installer takes what is written of them for an
/// option, a path or an address, and it is read as the same.
pub fn package_requirements(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let texts: Vec<_> = text.lines().map(str::to_owned).collect();
    let Ok(requirements) = Requirements::parse(&texts) else { return };

    let written: Vec<_> = requirements.iter().map(str::to_owned).collect();
    for text in &written {
        assert!(text.starts_with(|first: char| first.is_ascii_alphanumeric()), "{text:?}");
        assert!(!text.contains(['/', '@', ':', '\\', '$', '`', '&', '|', '\n']), "{text:?}");
    }
    match Requirements::parse(&written) {
        // With blanks between its words it may be longer than it was.
        Err(RequirementError::TooLong) => {}
        again => assert_eq!(again, Ok(requirements)),
    }
}

/// Reads the name of a file, in the first line, and tells its media type by its content, which
/// follows. A name is that of a plain file.
pub fn script_file(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    let name = String::from_utf8_lossy(parts.next().unwrap_or_default());
    let Ok(name) = FileName::parse(&name) else { return };
    assert!(!name.as_str().contains(['/', '\\', '\0']) && !name.as_str().starts_with('.'));
    let _ = mime_type(name.as_str(), parts.next().unwrap_or_default());
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = bytes[..bytes.len().min(INPUT_BYTES_MAX)].split(|byte| *byte == b'\n');
    lines.filter(|line| !line.is_empty())
}

/// Records reports up to the first that no supervisor makes. What is kept of them is bounded.
fn record(reports: Vec<Report>, mut requests: Requests) {
    let mut transcript = Transcript::new(None);
    for report in reports {
        match requests.accept(report) {
            // With these the clock is read.
            Ok(Some(Report::Started | Report::Over) | None) => {}
            Ok(Some(report)) => transcript.record(report),
            Err(_) => break,
        }
        let _ = requests.next_message().now_or_never();
    }

    let outcome = transcript.into_outcome(Ending::Exited(0), Duration::ZERO, None);
    assert!(outcome.output.text.len() <= OUTPUT_BYTES_MAX);
    assert!(outcome.produced.files.len() <= FILES_MAX);
}
