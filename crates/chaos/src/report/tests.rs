use std::time::Duration;

use super::{write_findings, write_table};
use crate::broker::NodeCount;
use crate::driver::FaultRun;
use crate::judge::Verdict;

#[test]
fn a_row_has_every_count() {
    let mut verdict = Verdict {
        calls: 100,
        ok: 90,
        lost: 1,
        late: 2,
        doubled: 3,
        ok_with_wrong_text: 4,
        not_started_but_ran: 5,
        retryable_but_ran: 6,
        unknown_true: 7,
        unknown_but_ended: 8,
        unknown_but_never_ran: 1,
        begun_after_end: 10,
        slow_stops: 11,
        ..Verdict::default()
    };
    verdict.codes.insert("timeout".to_owned(), 12);
    verdict.findings.insert("I2", vec!["call by two".to_owned()]);
    let took = Duration::from_secs(9);
    let run = FaultRun {
        name: "worker-kill".to_owned(),
        nodes: NodeCount::One,
        strikes: 2,
        took,
        verdict,
    };

    let table = write_table(std::slice::from_ref(&run));
    let row = table.lines().nth(2).unwrap();
    let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
    assert_eq!(cells[..8], ["worker-kill", "100", "90", "7/9", "3", "4/5/6", "1", "10"]);
    assert_eq!(
        cells[8],
        "2 strikes in 9 s, timeout 12, unknown and never ran 1, late 2, slow to stop 11"
    );
    assert_eq!(write_findings(&run), "  I2: call by two\n");
}
