//! Addresses of brokers.

use super::Broker;

#[test]
fn addresses_are_those_of_the_given_broker() {
    let broker = Broker::parse("amqp://me:p%40ss@broker.test:5673/other", None).unwrap();
    assert_eq!(broker.amqp(), "amqp://me:p%40ss@broker.test:5673");
    assert_eq!(broker.amqp_url("a b/c"), "amqp://me:p%40ss@broker.test:5673/a%20b%2Fc");
    assert_eq!(broker.api(), "http://broker.test:15672/");
    assert_eq!((broker.user(), broker.password()), ("me".to_owned(), "p@ss".to_owned()));

    let broker = Broker::parse("amqp://127.0.0.1", Some("http://127.0.0.1:1/")).unwrap();
    assert_eq!(broker.api(), "http://127.0.0.1:1/");
    assert_eq!((broker.user(), broker.password()), ("guest".to_owned(), "guest".to_owned()));

    assert!(Broker::parse("not a url", None).is_err());
    assert!(Broker::parse("amqp:///vhost", None).is_err());
}
