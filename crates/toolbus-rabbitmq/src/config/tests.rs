use super::*;

fn address(url: &str) -> Address {
    let [node] = <[_; 1]>::try_from(Config::new(url).expect("the url is good").nodes).unwrap();
    node
}

#[test]
fn names_the_broker_but_never_the_password() {
    let config = Config::new("amqps://anna:s3cret%40x@broker.example:5671/fleet").unwrap();
    let shown = format!("{config:?} {}", config.nodes[0]);
    assert!(shown.contains("amqps://anna@broker.example:5671/fleet"), "{shown}");
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn reads_the_urls_of_several_nodes() {
    let config = Config::new("amqp://u:s3cret@a/v, amqps://w:s3cret@b:5680/x").unwrap();
    let shown = format!("{config:?}");
    assert!(shown.contains("[amqp://u@a:5672/v, amqps://w@b:5680/x]"), "{shown}");
    assert!(!shown.contains("s3cret"), "{shown}");

    let many = ["amqp://h"; BROKER_NODES_MAX + 1].join(",");
    assert!(matches!(Config::new(&many), Err(ConnectError::InvalidConfig(_))));
}

#[test]
fn a_url_that_is_none_is_not_repeated() {
    for url in [
        "",
        "hunter2",
        "http://u:hunter2@host",
        "amqp://u:hunter2@host:notaport",
        "amqp:hunter2",
        "amqp://u:hunter2@host,http://u:hunter2@host",
    ] {
        let error = Config::new(url).unwrap_err();
        assert!(matches!(error, ConnectError::InvalidUrl), "{url}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}

#[test]
fn reads_the_parts_of_a_url() {
    let check = |url: &str, shown: &str, virtual_host: &str| {
        let address = address(url);
        assert_eq!((address.to_string().as_str(), address.virtual_host()), (shown, virtual_host));
    };
    check("amqp://localhost", "localhost:5672", "/");
    check("amqp://127.0.0.1:5673/%2f", "127.0.0.1:5673", "/");
    check("amqps://broker.example/a%2Fb", "broker.example:5671", "a/b");
    check("amqp://u:p%5B@[::1]:5680/v", "[::1]:5680", "v");
    check("amqp://[fe80::1]/", "[fe80::1]:5672", "");
}

#[test]
fn the_url_may_set_its_own_heartbeat() {
    let uri = |url: &str, heartbeat| address(url).uri(Duration::from_millis(heartbeat));
    assert_eq!(uri("amqp://h", 10_000).query.heartbeat, Some(10));
    assert_eq!(uri("amqp://h", 300).query.heartbeat, Some(1));
    assert_eq!(uri("amqp://h?heartbeat=30", 10_000).query.heartbeat, Some(30));
}

#[test]
fn the_url_may_set_its_own_limit_of_frames() {
    let limit = |url: &str| address(url).uri(Duration::from_secs(10)).query.frame_max;
    assert_eq!(limit("amqp://h"), Some(FRAME_BYTES_MAX));
    assert_eq!(limit("amqp://h?frame_max=16384"), Some(16_384));
}

#[test]
fn exchanges_need_names_of_their_own() {
    let mut config = Config::new("amqp://h").unwrap();
    config.check().unwrap();
    config.dead_letter_exchange = config.exchange.clone();
    assert!(matches!(config.check(), Err(ConnectError::InvalidConfig(_))));
    config.dead_letter_exchange = "x".repeat(256);
    assert!(matches!(config.check(), Err(ConnectError::InvalidConfig(_))));
}
