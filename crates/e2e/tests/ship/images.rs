//! The images: small, without rights, and nothing in them that is not needed.

use serde_json::json;
use toolbus_testkit::tools::{self, IMAGES, output, tag};

use crate::support::docker;

/// Most that an image with nothing but the program may have, in bytes, where the program is the one of
/// a release. What tests build is larger, and comes with the libraries that it is linked with.
const ALONE_BYTES_MAX: u64 = 40 << 20;

#[test]
fn images_are_small_and_say_what_they_are() {
    let Some(engine) = tools::docker() else { return };
    for (name, alone) in IMAGES {
        let image = format!("toolbus/{name}:{}", tag());
        let found = docker(&engine, &["image", "inspect", &image]);
        let found = &found[0];
        let bytes = found["Size"].as_u64().unwrap();
        println!("{image}: {:.1} MiB", bytes as f64 / f64::from(1 << 20));
        let config = &found["Config"];
        let is_release = config["Labels"]["dev.toolbus.linking"] == "static";
        let fits = !alone || !is_release || bytes <= ALONE_BYTES_MAX;
        assert!(fits, "{image} has {bytes} bytes");
        assert_eq!(config["User"], "65532:65532", "{image}");
        let check = config["Healthcheck"]["Test"].as_array().unwrap();
        assert_eq!((&check[0], check.last().unwrap()), (&json!("CMD"), &json!("--probe")));
        let labels = &config["Labels"];
        assert_eq!(labels["org.opencontainers.image.title"], name);
        assert_eq!(labels["org.opencontainers.image.version"], env!("CARGO_PKG_VERSION"));
        for label in ["licenses", "source", "revision", "created", "description", "vendor"] {
            let value = labels[format!("org.opencontainers.image.{label}")].as_str();
            assert!(value.is_some_and(|value| !value.is_empty()), "{image} has no {label}");
        }
    }
}

/// Without rights, without anywhere to write, without a network: enough to start and to say so.
#[test]
fn images_run_without_rights() {
    let Some(engine) = tools::docker() else { return };
    let rights = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"];
    for (name, alone) in IMAGES {
        let image = format!("toolbus/{name}:{}", tag());
        let run = |arguments: &[&str]| {
            let mut command = engine.command("docker");
            command.args(["run", "--rm", "--network=none"]).args(rights);
            output(command.arg(&image).args(arguments))
        };
        let program = IMAGES.iter().find(|(program, _)| name.starts_with(program)).unwrap().0;
        let version = run(&["--version"]).unwrap();
        assert_eq!(version.trim(), format!("{program} {}", env!("CARGO_PKG_VERSION")));
        // The health check is a program's own, and tells when nobody is there.
        let probe: &[&str] = match program {
            "agent-host" => &["serve", "--health", ":8081", "--probe"],
            "openrouter-mcp" => &["--health", ":8081", "--probe"],
            _ => &["--bus", "amqp://nobody", "--health", ":8081", "--probe"],
        };
        let error = run(probe).unwrap_err().to_string();
        assert!(error.contains("the health port :8081 does not answer"), "{error}");
        let mut command = engine.command("docker");
        command.args(["run", "--rm", "--entrypoint", "/bin/sh", &image, "-c", "true"]);
        assert_eq!(output(&mut command).is_err(), alone, "whether {image} has a shell");
    }
}

/// The bill of materials in an image is of this program, and of what it links.
#[test]
fn images_carry_their_bill_of_materials() {
    let Some(engine) = tools::docker() else { return };
    let image = format!("toolbus/scripts-manager:{}", tag());
    let container = output(engine.command("docker").args(["create", &image])).unwrap();
    let container = container.trim();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("sbom.json");
    let from = format!("{container}:/usr/share/sbom/scripts-manager.cdx.json");
    let copied = output(engine.command("docker").arg("cp").arg(from).arg(&to));
    output(engine.command("docker").args(["rm", container])).unwrap();
    copied.unwrap();
    let bill: serde_json::Value = serde_json::from_slice(&std::fs::read(to).unwrap()).unwrap();
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&json!("CycloneDX"), &json!("1.5")));
    assert_eq!(bill["metadata"]["component"]["name"], "scripts-manager");
    let parts: Vec<_> = bill["components"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|part| part["name"].as_str())
        .collect();
    for part in ["kube", "lapin", "ring", "tokio"] {
        assert!(parts.contains(&part), "{part} is not on the bill");
    }
    for other in ["rmcp", "toolbus-testkit", "serde_derive", "insta"] {
        assert!(!parts.contains(&other), "{other} is on the bill");
    }
}
