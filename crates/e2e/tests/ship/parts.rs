//! Every object that the chart makes, held against the API of a real cluster, member by member.
//! What KEDA adds to an API is there for as long as that lasts: its definitions, without KEDA.

use serde_json::{Value, json};
use toolbus_testkit::tools::{self, Cluster, output};

use crate::release::{Release, parts};
use crate::support::{repository, until};

/// What KEDA adds to the cluster's API. Goes when this is dropped, if it was not there before.
struct Keda {
    cluster: Cluster,
    made: Vec<String>,
}

impl Keda {
    /// `None` where it has not been fetched and may be missing.
    fn define(cluster: Cluster) -> Option<Self> {
        let folder = tools::keda()?;
        let mut keda = Self { cluster, made: Vec::new() };
        for name in ["scaledobjects", "triggerauthentications"] {
            let file = folder.join(format!("keda.sh_{name}.yaml"));
            let made = output(keda.cluster.kubectl().args(["create", "--filename"]).arg(file));
            let name = format!("{name}.keda.sh");
            match made {
                Ok(_) => keda.made.push(format!("customresourcedefinition/{name}")),
                // Somebody has KEDA here.
                Err(error) => assert!(error.to_string().contains("AlreadyExists"), "{error}"),
            }
            // What was defined is known a moment later.
            until(|| output(keda.cluster.kubectl().args(["get", &name])));
        }
        Some(keda)
    }
}

impl Drop for Keda {
    fn drop(&mut self) {
        for definition in &self.made {
            // A cluster that is away cannot be tidied.
            let _ = output(self.cluster.kubectl().args(["delete", definition]));
        }
    }
}

/// Every part that can be had, with a broker of its own.
fn everything(release: &Release) -> Value {
    let mut values = release.values();
    values["rabbitmq"]["persistence"] =
        json!({"enabled": true, "keep": false, "storageClass": "fast"});
    values["scriptsManager"]["autoscaling"] =
        json!({"enabled": true, "authenticationRef": "broker"});
    values["mcpBridge"]["replicas"] = json!(2);
    values["mcpBridge"]["persistence"] = json!({"enabled": true, "accessMode": "ReadWriteMany"});
    values["agentHost"]["mcp"] = json!({"enabled": true, "allowedHosts": ["tools.example.com"]});
    values["scripts"]["namespace"]["create"] = json!(false);
    values["scripts"]["runtimeClass"] = json!("gvisor");
    values["scripts"]["packages"] = json!({
        "enabled": true,
        "index": "https://index.example/simple",
        "to": [{"ipBlock": {"cidr": "10.1.2.0/24"}}],
        "storageClass": "shared",
    });
    values["networkPolicy"] = json!({"agentHostFrom": [{"podSelector": {}}]});
    values["telemetry"] = json!({"endpoint": "http://collector.observe:4318"});
    values
}

/// What the cluster says of objects that it does not keep.
fn tried(release: &Release, objects: &str) -> anyhow::Result<String> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), objects)?;
    let try_it = ["apply", "--dry-run=server", "--validate=strict", "--filename"];
    let file = file.path().display().to_string();
    release.kubectl(&[&try_it[..], &[&file]].concat())
}

#[test]
fn every_part_is_what_the_cluster_takes() {
    let Some(parts) = parts() else { return };
    let release = Release::new(parts, "parts");
    let Some(_keda) = Keda::define(release.cluster.clone()) else { return };
    release.kubectl(&["create", "namespace", &release.scripts()]).unwrap();
    let own = everything(&release);
    let mut external = own.clone();
    external["rabbitmq"]["enabled"] = json!(false);
    external["broker"] = json!({
        "host": "rabbit.example",
        "password": "secret",
        "policies": {"enabled": true, "managementUrl": "https://rabbit.example:15671"},
    });

    let chart = repository("helm/toolbus").display().to_string();
    for values in [own, external] {
        let template = ["template", "parts", &chart, "--kube-version", "1.30"];
        let rendered = release.helm(&template, Some(&values)).unwrap();
        let taken = tried(&release, &rendered).unwrap();
        assert!(taken.lines().count() > 20, "{taken}");
        assert_eq!(taken.matches("scaledobject.keda.sh/").count(), 1, "{taken}");
        let wrong = rendered.replace("maxReplicaCount:", "maxReplicas:");
        let error = tried(&release, &wrong).unwrap_err().to_string();
        assert!(error.contains("unknown field \"spec.maxReplicas\""), "{error}");
    }

    let page = std::fs::read_to_string(repository("docs/operations.md")).unwrap();
    let authentication = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    let taken = tried(&release, authentication.unwrap()).unwrap();
    assert!(taken.starts_with("triggerauthentication.keda.sh/"), "{taken}");
}
