use super::*;

fn places(concurrency: u16, of_one: Option<u16>) -> (u16, usize) {
    let settings = McpSettings {
        concurrency: NonZeroU16::new(concurrency).unwrap(),
        concurrency_per_server: of_one.map(|max| NonZeroU16::new(max).unwrap()),
        ..McpSettings::default()
    };
    let agents = vec![AgentName::standard()];
    let options = settings.bridge_options(agents, InstanceId::random(), GrantCheck::off());
    (options.concurrency.get(), settings.calls_per_server_max())
}

#[test]
fn one_server_has_a_part_of_the_places() {
    assert_eq!(places(256, None), (256, 64));
    assert_eq!(places(8, None), (8, 2));
    assert_eq!(places(1, None), (1, 1));
    assert_eq!(places(8, Some(5)), (8, 5));
    assert_eq!(places(8, Some(500)), (8, 8), "there are no more");
    let standard = McpSettings::default();
    assert_eq!((standard.concurrency.get(), standard.calls_per_server_max()), (256, 64));
}
