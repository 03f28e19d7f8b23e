//! The chart's text: what it makes of values, and what it says of wrong ones. No cluster is asked.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod memory;
mod notes;

use std::path::Path;
use std::process::Command;

use toolbus_testkit::tools::{self, Helm, output};

/// The oldest version that the chart says it takes.
const KUBERNETES: &str = "1.30.0";

fn command(helm: &Helm, verb: &[&str], values: &[&str]) -> Command {
    let mut command = helm.command();
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../helm/toolbus");
    command.args(verb).arg(chart).args(["--kube-version", KUBERNETES]);
    for value in values {
        command.args(["--set", value]);
    }
    command
}

fn render(helm: &Helm, values: &[&str]) -> anyhow::Result<String> {
    let verb = ["template", "fleet", "--namespace", "agents"];
    output(&mut command(helm, &verb, values))
}

/// An external broker, and nothing else said.
const SMALLEST: &[&str] = &["broker.host=rabbit.example", "broker.existingSecret=rabbit"];

/// The agent's key in the format of OpenSSL.
const SIGNING_KEY: &str = "grants.signingKey=-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n\
    -----END PRIVATE KEY-----\n";

/// Every part that can be had together.
const EVERYTHING: &[&str] = &[
    "image.registry=registry.example:5000",
    "image.pullSecrets={pull}",
    "agent.name=Rocky",
    "broker.hosts={rabbit-0.example,rabbit-1.example,rabbit-2.example}",
    "broker.port=5671",
    "broker.tls=true",
    "broker.virtualHost=a/b",
    "broker.password=secret",
    "broker.policies.enabled=true",
    "broker.policies.managementUrl=https://rabbit.example:15671",
    "grants.enabled=true",
    "grants.key=the-key-of-this-release-of-32-bytes",
    "grants.previousKey=the-key-before-it-of-32-bytes-too",
    SIGNING_KEY,
    "grants.publicKeys={ed25519-public:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA= of Blue}",
    "agentHost.replicas=2",
    "agentHost.mcp.enabled=true",
    "agentHost.mcp.allowedHosts={tools.example.com}",
    "agentHost.http.enabled=true",
    "agentHost.http.allowedHosts={agent.example.com}",
    "agentHost.clients.existingSecret=clients",
    "agentHost.settings.models.endpoints.claude.provider=anthropic",
    "agentHost.settings.models.endpoints.claude.model=claude-opus-5",
    "agentHost.settings.models.endpoints.claude.api_key=${ANTHROPIC_API_KEY}",
    "agentHost.envFrom[0].secretRef.name=models",
    "networkPolicy.agentHostFrom[0].podSelector.matchLabels.app=chat",
    "mcpBridge.image=mcp-bridge-tools",
    "mcpBridge.servers.time.command=uvx",
    "mcpBridge.servers.time.args={mcp-server-time}",
    "mcpBridge.registration.mode=allow-list",
    "mcpBridge.registration.hosts={mcp.example.org,*.partner.example}",
    "mcpBridge.replicas=2",
    "mcpBridge.persistence.enabled=true",
    "mcpBridge.persistence.accessMode=ReadWriteMany",
    "mcpBridge.vault.existingSecret=vault",
    "scriptsManager.autoscaling.enabled=true",
    "scriptsManager.autoscaling.authenticationRef=rabbit",
    "scripts.namespace.name=rocky-scripts",
    "scripts.namespace.keep=true",
    "scripts.namespace.allowUnguarded=true",
    "scripts.podAnnotations.example\\.com/logs=none",
    "scripts.runtimeClass=gvisor",
    "scripts.memoryLimit=2Gi",
    "scripts.timeoutMax=15m",
    "scripts.userNamespaces=true",
    "scripts.nodeSelector.pool=scripts",
    "scripts.tolerations[0].key=scripts",
    "scripts.tolerations[0].operator=Exists",
    "scripts.priorityClassName=low",
    "scripts.imagePullSecrets[0].name=registry",
    "scripts.unscheduledTimeout=45s",
    "scripts.warm.size=2",
    "scripts.warm.maxAge=20m",
    "scripts.packages.enabled=true",
    "scripts.packages.index=https://reader:secret@index.example/simple",
    "scripts.packages.to[0].ipBlock.cidr=10.1.2.0/24",
    "scripts.packages.image=registry.example:5000/python-pip:1",
    "scripts.packages.cacheBytes=6GiB",
    "scripts.packages.agentBytes=2GiB",
    "mcpBridge.agents={Blue}",
    "scriptsManager.perAgent.maxConcurrent=2",
    "scriptsManager.perAgent.maxWaiting=0",
    "openrouterMcp.enabled=true",
    "openrouterMcp.apiKey=sk-or-1",
    "telemetry.endpoint=http://collector.observe:4318",
];

/// A broker of its own, to try it out.
const TRIAL: &[&str] = &["rabbitmq.enabled=true", "broker.password=secret"];

/// What the bridge and the agent have with volumes of their own.
const KEPT: &[&str] = &[
    "mcpBridge.persistence.enabled=true",
    "mcpBridge.persistence.size=2Gi",
    "agentHost.persistence.enabled=true",
];

#[test]
fn manifests_are_as_they_were_read() {
    let Some(helm) = tools::helm() else { return };
    insta::assert_snapshot!("smallest", render(&helm, SMALLEST).unwrap());
    insta::assert_snapshot!("everything", render(&helm, EVERYTHING).unwrap());
    insta::assert_snapshot!("trial", render(&helm, &[TRIAL, KEPT].concat()).unwrap());
}

#[test]
fn the_chart_passes_helms_own_checks() {
    let Some(helm) = tools::helm() else { return };
    for values in [SMALLEST, EVERYTHING, &[TRIAL, KEPT].concat()[..]] {
        output(&mut command(&helm, &["lint", "--strict"], values)).unwrap();
    }
}

/// A wrong value is refused before anything reaches the cluster, and the text names it.
#[test]
fn wrong_values_are_named() {
    let Some(helm) = tools::helm() else { return };
    let check = |value: &str, named: &str| {
        let values = [TRIAL, &[value]].concat();
        let error = render(&helm, &values).unwrap_err().to_string();
        assert!(error.contains(named), "{value} is told as {error}");
    };

    check("agentHost.replicas=many", "'/agentHost/replicas'");
    check("agentHost.replica=2", "additional properties 'replica' not allowed");
    check("broker.port=70000", "'/broker/port'");
    check("mcpBridge.registration.mode=on", "'/mcpBridge/registration/mode'");
    check("mcpBridge.registration.hosts={http://a}", "'/mcpBridge/registration/hosts/0'");
    check("broker.hosts={a b}", "'/broker/hosts/0'");
    check("broker.tls=maybe", "'/broker/tls'");
    check("grants.key=short", "'/grants/key'");
    check("grants.required=often", "'/grants/required'");
    check("grants.sharedKey=often", "'/grants/sharedKey'");
    check("grants.publicKeys=ed25519-public:AAEC", "'/grants/publicKeys'");
    check("image.pullPolicy=Sometimes", "'/image/pullPolicy'");
    check("image.tag=a b", "'/image/tag'");
    check("agent.name=mcp", "'/agent/name'");
    check("agent.name=a.b", "'/agent/name'");
    check("mcpBridge.image=bridge", "'/mcpBridge/image'");
    check("mcpBridge.servers.time=uvx", "'/mcpBridge/servers/time'");
    check("mcpBridge.env[0].value=x", "'/mcpBridge/env/0'");
    check("scriptsManager.maxConcurrent=0", "'/scriptsManager/maxConcurrent'");
    check("scripts.memoryLimit=much", "'/scripts/memoryLimit'");
    check("scripts.namespace.name=Scripts", "'/scripts/namespace/name'");
    check("scripts.warm.size=65", "'/scripts/warm/size'");
    check("scripts.packages.index=index", "'/scripts/packages/index'");
    check("scripts.packages.accessMode=Many", "'/scripts/packages/accessMode'");
    check("mcpBridge.agents={mcp}", "'/mcpBridge/agents/0'");
    check("scriptsManager.perAgent.maxConcurrent=0", "'/scriptsManager/perAgent/maxConcurrent'");
    check("scripts.quota.pods=few", "'/scripts/quota/pods'");
    check("telemetry.endpoint=collector:4318", "'/telemetry/endpoint'");
    check("networkPolicy.kubernetesApiPorts={https}", "'/networkPolicy/kubernetesApiPorts/0'");
    check("agentHost.clients.tokens.alice=short", "'/agentHost/clients/tokens/alice'");
    check("agentHost.clients.tokens.a-b=a-token-of-the-tests", "invalid propertyName 'a-b'");
    check("agentHost.clients.anonymous=maybe", "'/agentHost/clients/anonymous'");
    check("unknown=1", "additional properties 'unknown' not allowed");
}

/// What a schema cannot say: values that need each other.
#[test]
fn values_that_do_not_go_together_are_named() {
    let Some(helm) = tools::helm() else { return };
    let check = |values: &[&str], named: &str| {
        let error = render(&helm, values).unwrap_err().to_string();
        assert!(error.contains(named), "{values:?} is told as {error}");
    };

    check(&[], "broker.host must be set");
    check(&["broker.host=rabbit"], "broker.existingSecret or broker.password must be set");
    check(&["broker.host=a", "broker.hosts={b,c}"], "broker.host and broker.hosts are both set");
    check(&["rabbitmq.enabled=true", "broker.tls=true"], "leave broker.host, hosts, port, tls");
    check(&[TRIAL, &["openrouterMcp.enabled=true"]].concat(), "openrouterMcp.apiKey");
    check(
        &[TRIAL, &["scriptsManager.autoscaling.enabled=true"]].concat(),
        "autoscaling.authenticationRef of scripts-manager",
    );
    let packages = ["scripts.packages.enabled=true", "scripts.packages.to[0].podSelector.a=b"];
    check(&[TRIAL, &packages[..1]].concat(), "scripts.packages.to");
    check(&[TRIAL, &packages[..]].concat(), "scripts.packages.index");

    let several = [TRIAL, KEPT, &["mcpBridge.replicas=2"]].concat();
    check(&several, "mcpBridge.persistence.accessMode ReadWriteOnce is for one replica");

    let several = [TRIAL, KEPT, &["agentHost.replicas=2"]].concat();
    check(&several, "agentHost.persistence is the volume of one replica");

    let token = "agentHost.clients.tokens.a=a-token-of-the-tests";
    let secret = "agentHost.clients.existingSecret=b";
    let clients =
        |values: &[&'static str]| [TRIAL, &["agentHost.mcp.enabled=true"], values].concat();
    check(&clients(&[token, secret]), "existingSecret and agentHost.clients.tokens are both set");
    for given in [token, secret] {
        let both = clients(&[given, "agentHost.clients.anonymous=true"]);
        check(&both, "agentHost.clients.anonymous says that clients need no token");
    }
    let router = ["openrouterMcp.enabled=true", "openrouterMcp.apiKey=k"];
    let open = [TRIAL, &router, &["networkPolicy.enabled=false"]].concat();
    check(&open, "openrouterMcp.anonymous=true");

    check(&[TRIAL, &["scripts.namespace.name=agents"]].concat(), "scripts.namespace.name");
    let proofs = ["grants.enabled=true", "grants.existingSecret=proofs", "grants.sharedKey=false"];
    check(&[SMALLEST, &proofs].concat(), "grants.existingSecret has no key that counts");

    // A rejected value may be a key, so the error does not quote it.
    for (wrong, named) in [
        ("grants.signingKey=ed25519-private:AAEC", "grants.signingKey is no Ed25519 key in PEM"),
        ("grants.publicKeys={ed25519-private:AAEC}", "grants.publicKeys[0] is no public key"),
    ] {
        let error = render(&helm, &[SMALLEST, &["grants.enabled=true", wrong]].concat());
        let error = error.unwrap_err().to_string();
        let (_, error) = error.rsplit_once("Error: ").unwrap();
        assert!(error.contains(named) && !error.contains("AAEC"), "{error}");
    }
    check(
        &[SMALLEST, &["broker.policies.enabled=true"]].concat(),
        "broker.policies.managementUrl must be set",
    );
}

/// What the guide sets is there to be set, and enough.
#[test]
fn the_guides_commands_are_taken() {
    let Some(helm) = tools::helm() else { return };
    let page = include_str!("../../../../docs/install.md");
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands: Vec<_> = blocks.filter_map(|block| block.split("helm install ").nth(1)).collect();
    assert_eq!(commands.len(), 3, "{commands:?}");
    for command in commands {
        let words: Vec<_> = command.split_whitespace().collect();
        let values = words.windows(2).filter(|pair| pair[0] == "--set").map(|pair| pair[1]);
        render(&helm, &values.collect::<Vec<_>>()).unwrap();
    }
}

/// A secret of the operator's is named and not copied, and none is made beside it.
#[test]
fn secrets_are_referred_to() {
    let Some(helm) = tools::helm() else { return };
    let key = ["openrouterMcp.enabled=true", "openrouterMcp.existingSecret=router"];
    let grants =
        ["grants.enabled=true", "grants.existingSecret=proofs", "grants.previousKeyKey=old"];
    let rendered = render(&helm, &[SMALLEST, &key, &grants].concat()).unwrap();
    assert!(!rendered.contains("kind: Secret"), "{rendered}");
    // The workers have the key before the current one, the agent does not.
    assert_eq!(rendered.matches("{key: old, path: previous-key}").count(), 2);
    for name in ["secretName: rabbit", "secretName\":\"router", "secretName: proofs"] {
        assert!(rendered.contains(name), "no {name}");
    }
    let rendered = render(&helm, EVERYTHING).unwrap();
    assert_eq!(rendered.matches("kind: Secret").count(), 4);
    for secret in ["sk-or-1", "reader:secret", "the-key-of-this", "the-key-before", "MC4CAQAw"] {
        assert!(!rendered.contains(secret), "{secret} is in more than its secret");
    }
}

/// The pods of workers have no key that can sign, unless the shared key is requested or already
/// existed.
#[test]
fn the_agent_alone_has_the_signing_key() {
    let Some(helm) = tools::helm() else { return };
    let check = |values: &[&str], agent: &[&str], worker: &[&str]| {
        let values = [SMALLEST, &["grants.enabled=true"], values].concat();
        let rendered = render(&helm, &values).unwrap();
        let expected = |service: &str| match service {
            "mcp-bridge" | "scripts-manager" => worker,
            _ => agent,
        };
        let mut count = 0;
        let has_grants = |text: &&str| text.contains("/etc/toolbus/grants");
        for manifest in rendered.split("\n---\n").filter(has_grants) {
            let (_, service) = manifest.split_once("- name: ").unwrap();
            let service = service.split('\n').next().unwrap();
            for path in ["key", "signing-key", "public-keys"] {
                let is_named = manifest.contains(&format!("value: /etc/toolbus/grants/{path}}}"));
                let is_mounted = manifest.contains(&format!(", path: {path}}}"));
                let is_expected = expected(service).contains(&path);
                assert_eq!((is_named, is_mounted), (is_expected, is_expected), "{service}: {path}");
            }
            count += 1;
        }
        assert_eq!(count, 5, "the agent, two workers and two tests: {rendered}");
    };

    check(&[], &["signing-key"], &["public-keys"]);
    check(&["grants.sharedKey=true"], &["key", "signing-key"], &["key", "public-keys"]);
    let shared = "grants.key=the-key-of-this-release-of-32-bytes";
    check(&[shared], &["key", "signing-key"], &["key", "public-keys"]);
    check(&[shared, "grants.sharedKey=false"], &["signing-key"], &["public-keys"]);

    let secret = "grants.existingSecret=proofs";
    let halves = ["grants.signingKeyKey=private", "grants.publicKeysKey=public"];
    check(&[secret], &["key"], &["key"]);
    check(&[secret, halves[1]], &["key"], &["key", "public-keys"]);
    check(&[&[secret][..], &halves].concat(), &["key", "signing-key"], &["key", "public-keys"]);
    let ended = ["grants.sharedKey=false", secret, halves[0], halves[1]];
    check(&ended, &["signing-key"], &["public-keys"]);
}

/// Settings become a ConfigMap, so what is secret there is named and not written out.
#[test]
fn settings_hold_no_secrets() {
    let Some(helm) = tools::helm() else { return };
    let settings = |setting: &str| {
        let value = format!("agentHost.settings.{setting}");
        render(&helm, &[SMALLEST, &["agentHost.http.enabled=true", &value]].concat())
    };
    let tokens = "agentHost.settings.http.tokens.alice holds a secret";
    for (setting, told) in [
        ("http.tokens.alice=a-token-of-the-tests", tokens),
        ("http.tokens.alice=1234567890123456", tokens),
        ("http.tokens.alice=${A}-token-of-the-tests", tokens),
        ("models.endpoints.m.api_key=sk-1", "models.endpoints.m.api_key holds a secret"),
        ("a2a.agents[0].api_key=sk-1", "a2a.agents[0].api_key holds a secret"),
        ("grants.key=0123456789abcdef0123456789abcdef", "grants.key holds a secret"),
        ("store=postgres://toolbus:hunter2@db/state", "store holds a password"),
    ] {
        let error = settings(setting).unwrap_err().to_string();
        // What stands before is the command, with its values.
        let (_, error) = error.rsplit_once("Error: ").unwrap();
        assert!(error.contains(told), "{setting} is told as {error}");
        assert!(!error.contains("token-of-the-tests") && !error.contains("hunter2"), "{error}");
    }

    for reference in [
        "http.tokens.alice=${TOKEN_OF_ALICE}",
        "http.tokens.alice=${vault:alice}",
        "models.endpoints.m.api_key=${KEY}",
        "store=postgres://toolbus@db/state",
    ] {
        assert!(settings(reference).unwrap().contains("kind: ConfigMap"), "{reference}");
    }
}

/// Clients of the agent's ports have tokens out of a secret, unless somebody says that they need
/// none.
#[test]
fn clients_of_the_agent_have_tokens() {
    let Some(helm) = tools::helm() else { return };
    let open = |values: &[&str]| {
        let ports = ["agentHost.mcp.enabled=true", "agentHost.http.enabled=true"];
        render(&helm, &[SMALLEST, &ports, values].concat()).unwrap()
    };
    let prefix = "prefix: TOOLBUS_HTTP__TOKENS__";
    let anonymous = ["TOOLBUS_MCP_FACE__ANONYMOUS", "TOOLBUS_HTTP__ANONYMOUS"];
    let check = |values: &[&str], secret: &str, is_made: bool| {
        let rendered = open(values);
        assert!(rendered.contains(prefix), "{values:?}: {rendered}");
        assert!(rendered.contains(&format!("name: {secret}\n")), "{values:?}: {rendered}");
        assert_eq!(rendered.contains("kind: Secret"), is_made, "{values:?}: {rendered}");
        assert!(!anonymous.iter().any(|name| rendered.contains(name)), "{values:?}: {rendered}");
        rendered
    };
    assert!(check(&[], "fleet-toolbus-clients", true).contains("\n  \"client\": "));
    let given = ["agentHost.clients.tokens.alice=a-token-of-the-tests"];
    let rendered = check(&given, "fleet-toolbus-clients", true);
    assert!(rendered.contains("\"alice\": ") && !rendered.contains("\"client\": "), "{rendered}");
    check(&["agentHost.clients.existingSecret=clients"], "clients", false);

    let waived = open(&["agentHost.clients.anonymous=true"]);
    assert!(!waived.contains(prefix) && !waived.contains("kind: Secret"), "{waived}");
    assert!(anonymous.iter().all(|name| waived.contains(name)), "{waived}");
    // Tokens that are elsewhere are enough.
    let named = open(&["agentHost.settings.http.tokens.alice=${TOKEN_OF_ALICE}"]);
    assert!(!named.contains(prefix) && !named.contains("kind: Secret"), "{named}");
    // Without a port there are no clients.
    assert!(!render(&helm, SMALLEST).unwrap().contains(prefix));
}

/// The manager starts with these rights only, and may have no others.
#[test]
fn the_managers_rights_are_those_that_it_needs() {
    let Some(helm) = tools::helm() else { return };
    let rules = |text: &str| -> Vec<String> {
        let lines =
            text.lines().map(|line| line.trim().trim_start_matches("- ").trim_end_matches(','));
        lines.filter(|line| line.starts_with("{\"apiGroups\"")).map(str::to_owned).collect()
    };
    let needed = rules(include_str!("../../../toolbus-pods/src/role.json"));
    assert!(!needed.is_empty(), "the role has no rules, or each on more than a line");
    assert_eq!(rules(&render(&helm, SMALLEST).unwrap()), needed);
}
