//! Stores that fail: calls go on, and what is lost is counted.

use std::time::Duration;

use toolbus_audit::{AuditConfig, Query};
use toolbus_testkit::state::StatePlace;
use toolbus_testkit::{eventually, postgres, quiet_for};

use crate::support::{Host, log};

#[tokio::test]
async fn calls_go_on_where_the_log_cannot_be_written() {
    let place = StatePlace::sqlite();
    let folder = place.folder().unwrap();
    // A file stands where the folder of the state would be.
    std::fs::write(folder.join("no-folder"), "").unwrap();
    let location = format!("sqlite:{}", folder.join("no-folder/state.db").display());
    let host = Host::new(&location, AuditConfig::default());
    host.work(5).await;
    let audit = host.audit.clone();
    host.close().await;
    assert_eq!(audit.dropped(), 5);
}

#[tokio::test]
async fn rows_wait_for_a_database_that_is_away() {
    let Some(mut server) = postgres::server().await else { return };
    let location = server.database().unwrap();
    let host = Host::new(&location, AuditConfig::default());
    host.work(2).await;
    let log = log(&location);
    let rows = async |count: usize| {
        eventually(Duration::from_secs(30), async || {
            match log.list(&Query::default(), 100).await {
                Ok(rows) if rows.len() == count => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    };
    rows(2).await;

    server.stop().await.unwrap();
    host.work(3).await;
    quiet_for(Duration::from_millis(300), async || match host.audit.dropped() {
        0 => Ok(()),
        dropped => Err(dropped),
    })
    .await;
    server.run().await.unwrap();
    rows(5).await;
    assert_eq!(host.audit.dropped(), 0);
    host.close().await;
}
