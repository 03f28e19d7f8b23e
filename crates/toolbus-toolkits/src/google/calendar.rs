//! The tools of Calendar.

use serde_json::{Map, Value, json};
use toolbus_tools::arguments::{number, text};

use super::Inner;
use super::api::{ApiError, ApiRequest};
use super::product::Product::Calendar;
use super::text::{LINE_CHARS_MAX, field, one_line};
use super::times::{EventTime, check_order, text_of, today};

/// How many events are listed where nobody says, and at most.
const EVENTS_DEFAULT: u64 = 10;
pub(super) const EVENTS_MAX: u64 = 250;
/// Most attendees of an event, as Google has it.
const ATTENDEES_MAX: usize = 200;
/// Longest description that is shown, in characters.
const DESCRIPTION_CHARS_MAX: usize = 20_000;
/// The calendar where nobody says.
const PRIMARY: &str = "primary";
const NO_EVENTS: &str = "No events found.";
const NO_TITLE: &str = "(no title)";

pub(super) async fn list(
    google: &Inner,
    arguments: &Map<String, Value>,
) -> Result<String, ApiError> {
    let count = number(arguments, "maxResults").unwrap_or(EVENTS_DEFAULT).clamp(1, EVENTS_MAX);
    let mut query = bounds(google, arguments).map_err(ApiError::Arguments)?;
    query.extend([
        ("maxResults", count.to_string()),
        ("singleEvents", "true".to_owned()),
        ("orderBy", "startTime".to_owned()),
        ("timeZone", google.zone_name.clone()),
    ]);
    if let Some(words) = given(arguments, "query") {
        query.push(("q", words.to_owned()));
    }
    let listed = google.call(ApiRequest::get(Calendar, &events(arguments), query)).await?;

    let items = listed.get("items").and_then(Value::as_array);
    let items = items.into_iter().flatten().take(count as usize);
    let blocks: Vec<_> = items.map(block).collect();
    Ok(if blocks.is_empty() { NO_EVENTS.to_owned() } else { blocks.join("\n\n") })
}

/// Between which times: today where neither is given.
fn bounds(
    google: &Inner,
    arguments: &Map<String, Value>,
) -> Result<Vec<(&'static str, String)>, String> {
    let zone = &google.zone;
    let read = |name| given(arguments, name).map(|text| EventTime::parse(name, text, zone));
    let min = read("timeMin").transpose()?.map(|time| time.as_lower_bound(zone)).transpose()?;
    let max = read("timeMax").transpose()?.map(|time| time.as_upper_bound(zone)).transpose()?;

    let (min, max) = match (min, max) {
        (None, None) => {
            let (min, max) = today((google.clock)(), zone)?;
            (Some(min), Some(max))
        }
        (Some(min), Some(max)) if max.timestamp() < min.timestamp() => {
            return Err("timeMax is before timeMin".to_owned());
        }
        bounds => bounds,
    };
    let min = min.map(|min| ("timeMin", text_of(&min)));
    Ok(min.into_iter().chain(max.map(|max| ("timeMax", text_of(&max)))).collect())
}

pub(super) async fn create(
    google: &Inner,
    arguments: &Map<String, Value>,
) -> Result<String, ApiError> {
    let event = new_event(google, arguments).map_err(ApiError::Arguments)?;
    let made = google.call(ApiRequest::post(Calendar, &events(arguments), event)).await?;
    Ok(format!(
        "Event created.\nID: {}\nSummary: {}\nStart: {}\nEnd: {}\nLink: {}",
        field(&made, "id"),
        title(&made),
        time_of(&made, "start"),
        time_of(&made, "end"),
        field(&made, "htmlLink")
    ))
}

fn new_event(google: &Inner, arguments: &Map<String, Value>) -> Result<Value, String> {
    let time = |name| {
        let text = text(arguments, name).unwrap_or_default();
        EventTime::parse(name, text, &google.zone)
    };
    let (start, end) = (time("start")?, time("end")?);
    check_order(&start, &end)?;
    let mut event = json!({
        "summary": text(arguments, "summary").unwrap_or_default(),
        "start": start.to_json(&google.zone_name),
        "end": end.to_json(&google.zone_name),
    });

    for name in ["description", "location"] {
        if let Some(text) = given(arguments, name) {
            event[name] = text.into();
        }
    }
    let attendees = given(arguments, "attendees").unwrap_or_default().split(',');
    let attendees = attendees.map(str::trim).filter(|email| !email.is_empty());
    let attendees: Vec<_> = attendees.map(|email| json!({"email": email})).collect();
    if attendees.len() > ATTENDEES_MAX {
        return Err(format!("there are more than {ATTENDEES_MAX} attendees"));
    }
    if !attendees.is_empty() {
        event["attendees"] = attendees.into();
    }
    Ok(event)
}

pub(super) async fn get(
    google: &Inner,
    arguments: &Map<String, Value>,
) -> Result<String, ApiError> {
    let id = text(arguments, "eventId").unwrap_or_default().trim();
    let [a, b, c, calendar, e] = events(arguments);
    let path = [a, b, c, calendar, e, id];
    let event = google.call(ApiRequest::get(Calendar, &path, Vec::new())).await?;

    let mut lines = vec![
        format!("Summary: {}", title(&event)),
        format!("Status: {}", field(&event, "status")),
        format!("Start: {}", time_of(&event, "start")),
        format!("End: {}", time_of(&event, "end")),
        format!("Location: {}", field(&event, "location")),
        format!("Description: {}", description(&event)),
        format!("Organizer: {}", email_of(&event, "organizer")),
        format!("Creator: {}", email_of(&event, "creator")),
    ];
    let found = [
        ("Attendees", attendees_of(&event)),
        ("Conference Link", conference_link(&event)),
        ("Recurrence", recurrence(&event)),
    ];
    let found = found.into_iter().filter_map(|(name, text)| Some(format!("{name}: {}", text?)));
    lines.extend(found);
    Ok(lines.join("\n"))
}

/// The path of the events of a calendar.
fn events(arguments: &Map<String, Value>) -> [&str; 5] {
    let calendar = given(arguments, "calendarId").unwrap_or(PRIMARY);
    ["calendar", "v3", "calendars", calendar, "events"]
}

fn given<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    text(arguments, name).map(str::trim).filter(|text| !text.is_empty())
}

fn block(event: &Value) -> String {
    format!(
        "ID: {}\nSummary: {}\nStart: {}\nEnd: {}\nLocation: {}\nStatus: {}\nOrganizer: {}",
        field(event, "id"),
        title(event),
        time_of(event, "start"),
        time_of(event, "end"),
        field(event, "location"),
        field(event, "status"),
        email_of(event, "organizer")
    )
}

fn title(event: &Value) -> String {
    Some(field(event, "summary")).filter(|text| !text.is_empty()).unwrap_or(NO_TITLE.to_owned())
}

/// A time as Google has it: a moment, or a date of an event of whole days.
fn time_of(event: &Value, name: &str) -> String {
    let time = event.get(name).unwrap_or(&Value::Null);
    let moment = field(time, "dateTime");
    if moment.is_empty() { field(time, "date") } else { moment }
}

fn email_of(event: &Value, name: &str) -> String {
    event.get(name).map(|person| field(person, "email")).unwrap_or_default()
}

/// It may have marks in it, and lines.
fn description(event: &Value) -> String {
    let text = event.get("description").and_then(Value::as_str).unwrap_or_default();
    let text: String = text.chars().filter(|c| *c == '\n' || !c.is_control()).collect();
    match text.char_indices().nth(DESCRIPTION_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn attendees_of(event: &Value) -> Option<String> {
    let attendees = event.get("attendees").and_then(Value::as_array)?.iter().take(ATTENDEES_MAX);
    let attendees = attendees.map(|attendee| {
        let (email, status) = (field(attendee, "email"), field(attendee, "responseStatus"));
        format!("{email} ({status})")
    });
    let attendees: Vec<_> = attendees.collect();
    (!attendees.is_empty()).then(|| attendees.join(", "))
}

fn conference_link(event: &Value) -> Option<String> {
    let entries = event.pointer("/conferenceData/entryPoints").and_then(Value::as_array)?;
    let is_video = |entry: &&Value| field(entry, "entryPointType") == "video";
    let link = entries.iter().find(is_video).map(|entry| field(entry, "uri"))?;
    (!link.is_empty()).then_some(link)
}

fn recurrence(event: &Value) -> Option<String> {
    let rules = event.get("recurrence").and_then(Value::as_array)?.iter().filter_map(Value::as_str);
    let rules: Vec<_> = rules.take(100).map(|rule| one_line(rule, LINE_CHARS_MAX)).collect();
    (!rules.is_empty()).then(|| rules.join("; "))
}
