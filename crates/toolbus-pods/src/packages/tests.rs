//! Names of sets, orders and pods, without a cluster.

use super::*;

fn requirements(texts: &[&str]) -> Requirements {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    Requirements::parse(&texts).expect("requirements")
}

#[test]
fn one_set_has_one_key_and_all_that_decides_about_it_changes_it() {
    let settings = KubernetesSettings::default();
    let index = "https://index/simple";
    let one = set_key(&settings, index, &requirements(&["a==1", "B"]));
    assert_eq!(one, set_key(&settings, index, &requirements(&["b", "A == 1"])));

    let other_image = KubernetesSettings { image: "other".to_owned(), ..settings.clone() };
    for other in [
        set_key(&settings, index, &requirements(&["a==2", "b"])),
        set_key(&settings, "https://other/simple", &requirements(&["a==1", "b"])),
        set_key(&other_image, index, &requirements(&["a==1", "b"])),
    ] {
        assert_ne!(one, other);
    }
}

#[test]
fn an_installer_is_told_what_to_do_and_whom_to_trust() {
    let settings = PackagesSettings::default();
    let told = |index: &str| {
        let text = install_order(
            &settings,
            index,
            "k",
            &requirements(&["b>=2", "a[x]; os_name == 'posix'"]),
        );
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")
    };

    let plain = told("http://index.local:8080/simple");
    assert_eq!(plain["trusted_host"], "index.local");
    assert_eq!(plain["names"], json!(["a", "b"]));
    assert_eq!(plain["requirements"], json!(["a[x]; os_name == \"posix\"", "b>=2"]));

    assert_eq!(told("https://index.local/simple")["trusted_host"], json!(null));
}

#[test]
fn a_policy_without_an_index_opens_nothing_but_names() {
    let none = serde_json::to_value(egress_policy(&PackagesSettings::default())).expect("JSON");
    assert_eq!(none["spec"]["egress"].as_array().map(Vec::len), Some(1));
    let settings = PackagesSettings {
        index_addresses: vec!["10.0.0.0/24".to_owned()],
        index_port: 8080,
        ..PackagesSettings::default()
    };
    let one = serde_json::to_value(egress_policy(&settings)).expect("JSON");
    let expected = json!({
        "to": [{"ipBlock": {"cidr": "10.0.0.0/24"}}],
        "ports": [{"protocol": "TCP", "port": 8080}],
    });

    assert_eq!(one["spec"]["egress"][1], expected);
    let labels = Some("app=index, tier=cache".to_owned());
    let settings = PackagesSettings { index_labels: labels, ..PackagesSettings::default() };
    let one = serde_json::to_value(egress_policy(&settings)).expect("JSON");
    let expected = json!([{
        "namespaceSelector": {},
        "podSelector": {"matchLabels": {"app": "index", "tier": "cache"}},
    }]);

    assert_eq!(one["spec"]["egress"][1]["to"], expected);
    let nothing = PackagesSettings { index_labels: Some(" ".to_owned()), ..settings };
    let none = serde_json::to_value(egress_policy(&nothing)).expect("JSON");
    assert_eq!(none["spec"]["egress"].as_array().map(Vec::len), Some(1));
}
