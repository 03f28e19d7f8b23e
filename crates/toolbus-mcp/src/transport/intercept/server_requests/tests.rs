use super::*;

fn text_id(bytes: usize) -> RequestId {
    RequestId::String("i".repeat(bytes).into())
}

#[test]
fn an_id_is_free_again_once_its_reply_was_sent() {
    let requests = ServerRequests::default();
    let id = RequestId::Number(1);
    assert!(requests.try_admit(&id).is_ok());
    assert_eq!(requests.try_admit(&id).err(), Some(NotAdmitted::IdInUse));
    // The protocol has the number and its text as two ids.
    assert!(requests.try_admit(&RequestId::String("1".into())).is_ok());

    requests.withdraw(&id);
    assert!(requests.is_withdrawn(&id));
    assert_eq!(requests.try_admit(&id).err(), Some(NotAdmitted::IdInUse));
    requests.finish(&id);
    assert!(requests.try_admit(&id).is_ok());
    assert!(!requests.is_withdrawn(&id));
}

#[test]
fn long_ids_are_not_kept() {
    let requests = ServerRequests::default();
    assert!(requests.try_admit(&text_id(ID_BYTES_MAX)).is_ok());
    let refused = requests.try_admit(&text_id(ID_BYTES_MAX + 1));
    assert_eq!(refused.err(), Some(NotAdmitted::IdTooLong));
}

#[test]
fn a_server_has_only_so_many_requests_at_a_time() {
    let requests = ServerRequests::default();
    for id in 0..64 {
        assert!(requests.try_admit(&RequestId::Number(id)).is_ok());
    }
    assert_eq!(requests.try_admit(&RequestId::Number(64)).err(), Some(NotAdmitted::TooMany));
    requests.finish(&RequestId::Number(5));
    assert!(requests.try_admit(&RequestId::Number(64)).is_ok());
}
