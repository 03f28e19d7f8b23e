//! A release of the chart on a real cluster. Each has two namespaces of its own, and leaves
//! neither.
//!
//! The release's namespace admits restricted pods only, so that the cluster itself checks what the
//! chart asks for.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use toolbus_testkit::tools::{self, Cluster, Helm, output, tag};

use crate::outside::CREDITS;
use crate::support::{content, marking_server, repository};

/// A release in a namespace of its own. Both go when this is dropped.
pub(crate) struct Release {
    pub(crate) helm: Helm,
    pub(crate) cluster: Cluster,
    /// Its own, and its namespace's.
    pub(crate) name: String,
}

/// The parts, or `None` where no cluster is named. The images come from the engine, so one is
/// needed too.
pub(crate) fn parts() -> Option<(Helm, Cluster)> {
    let cluster = tools::cluster()?;
    tools::docker()?;
    Some((tools::helm()?, cluster))
}

impl Release {
    pub(crate) fn new((helm, cluster): (Helm, Cluster), kind: &str) -> Self {
        let release = Self { helm, cluster, name: format!("ship-{kind}-{}", std::process::id()) };
        release.kubectl(&["create", "namespace", &release.name]).unwrap();
        let label = "pod-security.kubernetes.io/enforce=restricted";
        release.kubectl(&["label", "namespace", &release.name, label]).unwrap();
        release
    }

    pub(crate) fn scripts(&self) -> String {
        format!("{}-scripts", self.name)
    }

    /// What the tests' cluster needs: it has no registry, little room, and no volumes.
    pub(crate) fn values(&self) -> Value {
        let small =
            json!({"requests": {"cpu": "5m", "memory": "16Mi"}, "limits": {"memory": "256Mi"}});
        json!({
            "image": {"tag": tag(), "pullPolicy": "Never"},
            "rabbitmq": {
                "enabled": true,
                "persistence": {"enabled": false},
                "resources": {"requests": {"cpu": "20m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
            },
            "agentHost": {"resources": small},
            "mcpBridge": {
                "image": "mcp-bridge-tools",
                "servers": {"marks": marking_server()},
                "resources": small,
            },
            "scriptsManager": {"resources": small},
            "scripts": {"namespace": {"name": self.scripts()}, "cpuRequest": "10m"},
            "openrouterMcp": {"enabled": true, "apiKey": API_KEY, "resources": small},
        })
    }

    pub(crate) fn helm(&self, verb: &[&str], values: Option<&Value>) -> anyhow::Result<String> {
        let mut command = self.helm.on(&self.cluster);
        command.args(verb).args(["--namespace", &self.name]);
        let file = tempfile::NamedTempFile::new()?;
        if let Some(values) = values {
            std::fs::write(file.path(), values.to_string())?;
            command.arg("--values").arg(file.path());
        }
        output(&mut command)
    }

    pub(crate) fn install(&self, values: &Value, more: &[&str]) -> anyhow::Result<String> {
        self.install_chart(&repository("helm/toolbus"), values, more)
    }

    /// Does the same with the chart in this folder.
    pub(crate) fn install_chart(
        &self,
        chart: &Path,
        values: &Value,
        more: &[&str],
    ) -> anyhow::Result<String> {
        let chart = chart.display().to_string();
        let verb = ["upgrade", "--install", &self.name, &chart];
        self.helm(&[&verb[..], more].concat(), Some(values))
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        output(self.cluster.kubectl().args(arguments))
    }

    /// `kubectl` in the release's namespace.
    pub(crate) fn look(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.kubectl(&[&["--namespace", &self.name], arguments].concat())
    }

    pub(crate) fn deployment(&self, component: &str) -> String {
        // The release's name does not say `toolbus`, so the chart adds it.
        format!("{}-toolbus-{component}", self.name)
    }

    /// `agent-host invoke`, in the pod that serves.
    pub(crate) fn invoke(&self, tool: &str, arguments: &Value) -> anyhow::Result<String> {
        self.invoke_with(tool, arguments, &[])
    }

    /// The same, with more options.
    pub(crate) fn invoke_with(
        &self,
        tool: &str,
        arguments: &Value,
        options: &[&str],
    ) -> anyhow::Result<String> {
        let (host, arguments) = (self.deployment("agent-host"), arguments.to_string());
        let host = format!("deployment/{host}");
        let invoke = ["exec", &host, "--", "agent-host", "invoke", tool, &arguments, "--json"];
        self.look(&[&invoke[..], options].concat())
    }

    /// `agent-host invoke` in a pod of its own, of this name, which an upgrade leaves alone: made as
    /// the agent's is, so that it reaches what that reaches.
    pub(crate) fn begin_call(&self, caller: &str, tool: &str, arguments: &Value) {
        let host = format!("deployment/{}", self.deployment("agent-host"));
        let host = self.look(&["get", &host, "--output=json"]).unwrap();
        let host: Value = serde_json::from_str(&host).unwrap();
        let template = &host["spec"]["template"];
        let mut labels = template["metadata"]["labels"].clone();
        labels["app.kubernetes.io/component"] = json!("caller");
        let mut spec = template["spec"].clone();
        spec["restartPolicy"] = json!("Never");
        let container = spec["containers"][0].as_object_mut().unwrap();
        container.retain(|member, _| !member.ends_with("Probe"));
        container["args"] = json!(["invoke", tool, arguments.to_string(), "--json"]);
        apply(
            self.cluster.kubectl(),
            &json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": caller, "namespace": self.name, "labels": labels},
                "spec": spec,
            }),
        );
    }

    /// The names of a component's pods, those that end included.
    pub(crate) fn pods(&self, component: &str) -> Vec<String> {
        let component = format!("app.kubernetes.io/component={component}");
        let names = "--output=jsonpath={.items[*].metadata.name}";
        let listed = self.look(&["get", "pods", "--selector", &component, names]).unwrap();
        listed.split_whitespace().map(str::to_owned).collect()
    }

    /// Waits until every service is what was asked for last.
    pub(crate) fn wait_for_rollout(&self) {
        for component in ["agent-host", "mcp-bridge", "scripts-manager", "openrouter-mcp"] {
            let deployment = format!("deployment/{}", self.deployment(component));
            self.look(&["rollout", "status", &deployment, "--timeout=5m"]).unwrap();
        }
    }

    /// `rabbitmqctl`, in the pod of the release's broker.
    pub(crate) fn rabbitmqctl(&self, arguments: &str) -> anyhow::Result<String> {
        let pod = format!("{}-0", self.deployment("rabbitmq"));
        // Debian's wrapper of the program wants another user than the one of the usual image.
        let line = format!("PATH=/usr/lib/rabbitmq/bin:$PATH rabbitmqctl --quiet {arguments}");
        self.look(&["exec", &pod, "--container=rabbitmq", "--", "sh", "-c", &line])
    }

    /// The release's claims of volumes, each with how it stands.
    pub(crate) fn claims(&self) -> Vec<String> {
        let label = format!("app.kubernetes.io/instance={}", self.name);
        let row = r#"{range .items[*]}{.metadata.name} {.status.phase}{"\n"}{end}"#;
        let output = format!("--output=jsonpath={row}");
        let get = ["get", "persistentvolumeclaims", "--all-namespaces", "--selector", &label];
        let listed = self.kubectl(&[&get[..], &[&output]].concat()).unwrap();
        listed.lines().map(str::to_owned).collect()
    }

    /// A call of each kind: a script in a pod, a tool of a program, a tool of another service,
    /// which asks OpenRouter, and a tool of the agent's own.
    #[track_caller]
    pub(crate) fn check_calls(&self) {
        let python = json!({"script": "print(6 * 7)"});
        assert_eq!(content(&self.invoke("execute_python_script", &python).unwrap()), "42");
        let mark = json!({"server_name": "marks", "tool_name": "mark"});
        assert_eq!(content(&self.invoke("mcp_invoke_tool", &mark).unwrap()), "mark: done");
        let credits = json!({"server_name": "openrouter", "tool_name": "get_credits"});
        let credits = content(&self.invoke("mcp_invoke_tool", &credits).unwrap());
        assert_eq!(credits, CREDITS.trim_end());
        let guides = content(&self.invoke("list_tool_guides", &json!({})).unwrap());
        assert!(guides.contains("- mcp: ") && guides.contains("- scripts: "), "{guides}");
    }

    /// What is left of the release, anywhere.
    pub(crate) fn left(&self) -> anyhow::Result<String> {
        let kinds = "all,configmaps,secrets,serviceaccounts,roles,rolebindings,networkpolicies,leases,\
            poddisruptionbudgets,persistentvolumeclaims,resourcequotas,limitranges,namespaces,\
            clusterroles,clusterrolebindings";
        let label = format!("app.kubernetes.io/instance={}", self.name);
        self.kubectl(&[
            "get",
            kinds,
            "--all-namespaces",
            "--ignore-not-found",
            "-o",
            "name",
            "-l",
            &label,
        ])
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.look(&["get", "pods"]).unwrap_or_default());
            eprintln!("{}", self.look(&["get", "events"]).unwrap_or_default());
            let instance = format!("--selector=app.kubernetes.io/instance={}", self.name);
            let logs = ["logs", &instance, "--prefix", "--timestamps", "--tail=40"];
            eprintln!("{}", self.look(&logs).unwrap_or_default());
        }
        // What is not there need not go.
        let _ = self.helm(&["uninstall", &self.name], None);
        for namespace in [&self.scripts(), &self.name] {
            let _ = self.kubectl(&[
                "delete",
                "namespace",
                namespace,
                "--ignore-not-found",
                "--wait=false",
            ]);
        }
    }
}

/// What OpenRouter is asked with.
pub(crate) const API_KEY: &str = "sk-or-test";

/// What `helm install` waits for: that every pod is ready.
pub(crate) const WAIT: [&str; 2] = ["--wait", "--timeout=5m"];

/// `kubectl apply` of an object.
pub(crate) fn apply(mut kubectl: Command, object: &Value) {
    let mut child = kubectl.args(["apply", "--filename=-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(object.to_string().as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{object}");
}
