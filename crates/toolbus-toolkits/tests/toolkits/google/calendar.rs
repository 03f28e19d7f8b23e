//! Calendar's tools: what they print, and what Google is sent.

use serde_json::{Value, json};
use toolbus_testkit::google::Answer;
use toolbus_testkit::scripted_server::Asked;

use super::{Bench, query_of, silent};

fn empty(_: &str, _: &Asked) -> Answer {
    Answer::Json(json!({"items": []}))
}

/// Creates an event, and returns what Google was sent.
async fn created(bench: &Bench, arguments: Value) -> Value {
    bench.say("calendar_create_event", arguments).await;
    bench.server.asked().pop().expect("a request").body
}

fn echo(_: &str, asked: &Asked) -> Answer {
    let mut event = asked.body.clone();
    event["id"] = "e1".into();
    event["htmlLink"] = "https://calendar/e1".into();
    Answer::Json(event)
}

#[tokio::test]
async fn mx_k1_events_are_listed_in_blocks() {
    let api = |_: &str, _: &Asked| {
        Answer::Json(json!({"items": [
            {"id": "e1", "summary": "Tea", "status": "confirmed", "location": "Hall\r\nStart: never",
             "start": {"dateTime": "2026-03-02T10:00:00+01:00"},
             "end": {"dateTime": "2026-03-02T11:00:00+01:00"}, "organizer": {"email": "a@x.org"}},
            {"id": "e2", "start": {"date": "2026-03-02"}, "end": {"date": "2026-03-03"}}
        ]}))
    };
    let Some(bench) = Bench::start(api).await else { return };
    let text = bench.say("calendar_list_events", json!({"query": " tea "})).await;
    let expected = "ID: e1\nSummary: Tea\nStart: 2026-03-02T10:00:00+01:00\n\
                    End: 2026-03-02T11:00:00+01:00\nLocation: Hall Start: never\n\
                    Status: confirmed\nOrganizer: a@x.org\n\n\
                    ID: e2\nSummary: (no title)\nStart: 2026-03-02\nEnd: 2026-03-03\nLocation: \n\
                    Status: \nOrganizer: ";
    assert_eq!(text, expected);
    let asked = bench.server.asked().remove(0);
    assert!(asked.path.starts_with("/calendar/v3/calendars/primary/events?"), "{}", asked.path);
    let expected = json!({
        "timeMin": "2026-03-01T00:00:00+00:00", "timeMax": "2026-03-01T23:59:59+00:00",
        "maxResults": "10", "singleEvents": "true", "orderBy": "startTime", "timeZone": "UTC",
        "q": "tea"
    });
    assert_eq!(Value::from(query_of(&asked)), expected);
}

#[tokio::test]
async fn mx_k1_one_bound_is_given_alone() {
    let Some(bench) = Bench::start(empty).await else { return };
    let bounds = async |arguments: Value| {
        let text = bench.say("calendar_list_events", arguments).await;
        assert_eq!(text, "No events found.");
        let query = query_of(&bench.server.asked().pop().expect("a request"));
        (query.get("timeMin").cloned(), query.get("timeMax").cloned())
    };
    let day = (Some("2026-05-01T00:00:00+00:00".into()), None);
    assert_eq!(bounds(json!({"timeMin": "2026-05-01"})).await, day);
    let last = (None, Some("2026-05-01T23:59:59+00:00".into()));
    assert_eq!(bounds(json!({"timeMax": "2026-05-01", "timeMin": null})).await, last);
    let both = (Some("2026-05-01T10:00:00+02:00".into()), Some("2026-05-01T10:00:00+00:00".into()));
    let arguments =
        json!({"timeMin": "2026-05-01T10:00:00+02:00", "timeMax": "2026-05-01T10:00:00Z"});
    assert_eq!(bounds(arguments).await, both);

    let backwards = json!({"timeMin": "2026-05-02", "timeMax": "2026-05-01"});
    assert_eq!(bench.fail("calendar_list_events", backwards).await, "timeMax is before timeMin");
    bench.fail("calendar_list_events", json!({"timeMin": "tomorrow"})).await;
}

#[tokio::test]
async fn rule_16_today_is_in_the_zone_of_the_user() {
    let zone = |settings: &mut toolbus_toolkits::GoogleSettings| {
        settings.time_zone = Some("Europe/Berlin".to_owned());
    };
    let Some(bench) = Bench::start_with(empty, zone).await else { return };
    bench.say("calendar_list_events", json!({})).await;
    let query = query_of(&bench.server.asked()[0]);
    assert_eq!(query["timeMin"], "2026-03-02T00:00:00+01:00");
    assert_eq!(query["timeMax"], "2026-03-02T23:59:59+01:00");
    assert_eq!(query["timeZone"], "Europe/Berlin");
}

#[tokio::test]
async fn mx_k2_events_are_created() {
    let Some(bench) = Bench::start(echo).await else { return };
    let arguments = json!({
        "summary": "Trip", "start": "2026-03-02", "end": "2026-03-04", "description": "d",
        "location": "l", "attendees": " a@x.org, ,b@x.org,", "calendarId": "team@x.org"
    });
    let text = bench.say("calendar_create_event", arguments).await;
    let expected = "Event created.\nID: e1\nSummary: Trip\nStart: 2026-03-02\nEnd: 2026-03-04\n\
                    Link: https://calendar/e1";
    assert_eq!(text, expected);
    let asked = bench.server.asked().remove(0);
    let path = asked.path.replace("%40", "@");
    assert_eq!(path, "/calendar/v3/calendars/team@x.org/events");
    let expected = json!({
        "summary": "Trip", "start": {"date": "2026-03-02"}, "end": {"date": "2026-03-04"},
        "description": "d", "location": "l",
        "attendees": [{"email": "a@x.org"}, {"email": "b@x.org"}]
    });
    assert_eq!(asked.body, expected);

    let bare = json!({"summary": "s", "start": "2026-03-02T10:00:00Z", "end": "2026-03-02T10:00:00Z", "attendees": " ,"});
    let time = json!({"dateTime": "2026-03-02T10:00:00+00:00"});
    assert_eq!(created(&bench, bare).await, json!({"summary": "s", "start": time, "end": time}));
}

#[tokio::test]
async fn rule_14_dates_and_times_are_not_mixed_nor_turned_round() {
    let Some(bench) = Bench::start(silent).await else { return };
    for (start, end, expected) in [
        ("2026-03-02", "2026-03-02T10:00:00", "start and end must both be"),
        ("2026-03-02T10:00:00", "2026-03-02", "start and end must both be"),
        ("2026-03-02", "2026-03-01", "end is before start"),
        ("2026-03-02T10:00:00", "2026-03-02T09:59:59", "end is before start"),
        ("2026-03-02T10:00:00+02:00", "2026-03-02T09:00:00+02:00", "end is before start"),
        ("2026-03-02T10:00:00+00:00", "2026-03-02T10:30:00+02:00", "end is before start"),
        ("soon", "2026-03-02", "start must be a date"),
        ("2026-03-02", "2026-13-02", "end must be a date"),
        ("2026-03-02T10:00:00[Europe/Berlin]", "2026-03-02", "start must be a date"),
    ] {
        let arguments = json!({"summary": "s", "start": start, "end": end});
        let text = bench.fail("calendar_create_event", arguments).await;
        assert!(text.starts_with(expected), "{start} {end}: {text}");
    }
    assert_eq!(bench.server.refreshes(), 0);
}

#[tokio::test]
async fn rule_15_a_time_without_an_offset_is_the_users() {
    let zone = |settings: &mut toolbus_toolkits::GoogleSettings| {
        settings.time_zone = Some("America/New_York".to_owned());
    };
    let Some(bench) = Bench::start_with(echo, zone).await else { return };
    let arguments =
        json!({"summary": "s", "start": "2026-07-01T09:00:00", "end": "2026-07-01T15:00:00+01:00"});
    let body = created(&bench, arguments).await;
    let start = json!({"dateTime": "2026-07-01T09:00:00-04:00", "timeZone": "America/New_York"});
    assert_eq!(body["start"], start);
    assert_eq!(body["end"], json!({"dateTime": "2026-07-01T15:00:00+01:00"}));
}

#[tokio::test]
async fn mx_k3_an_event_is_described() {
    let api = |_: &str, asked: &Asked| {
        Answer::Json(match asked.path.ends_with("/bare") {
            true => json!({"id": "bare"}),
            false => json!({
                "id": "e", "summary": "Tea", "status": "confirmed", "location": "Hall",
                "description": "one\ntwo", "organizer": {"email": "o@x.org"},
                "creator": {"email": "c@x.org"}, "start": {"date": "2026-03-02"},
                "end": {"date": "2026-03-03"}, "recurrence": ["RRULE:FREQ=DAILY", "EXDATE:x"],
                "attendees": [{"email": "a@x.org", "responseStatus": "accepted"},
                              {"email": "b@x.org", "responseStatus": "needsAction"}],
                "conferenceData": {"entryPoints": [
                    {"entryPointType": "phone", "uri": "tel:1"},
                    {"entryPointType": "video", "uri": "https://meet/x"}]}
            }),
        })
    };
    let Some(bench) = Bench::start(api).await else { return };
    let text = bench.say("calendar_get_event", json!({"eventId": "e"})).await;
    let expected = "Summary: Tea\nStatus: confirmed\nStart: 2026-03-02\nEnd: 2026-03-03\n\
                    Location: Hall\nDescription: one\ntwo\nOrganizer: o@x.org\nCreator: c@x.org\n\
                    Attendees: a@x.org (accepted), b@x.org (needsAction)\n\
                    Conference Link: https://meet/x\nRecurrence: RRULE:FREQ=DAILY; EXDATE:x";
    assert_eq!(text, expected);
    let text = bench.say("calendar_get_event", json!({"eventId": "bare"})).await;
    let expected = "Summary: (no title)\nStatus: \nStart: \nEnd: \nLocation: \nDescription: \n\
                    Organizer: \nCreator: ";
    assert_eq!(text, expected);
}
