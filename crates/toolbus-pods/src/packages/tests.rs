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
    let nodes = r#"{"nodeSelector": {"kubernetes.io/arch": "arm64"}}"#.to_owned();
    let placement = nodes.try_into().expect("a placement");
    let other_nodes = KubernetesSettings { placement, ..settings.clone() };
    for other in [
        set_key(&other_nodes, index, &requirements(&["a==1", "b"])),
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
            &agent_digest("RockBot/ü"),
            &requirements(&["b>=2", "a[x]; os_name == 'posix'"]),
        );
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")
    };

    let plain = told("http://index.local:8080/simple");
    assert_eq!(plain["trusted_host"], "index.local");
    assert_eq!(plain["names"], json!(["a", "b"]));
    assert_eq!(plain["agent"].as_str().map(str::len), Some(16));
    assert_eq!(plain["agent_bytes"], plain["cache_bytes"].as_u64().expect("a number") / 2);
    assert_eq!(plain["requirements"], json!(["a[x]; os_name == \"posix\"", "b>=2"]));

    assert_eq!(told("https://index.local/simple")["trusted_host"], json!(null));
}

#[test]
fn a_policy_without_an_index_opens_nothing_but_names() {
    let none = serde_json::to_value(egress_policy(&PackagesSettings::default())).expect("JSON");
    assert_eq!(none["spec"]["egress"].as_array().map(Vec::len), Some(1));
    let dns = &none["spec"]["egress"][0]["to"];
    assert_eq!(dns.as_array().map(Vec::len), Some(1));
    assert_eq!(dns[0]["podSelector"], json!({"matchLabels": {"k8s-app": "kube-dns"}}));
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

/// Runs code with the functions of `install.py`, in a folder of its own that has sets of these sizes
/// which were used a moment ago; returns what it wrote, errors included.
fn with_installer(sets: &[(&str, u32)], code: &str) -> String {
    let folder = std::env::temp_dir().join(format!("toolbus-packages-{}", uuid::Uuid::new_v4()));
    for (key, bytes) in sets {
        let set = folder.join(key);
        std::fs::create_dir_all(&set).expect("a folder");
        std::fs::write(set.join(".size"), bytes.to_string()).expect("written");
    }

    let text = PROGRAM.replace("\"/packages\"", &format!("{:?}", folder.display().to_string()));
    let functions = text.trim_end().strip_suffix("main()").expect("it ends so");
    let order = json!({
        "key": "k", "agent": "me", "cache_bytes": 100, "agent_bytes": 50, "kept_seconds": 60,
    });
    let output = std::process::Command::new("python3")
        .args(["-I", "-c", &format!("{functions}{code}")])
        .env("ROCKBOT_INPUT", order.to_string())
        .output()
        .expect("python3");

    std::fs::remove_dir_all(&folder).expect("removed");
    [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
}

#[test]
fn nothing_is_installed_while_sets_in_use_take_up_all_the_room() {
    let code = "check_room()\nprint('room')";
    assert_eq!(with_installer(&[("a", 60), ("b", 39)], code), "room\n");
    let full = with_installer(&[("a", 60), ("b", 40)], code);
    assert!(full.contains("take up all of the 100 bytes"), "{full}");

    // Unused ones go instead.
    let old = "for entry in os.scandir(SETS): os.utime(entry.path, (0, 0))\n";
    let code = format!("{old}{code}\nprint(len(os.listdir(SETS)))");
    assert_eq!(with_installer(&[("a", 60), ("b", 60), ("c", 60)], &code), "room\n1\n");
}

#[test]
fn one_agent_fills_no_more_than_its_share_with_sets_in_use() {
    let agents = r"
for name, agent in ('a', 'me'), ('b', 'me'), ('c', 'another'):
    with open(os.path.join(SETS, name, AGENT), 'w') as file: file.write(agent)
";
    let check = |sets: &[(&str, u32)], code: &str, expected: &str| {
        let told = with_installer(sets, &format!("{agents}{code}check_room()\nprint('room')"));
        assert!(told.contains(expected), "{told}");
    };
    check(&[("a", 30), ("b", 19), ("c", 45)], "", "room\n");
    check(&[("a", 30), ("b", 20), ("c", 0)], "", "all of the 50 bytes of one agent");
    check(&[("a", 0), ("b", 49), ("c", 50), ("d", 0)], "", "room\n");
    // What it has not used for long counts for nobody.
    let old = "os.utime(os.path.join(SETS, 'a'), (0, 0))\n";
    check(&[("a", 30), ("b", 20), ("c", 0)], old, "room\n");
}

/// Another packages pod removes what this one has just listed.
#[test]
fn what_others_remove_meanwhile_is_no_failure() {
    let code = r"
scan, rename = os.scandir, os.rename
def others_are_faster(path):
    os.scandir = scan
    entries = list(scan(path))
    for entry in entries: os.utime(entry.path, (0, 0))
    shutil.rmtree(os.path.join(SETS, 'gone'))
    return entries
def is_gone(*_): raise FileNotFoundError
os.scandir, os.rename = others_are_faster, is_gone
print(make_room()[0])
";
    assert_eq!(with_installer(&[("gone", 60), ("a", 60), ("b", 60)], code), "60\n");
}
