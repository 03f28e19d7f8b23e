use serde_json::{Value, json};

use super::{Ledger, read};

#[tokio::test]
async fn a_line_is_there_when_it_was_appended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let ledger = Ledger::open(&path).unwrap();

    ledger.append(&json!({"at": 1})).await.unwrap();
    assert_eq!(read::<Value>(&path).unwrap(), [json!({"at": 1})]);

    let many = (2..200).map(|at| json!({"at": at})).collect::<Vec<_>>();
    for line in &many {
        ledger.append_later(line).unwrap();
    }
    drop(ledger);
    assert_eq!(read::<Value>(&path).unwrap().len(), 199);

    let again = Ledger::open(&path).unwrap();
    again.append(&json!({"at": 200})).await.unwrap();
    assert_eq!(read::<Value>(&path).unwrap().len(), 200);
}

#[test]
fn a_line_without_an_end_is_left_out_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");

    assert_eq!(read::<Value>(&path).unwrap(), Vec::<Value>::new());
    std::fs::write(&path, "{\"at\":1}\n{\"at\":").unwrap();
    assert_eq!(read::<Value>(&path).unwrap(), [json!({"at": 1})]);
    std::fs::write(&path, "{\"at\":1\n{}\n").unwrap();
    assert!(read::<Value>(&path).is_err());
}
