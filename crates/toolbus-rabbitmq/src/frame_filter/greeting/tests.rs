use super::*;

/// Writes a method `connection.start` with a table of properties.
fn start(table: &[u8]) -> Vec<u8> {
    let length = u32::try_from(table.len()).unwrap();
    [&[0, 10, 0, 10, 0, 9], &length.to_be_bytes()[..], table].concat()
}

fn text(name: &str, value: &str) -> Vec<u8> {
    let length = u32::try_from(value.len()).unwrap();
    let name_length = [u8::try_from(name.len()).unwrap()];
    [&name_length[..], name.as_bytes(), b"S", &length.to_be_bytes(), value.as_bytes()].concat()
}

fn broker(mut payload: Vec<u8>) -> Option<String> {
    let greeting = Greeting::default();
    greeting.read(&mut payload);
    greeting.broker()
}

#[test]
fn name_and_version_are_found_among_other_properties() {
    // A table within the table, as the capabilities are, and a number.
    let inner = [&[6], &b"nested"[..], b"t", &[1]].concat();
    let length = u32::try_from(inner.len()).unwrap().to_be_bytes();
    let capabilities = [&[12], &b"capabilities"[..], b"F", &length, &inner].concat();
    let number = [&[1], &b"n"[..], b"I", &[0, 0, 0, 7]].concat();
    let (version, product) = (text("version", "4.2.1"), text("product", "RabbitMQ"));
    let table = [capabilities, version.clone(), number, product.clone()].concat();
    assert_eq!(broker(start(&table)).as_deref(), Some("RabbitMQ 4.2.1"));
    assert_eq!(broker(start(&product)).as_deref(), Some("RabbitMQ"));
    assert_eq!(broker(start(&version)).as_deref(), Some("AMQP 4.2.1"));
    assert_eq!(broker(start(&[])).as_deref(), Some("AMQP"));
}

#[test]
fn what_is_no_name_is_left_out() {
    let control = text("product", "Rabbit\u{1b}MQ");
    let long = text("product", &"x".repeat(TEXT_BYTES_MAX + 1));
    let number = [&[7], &b"product"[..], b"I", &[0, 0, 0, 7]].concat();
    for table in [control, long, number] {
        assert_eq!(broker(start(&table)).as_deref(), Some("AMQP"), "{table:?}");
    }
}

#[test]
fn another_method_and_a_cut_one_say_nothing() {
    let whole = start(&text("product", "RabbitMQ"));
    for cut in 0..whole.len() {
        assert_eq!(broker(whole[..cut].to_vec()), None, "cut at {cut}");
    }
    let mut other = whole;
    other[3] = 11;
    assert_eq!(broker(other), None);
}
