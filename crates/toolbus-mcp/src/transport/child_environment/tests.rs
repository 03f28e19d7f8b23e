use super::*;

#[test]
fn secrets_of_the_bridge_stay_with_it() {
    let all = [
        ("PATH", "/bin"),
        ("https_proxy", "http://proxy"),
        ("path", "no"),
        ("TOOLBUS_BUS", "amqp://user:password@broker"),
        ("RabbitMq__Password", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
    ];
    let passed = minimal(all.map(|(name, value)| (name.into(), value.into())));
    let names: Vec<_> = passed.iter().map(|(name, _)| name.to_str().unwrap()).collect();
    assert_eq!(names, ["PATH", "https_proxy"]);
}
