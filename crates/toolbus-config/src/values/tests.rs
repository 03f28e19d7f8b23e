//! Texts that read, texts that do not, and that what is printed reads back.

use super::*;

fn check<T: TextValue + std::fmt::Debug>(text: &str, expected: Result<&str, &str>) {
    match (T::read(text), expected) {
        (Ok(value), Ok(printed)) => {
            assert_eq!(value.to_string(), printed, "{text}");
            if !T::SENSITIVE {
                assert_eq!(T::read(printed).unwrap().to_string(), printed);
            }
        }
        (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
        (read, expected) => panic!("{text}: {read:?} and not {expected:?}"),
    }
}

#[test]
fn durations() {
    check::<TimeSpan>("250ms", Ok("250ms"));
    check::<TimeSpan>("1500ms", Ok("1500ms"));
    check::<TimeSpan>("30s", Ok("30s"));
    check::<TimeSpan>("60s", Ok("1m"));
    check::<TimeSpan>("90 m", Ok("90m"));
    check::<TimeSpan>("7d", Ok("7d"));
    check::<TimeSpan>("0m", Ok("0s"));
    check::<TimeSpan>("30", Err("no unit"));
    check::<TimeSpan>("", Err("whole number"));
    check::<TimeSpan>("-5s", Err("whole number"));
    check::<TimeSpan>("1.5s", Err("unit is none of"));
    check::<TimeSpan>("5M", Err("unit is none of"));
    check::<TimeSpan>("99999999999999999999s", Err("too large"));
    check::<TimeSpan>("18446744073709551615d", Err("too large"));
}

#[test]
fn sizes() {
    check::<ByteSize>("8MiB", Ok("8MiB"));
    check::<ByteSize>("1024KiB", Ok("1MiB"));
    check::<ByteSize>("10MB", Ok("10000000B"));
    check::<ByteSize>("0GiB", Ok("0B"));
    check::<ByteSize>("5", Err("no unit"));
    check::<ByteSize>("5mib", Err("unit is none of"));
}

#[test]
fn urls() {
    check::<BusUrls>("amqp://u:hunter2@h:1/v", Ok("amqp://u:***@h:1/v"));
    check::<BusUrls>("amqps://h", Ok("amqps://h"));
    check::<BusUrls>("http://h", Err("amqp or amqps"));
    check::<BusUrls>("amqp://", Err("host"));
    check::<BusUrls>("amqp:h", Err("host"));
    check::<BusUrls>("host:5672", Err("amqp or amqps"));
    check::<HttpUrl>("https://u:hunter2@h/p?q=1", Ok("https://***@h/p?q=***"));
    check::<HttpUrl>("https://hunter2@h/?hunter2#hunter2", Ok("https://***@h/?***#***"));
    check::<HttpUrl>("http://", Err("host"));
    check::<HttpUrl>("ftp://h", Err("http or https"));
}

#[test]
fn addresses_are_shown_without_what_may_be_a_secret() {
    let check = |text: &str, expected: &str| {
        check::<ConfiguredAddress>(text, Ok(expected));
        let address = ConfiguredAddress::from(text);
        assert_eq!(format!("{address:?}"), expected);
        assert_eq!(serde_json::to_value(&address).unwrap(), expected);
        assert_eq!(address.expose(), text);
        check::<ConfiguredAddress>(expected, Ok(expected));
    };
    // Templates and files.
    check("https://h/users/{id}{?a,b*}", "https://h/users/{id}{?a,b*}");
    check("https://h/s?q={q}&key=s", "https://h/s?q={q}&key=***");
    check("https://h/s{?q}&key=s", "https://h/s{?q}&key=***");
    check("https://h/s{&q}&key=s{&r}", "https://h/s{&q}&key=***{&r}");
    check("https://h/?k=${KEY}&l=${vault:KEY}&m=", "https://h/?k=${KEY}&l=${vault:KEY}&m=");
    check("https://h/?k=${KEY:-s}&l=a{x}b", "https://h/?k=***&l=***{x}***");
    check("/home/me@work/#1/api.json", "/home/me@work/#1/api.json");
    check("api.json", "api.json");
    check("", "");

    // Whatever a parser of URLs reads as one, and what a person took for one.
    check("https://s@h:1/@p/?a=s&s&c=d=s#s", "https://***@h:1/@p/?a=***&***&c=***#***");
    check("https:u:s@h/", "https:***@h/");
    check("https:\\\\u:s@h/", "https:\\\\***@h/");
    check("//u:s@h?s", "//***@h?***");
    check("https://u:s/s@h/", "https://***@h/");
    check("https://u:s?s@h/", "https://***@h/");
    check("api.example/x?key=s", "api.example/x?key=***");
    check("https://h/?filter={\"k\":\"s\"}&k={x", "https://h/?filter=***&k=***");
    check("https://h/{?a=s}", "https://h/***");
    assert_eq!(ConfiguredAddress::from(" ht\ttps://u:s@h/ ").to_string(), "https://***@h/");
}

#[test]
fn urls_of_several_nodes() {
    let check = check::<BusUrls>;
    check(
        "amqp://u:hunter2@a:1/v, amqps://w:hunter3@b/x",
        Ok("amqp://u:***@a:1/v,amqps://w:***@b/x"),
    );
    check("amqp://a,http://b", Err("amqp or amqps"));
    check("amqp://a,amqp://", Err("host"));
    check("amqp://a,b", Err("its host has a comma"));
    check("amqp://a,", Err("its host has a comma"));
    check(&["amqp://h"; BROKER_NODES_MAX + 1].join(","), Err("more than 16"));
}

#[test]
fn a_list_of_urls_is_split_where_a_url_begins() {
    let check = |text: &str, expected: &[&str]| assert_eq!(split_bus_urls(text), expected);
    check("amqp://h", &["amqp://h"]);
    check(" amqp://a:1/v , amqps://b ", &["amqp://a:1/v", "amqps://b"]);
    check("amqp://u:p,w@a/v,x,amqp://u:,@b", &["amqp://u:p,w@a/v,x", "amqp://u:,@b"]);
    check("", &[""]);

    let urls: BusUrls = "amqp://u:p,w@a, amqp://b".parse().unwrap();
    assert_eq!(urls.expose(), "amqp://u:p,w@a,amqp://b");
}

#[test]
fn paths_below_a_url() {
    let below = |url: &str| {
        let url = url.parse::<HttpUrl>().unwrap().below(&["v1", "traces"]);
        url.expose().to_owned()
    };
    assert_eq!(below("http://h"), "http://h/v1/traces");
    assert_eq!(below("http://h/"), "http://h/v1/traces");
    assert_eq!(below("http://h/otlp"), "http://h/otlp/v1/traces");
    assert_eq!(below("http://h/otlp/?k=v"), "http://h/otlp/v1/traces?k=v");
}

#[test]
fn listen_addresses() {
    check::<ListenAddress>("127.0.0.1:8080", Ok("127.0.0.1:8080"));
    check::<ListenAddress>(":0", Ok(":0"));
    check::<ListenAddress>("[::1]:80", Ok("[::1]:80"));
    check::<ListenAddress>("localhost:1", Ok("localhost:1"));
    check::<ListenAddress>("8080", Err("a port alone: write 127.0.0.1:8080 for this machine"));
    check::<ListenAddress>("localhost", Err("no port"));
    check::<ListenAddress>("host:", Err("not a number"));
    check::<ListenAddress>("host:65536", Err("not a number"));
    check::<ListenAddress>("::1:80", Err("brackets"));
    check::<ListenAddress>("http://h:80", Err("brackets"));
    check::<ListenAddress>("a b:80", Err("not a name"));
    check::<ListenAddress>("[a]:80", Ok("a:80"));
    for text in ["[[a]]:80", "[[::1]]:80", "[a:80", "a]:80", "[::1]]:80", "a[b]:80"] {
        check::<ListenAddress>(text, Err("not a name"));
    }
}

#[test]
fn log_filters() {
    check::<LogFilter>("debug", Ok("debug"));
    check::<LogFilter>("info,toolbus_bus=debug", Ok("info,toolbus_bus=debug"));
    check::<LogFilter>(" info , toolbus_bus=debug,", Ok("info,toolbus_bus=debug"));
    check::<LogFilter>("toolbus=loud", Err(""));
    check::<LogFilter>(" ,", Err("nothing"));
}

#[test]
fn secrets_are_masked_everywhere_but_where_they_are_used() {
    let secret = Secret::from("hunter2".to_owned());
    let shown = format!("{secret} {secret:?} {}", serde_json::to_string(&secret).unwrap());
    assert_eq!(shown, r#"*** *** "***""#);
    assert_eq!(secret.expose(), "hunter2");
    let urls: BusUrls = "amqp://u:hunter2@h,amqp://v:hunter2@i".parse().unwrap();
    assert_eq!(format!("{urls:?}"), "amqp://u:***@h,amqp://v:***@i");
}
