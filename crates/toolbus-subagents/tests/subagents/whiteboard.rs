//! The whiteboard: shared by a session and its subagents, bounded, and the last who writes is
//! right.

use std::time::Duration;

use toolbus_subagents::Error;
use toolbus_tools::id::CallId;

use crate::support::*;

#[tokio::test]
async fn a_session_and_its_subagents_share_one() {
    for setup in Setup::all(Work::endless).await {
        let host = setup.start();
        let subagents = &host.subagents;
        for _ in 0..2 {
            subagents.spawn(&scope(), &CallId::random(), new_subagent("x")).await.unwrap();
        }
        host.work.eventually_ran(2).await;
        let inside = |at: usize| host.work.ran.lock()[at].scope.clone();
        let (one, other) = (inside(0), inside(1));
        subagents.write_entry(&scope(), "budget", "40").await.unwrap();
        subagents.write_entry(&one, " budget ", "50").await.unwrap();
        for reader in [&scope(), &*one, &*other] {
            assert_eq!(subagents.read_entry(reader, "budget").await.unwrap().unwrap(), "50");
        }
        let entries = subagents.entries(&other).await.unwrap();
        let [entry] = &*entries else { panic!("{entries:?}") };
        assert_eq!((&*entry.key, entry.bytes), ("budget", 2));
        assert_eq!(&entry.writer, one.session.as_ref().unwrap().as_str());

        // By a process that does not run it, too; and by nobody else.
        let elsewhere = setup.start();
        let read = elsewhere.subagents.read_entry(&one, "budget").await.unwrap();
        assert_eq!(read.as_deref(), Some("50"));
        let session = one.session.as_ref().unwrap().as_str().to_owned();
        for stranger in [scope_of("alice", "s2"), scope_of("bob", "s1"), scope_of("bob", &session)]
        {
            assert_eq!(subagents.read_entry(&stranger, "budget").await.unwrap(), None);
            assert!(!subagents.delete_entry(&stranger, "budget").await.unwrap());
        }
        assert!(subagents.delete_entry(&other, "budget").await.unwrap());
        assert!(!subagents.delete_entry(&scope(), "budget").await.unwrap());
        assert_eq!(subagents.entries(&one).await.unwrap(), []);
    }
}

#[tokio::test]
async fn it_has_room_for_so_much() {
    for setup in Setup::all(Work::echo).await {
        let setup = setup.configured(|config| {
            config.whiteboard.entries_max = 3;
            config.whiteboard.key_bytes_max = 8;
            config.whiteboard.value_bytes_max = 20;
            config.whiteboard.bytes_max = 30;
            config.whiteboard.agent_entries_max = 4;
        });
        let host = setup.start();
        let write = async |session: &str, key: &str, value: &str| {
            let written = host.subagents.write_entry(&scope_of("alice", session), key, value).await;
            written.map_err(|error| error.to_string())
        };
        let refused = |text: &str| Err(text.to_owned());
        for (key, value, expected) in [
            ("", "x", "the key has 0 bytes, and may have from 1 to 8"),
            ("123456789", "x", "the key has 9 bytes, and may have from 1 to 8"),
            ("a\nb", "x", "the key of a whiteboard entry has no control characters"),
            ("a\0b", "x", "the key of a whiteboard entry has no control characters"),
            ("long", "012345678901234567890", "the value has 21 bytes, and may have from 0 to 20"),
        ] {
            assert_eq!(write("s1", key, value).await, refused(expected), "{key:?}");
        }

        assert_eq!(write("s1", "a", "01234567890123456789").await, Ok(()));
        let full = "nothing was written: the whiteboard has room for 30 bytes. Delete what is done";
        assert_eq!(write("s1", "b", "012345678").await, refused(full));
        assert_eq!(write("s1", "a", "\0").await, Ok(()));
        assert_eq!(write("s1", "b", "012345678").await, Ok(()));
        assert_eq!(write("s1", "c", "").await, Ok(()));
        let full =
            "nothing was written: the whiteboard has room for 3 entries. Delete what is done";
        assert_eq!(write("s1", "d", "").await, refused(full));
        assert_eq!(write("s1", "b", "again").await, Ok(()));
        assert_eq!(write("s2", "a", "x").await, Ok(()));
        let full = "nothing was written: the whiteboard has room for 4 entries of all sessions. \
                    Delete what is done";
        assert_eq!(write("s3", "a", "x").await, refused(full));
        assert_eq!(write("s2", "a", "y").await, Ok(()));

        let nowhere = scope().with_session(None);
        let written = host.subagents.write_entry(&nowhere, "a", "x").await;
        assert!(matches!(written, Err(Error::NoSession)), "{written:?}");
    }
}

/// Many write at once, from two processes: there is never more than there may be, and what is read
/// is what somebody has written, whole.
#[tokio::test(flavor = "multi_thread")]
async fn many_write_at_once() {
    for setup in Setup::all(Work::echo).await {
        let setup = setup.configured(|config| config.whiteboard.entries_max = 10);
        let hosts = [setup.start(), setup.start()];
        for host in &hosts {
            assert_eq!(host.count("SELECT COUNT(*) FROM subagent_whiteboard").await, 0);
        }
        let writing = (0..200).map(|number: usize| {
            let subagents = hosts[number % 2].subagents.clone();
            async move {
                let key = format!("k{}", number % 20);
                let value = format!("{number}").repeat(100);
                subagents.write_entry(&scope(), &key, &value).await
            }
        });
        let written = futures_util::future::join_all(writing).await;
        let refused = written.iter().filter_map(|written| written.as_ref().err());
        for error in refused {
            assert!(matches!(error, Error::WhiteboardFull { max: 10, .. }), "{error}");
        }
        let entries = hosts[0].subagents.entries(&scope()).await.unwrap();
        assert_eq!(entries.len(), 10);
        for entry in entries {
            let value = hosts[1].subagents.read_entry(&scope(), &entry.key).await.unwrap().unwrap();
            assert_eq!(value.len() as u64, entry.bytes);
            let number = &value[..value.len() / 100];
            assert_eq!(value, number.repeat(100));
            let number: usize = number.parse().unwrap();
            assert_eq!(entry.key, format!("k{}", number % 20));
        }
        for host in hosts {
            host.close(Duration::ZERO).await;
        }
    }
}
