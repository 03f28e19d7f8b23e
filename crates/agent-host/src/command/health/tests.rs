//! What answers of services mean.

use super::*;

fn of_port(is_ready: bool, report: &Value) -> (Status, Vec<String>) {
    let report =
        Report::of_port(&Readiness { is_ready, is_of_toolbus: true, report: report.to_string() });
    (report.status, report.reasons)
}

#[test]
fn cx_c1_a_service_is_healthy_degraded_or_unhealthy() {
    let up = json!({"components": {"tools": {"state": "up", "required": true}}});
    assert_eq!(of_port(true, &up), (Status::Healthy, vec![]));
    let away = json!({"components": {
        "bus": {"state": "degraded", "reason": "slow"}, "tools": {"state": "up"},
    }});
    assert_eq!(of_port(true, &away), (Status::Degraded, vec!["bus is degraded: slow".to_owned()]));
    let starting = json!({"components": {"tools": {"state": "starting"}}});
    let expected = vec!["tools is starting".to_owned()];
    assert_eq!(of_port(false, &starting), (Status::Unhealthy, expected));
    let expected = vec!["it is not ready".to_owned()];
    assert_eq!(of_port(false, &json!("?")), (Status::Unhealthy, expected));
}

#[test]
fn what_is_no_api_of_ours_is_unhealthy() {
    let of_api = |answer: &str| Report::of_api(answer.as_bytes()).status;
    assert_eq!(of_api(r#"{"data": {"status": "healthy"}}"#), Status::Healthy);
    assert_eq!(of_api(r#"{"data": {"status": "degraded"}}"#), Status::Degraded);
    assert_eq!(of_api(r#"{"data": {"status": "unhealthy"}}"#), Status::Unhealthy);
    assert_eq!(of_api(r#"{"data": {"status": "\u001b[31mfine"}}"#), Status::Unhealthy);
    assert_eq!(of_api("<html>"), Status::Unhealthy);
}

#[test]
fn the_address_is_that_of_a_server_or_of_its_interface() {
    for url in ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/health"] {
        let url = url.parse().expect("an address");
        let url = health_url(&url).expect("an address");
        assert_eq!(url.as_str(), "http://h:1/v1/health");
    }
    let behind = "https://h/a/v1/".parse().expect("an address");
    assert_eq!(health_url(&behind).expect("an address").as_str(), "https://h/a/v1/health");
}

#[test]
fn nobody_who_listens_is_unhealthy_and_says_how_to_start_it() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = port.local_addr().expect("an address").to_string();
    drop(port);
    let report = ask_port(&address.parse().expect("an address"));
    assert_eq!(report.status, Status::Unhealthy);
    let hint = format!("--health {address}");
    assert!(report.reasons[0].contains(&hint), "{report:?}");

    let report = ask_api(&format!("http://user:hunter2@{address}").parse().expect("an address"));
    assert_eq!(report.status, Status::Unhealthy);
    assert!(!report.to_text().contains("hunter2"), "{report:?}");
}
