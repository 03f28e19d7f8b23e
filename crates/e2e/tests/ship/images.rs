//! The images: small, without rights, and nothing in them that is not needed.

use std::fs;

use serde_json::{Value, json};
use toolbus_testkit::tools::{self, Docker, IMAGES, output, tag};

use crate::support::docker;

/// Most that an image with nothing but the program may have, in bytes, where the program is the one
/// of a release. What tests build is larger, and comes with the libraries that it is linked with.
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

/// The bill of materials in each image is of its program, and of what that links.
#[test]
fn images_carry_their_bill_of_materials() {
    let Some(engine) = tools::docker() else { return };
    // What one of the programs links and another does not.
    let telling = ["kube", "lapin", "rmcp", "toolbus-sandbox"];

    for (name, _) in IMAGES {
        let (program, linked): (_, &[&str]) = match name {
            "agent-host" => ("agent-host", &["lapin", "rmcp", "toolbus-sandbox"]),
            "mcp-bridge" | "mcp-bridge-tools" => ("mcp-bridge", &["lapin", "rmcp"]),
            "openrouter-mcp" => ("openrouter-mcp", &["rmcp"]),
            _ => ("scripts-manager", &["kube", "lapin", "toolbus-sandbox"]),
        };
        let bill = bill(&engine, name, program);
        assert_eq!(
            (&bill["bomFormat"], &bill["specVersion"], &bill["metadata"]["component"]["name"]),
            (&json!("CycloneDX"), &json!("1.5"), &json!(program)),
            "{name}"
        );
        let parts = bill["components"].as_array().unwrap();
        let is_there = |part: &str| parts.iter().any(|other| other["name"] == part);
        for part in telling {
            assert_eq!(is_there(part), linked.contains(&part), "{part} on the bill of {name}");
        }
        for part in ["ring", "tokio"] {
            assert!(is_there(part), "{part} is not on the bill of {name}");
        }
        for other in ["toolbus-testkit", "serde_derive", "insta"] {
            assert!(!is_there(other), "{other} is on the bill of {name}");
        }
    }
}

/// The one bill that an image has.
fn bill(engine: &Docker, name: &str, program: &str) -> Value {
    let image = format!("toolbus/{name}:{}", tag());
    let container = output(engine.command("docker").args(["create", &image])).unwrap();
    let container = container.trim();
    let folder = tempfile::tempdir().unwrap();
    let from = format!("{container}:/usr/share/sbom/.");
    let copied = output(engine.command("docker").arg("cp").arg(from).arg(folder.path()));
    output(engine.command("docker").args(["rm", container])).unwrap();
    copied.unwrap();
    let files: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    let file = format!("{program}.cdx.json");
    assert_eq!(files, [file.as_str()], "the bills of {name}");
    serde_json::from_slice(&fs::read(folder.path().join(file)).unwrap()).unwrap()
}
