//! The laws of dependency: who may depend on whom. They are what keeps a credential, a protocol or
//! a runtime out of a process that must not hold it.

use anyhow::Context as _;
use serde_json::Value;

use super::Mistake;
use crate::workspace;

/// Each crate's place, lowest first: it may depend on crates of its own layer and of those before.
/// A crate that is not there has no place.
const LAYERS: &[&[&str]] = &[
    // foundation
    &[
        "toolbus-json",
        "toolbus-wire",
        "toolbus-telemetry",
        "toolbus-config",
        "toolbus-query",
        "toolbus-fetch",
    ],
    // transport
    &["toolbus-bus", "toolbus-rabbitmq"],
    // tools
    &["toolbus-tools"],
    // state
    &[
        "toolbus-policy",
        "toolbus-store",
        "toolbus-approvals",
        "toolbus-artifacts",
        "toolbus-audit",
        "toolbus-schedule",
        "toolbus-search",
        "toolbus-discovery",
        "toolbus-subagents",
        "toolbus-memory",
        "toolbus-vault",
    ],
    // providers
    &[
        "toolbus-mcp-agent",
        "toolbus-mcp",
        "toolbus-a2a",
        "toolbus-pods",
        "toolbus-sandbox",
        "toolbus-scripts",
        "toolbus-chain",
        "toolbus-toolkits",
        "toolbus-wisps",
    ],
    // models: what their APIs are told, without a way to run a tool
    &["toolbus-models", "toolbus-embeddings"],
    // the agent: turns of a model that calls tools
    &["toolbus-agent"],
    // doors
    &["toolbus-face", "toolbus-http"],
    // the facade: what a program embeds, which has a frame of its own
    &["toolbus"],
    // the frame of a process: libraries work without one
    &["toolbus-runtime"],
    SERVICES,
];

/// The processes. None depends on another, not even for tests: they meet on the bus.
const SERVICES: &[&str] = &["agent-host", "mcp-bridge", "scripts-manager", "openrouter-mcp"];

/// For tests, benchmarks and tasks only. They may depend on anything that is not reserved.
pub(super) const DEVELOPMENT: &[&str] =
    &["toolbus-testkit", "chaos", "conformance", "e2e", "fuzz", "xtask"];

/// Crates that only some of ours may use.
const RESERVED: [(&str, &[&str]); 16] = [
    ("lapin", &["toolbus-rabbitmq", "e2e"]),
    ("rmcp", &["toolbus-mcp", "toolbus-face", "openrouter-mcp", "chaos", "conformance", "e2e"]),
    // Its users have it from there.
    ("sqlx", &["toolbus-store"]),
    ("kube", &["toolbus-pods"]),
    ("kube-client", &["toolbus-pods"]),
    ("kube-runtime", &["toolbus-pods"]),
    ("k8s-openapi", &["toolbus-pods"]),
    // A program chooses its allocator, not a library.
    (
        "tikv-jemallocator",
        &[
            "agent-host",
            "mcp-bridge",
            "scripts-manager",
            "openrouter-mcp",
            "toolbus-pods",
            "toolbus-query",
            "e2e",
        ],
    ),
    // What parses strangers' filters, patterns and rows does so in a worker that is limited.
    ("jaq-core", &["toolbus-query"]),
    ("grep-searcher", &["toolbus-query"]),
    ("rusqlite", &["toolbus-query"]),
    ("parquet", &["toolbus-query"]),
    // They take minutes to compile, and are features of the one crate that has them.
    ("candle-core", &["toolbus-embeddings"]),
    ("candle-nn", &["toolbus-embeddings"]),
    ("candle-transformers", &["toolbus-embeddings"]),
    ("tokenizers", &["toolbus-embeddings"]),
];

/// A crate that must not have another anywhere below it, as it is by default.
const FORBIDDEN_BELOW: [(&str, &str); 15] = [
    ("toolbus-wire", "tokio"),
    // It knows bytes and questions, whoever keeps them.
    ("toolbus-query", "sqlx"),
    ("toolbus-query", "toolbus-wire"),
    // They face models and MCP clients, and hold neither credentials nor programs.
    ("toolbus-mcp-agent", "rmcp"),
    ("toolbus-mcp-agent", "reqwest"),
    ("toolbus-face", "reqwest"),
    ("toolbus-face", "toolbus-mcp"),
    ("toolbus-face", "toolbus-runtime"),
    ("toolbus-http", "reqwest"),
    ("toolbus-http", "toolbus-runtime"),
    // Its types are for engines without I/O.
    ("toolbus-models", "reqwest"),
    // It holds a credential, and whoever is on the bus has no business with it.
    ("openrouter-mcp", "toolbus-wire"),
    ("openrouter-mcp", "lapin"),
    // An agent alone, on any platform.
    ("toolbus", "rmcp"),
    ("toolbus", "reqwest"),
];

/// The same, with every feature: what an embedding program has, or wants, of its own.
const FORBIDDEN_BELOW_ALL_FEATURES: [(&str, &str); 4] = [
    ("toolbus", "axum"),
    ("toolbus", "clap"),
    ("toolbus", "opentelemetry-otlp"),
    ("toolbus", "tikv-jemallocator"),
];

/// The same, without any feature: the heavy parts that the first build leaves out, see
/// docs/adr/0091-heavy-parts-are-cargo-features.md.
const FORBIDDEN_BELOW_NO_FEATURES: [(&str, &str); 5] = [
    ("agent-host", "candle-core"),
    ("agent-host", "parquet"),
    ("agent-host", "sqlx-postgres"),
    ("agent-host", "tikv-jemallocator"),
    ("agent-host", "tokenizers"),
];

/// One of our packages, as far as the laws go.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) name: String,
    /// The manifest's path within the workspace.
    pub(super) manifest: String,
    /// The manifest's text.
    pub(super) text: String,
    pub(super) dependencies: Vec<Dependency>,
}

#[derive(Debug)]
pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) only_for_tests: bool,
}

/// Reads the workspace's manifests and checks them.
pub(super) fn check_workspace() -> anyhow::Result<Vec<Mistake>> {
    let packages = read_packages()?;
    let mut mistakes: Vec<_> = packages.iter().flat_map(check_package).collect();
    mistakes.extend(check_places(&packages));

    let by_default = FORBIDDEN_BELOW.map(|law| (law, None));
    let with_features = FORBIDDEN_BELOW_ALL_FEATURES.map(|law| (law, Some("--all-features")));
    let without_features =
        FORBIDDEN_BELOW_NO_FEATURES.map(|law| (law, Some("--no-default-features")));
    let all = by_default.into_iter().chain(with_features).chain(without_features);
    for ((name, forbidden), features) in all {
        let Some(package) = packages.iter().find(|package| package.name == name) else { continue };
        let arguments = ["tree", "--locked", "--edges", "normal,build", "--prefix", "none"];
        let mut tree = workspace::cargo_command(&arguments);
        let tree = workspace::read_output(tree.args(["--package", name]).args(features))?;
        if tree.lines().any(|line| line.split(' ').next() == Some(forbidden)) {
            mistakes.push(package.mistake(
                "",
                format!("{name} must not have {forbidden} below it, and has"),
                "find the way to it with `cargo tree --invert` and take that dependency out",
            ));
        }
    }

    Ok(mistakes)
}

/// That every crate with a place is there.
pub(super) fn check_places(packages: &[Package]) -> Vec<Mistake> {
    let places = LAYERS.iter().copied().flatten().chain(DEVELOPMENT);
    let is_there = |name: &str| packages.iter().any(|package| package.name == name);

    let absent = places.filter(|name| !is_there(name)).map(|name| Mistake {
        path: "xtask/src/tidy/laws.rs".to_owned(),
        line: 1,
        what: format!("{name} has a place among the layers and is not there"),
        mend: "take it out until there is such a crate",
    });
    absent.collect()
}

/// What can be said of one package by its own manifest.
pub(super) fn check_package(package: &Package) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let Package { name, manifest, text, dependencies } = package;
    let folder = if name == "xtask" { "xtask".to_owned() } else { format!("crates/{name}") };

    if *manifest != format!("{folder}/Cargo.toml") {
        mistakes.push(package.mistake(
            "name",
            format!("the package {name} is not in the folder {folder}"),
            "give folder and package the same name",
        ));
    }

    if !text.contains("[lints]\nworkspace = true") {
        mistakes.push(package.mistake(
            "",
            format!("{name} does not have the workspace's lints"),
            "add `[lints]` with `workspace = true`",
        ));
    }

    let layer = layer_of(name);
    if layer.is_none() && !DEVELOPMENT.contains(&name.as_str()) {
        mistakes.push(package.mistake(
            "name",
            format!("{name} has no place among the layers"),
            "give it one in xtask/src/tidy/laws.rs",
        ));
    }

    for dependency in dependencies {
        mistakes.extend(check_dependency(package, layer, dependency));
    }
    mistakes
}

fn check_dependency(
    package: &Package,
    layer: Option<usize>,
    dependency: &Dependency,
) -> Option<Mistake> {
    let user = package.name.as_str();
    let used = dependency.name.as_str();
    let mistake = |what: String, mend| Some(package.mistake(used, what, mend));
    if let Some((_, allowed)) = RESERVED.iter().find(|(reserved, _)| *reserved == used)
        && !allowed.contains(&user)
    {
        return mistake(
            format!("{used} may only be used by {}", allowed.join(", ")),
            "use what those crates offer instead",
        );
    }

    if DEVELOPMENT.contains(&user) {
        return None;
    }

    if DEVELOPMENT.contains(&used) && !dependency.only_for_tests {
        return mistake(
            format!("{used} is for tests and may only be a dev-dependency"),
            "move it under [dev-dependencies]",
        );
    }

    if SERVICES.contains(&user) && SERVICES.contains(&used) {
        return mistake(
            format!("{user} is a service and depends on the service {used}"),
            "move what both need into a crate below them, or test both in crates/e2e",
        );
    }

    if !dependency.only_for_tests && layer_of(used) > layer {
        return mistake(
            format!("{user} depends on {used}, which is in a layer above it"),
            "turn the dependency round, with a port in the lower crate",
        );
    }

    None
}

fn layer_of(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

impl Package {
    /// Placed at the line of the manifest that begins with `key`, else at the first.
    fn mistake(&self, key: &str, what: String, mend: &'static str) -> Mistake {
        let begins = |line: &str| {
            line.trim_start()
                .strip_prefix(key)
                .is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
        };
        let line = self.text.lines().position(begins).unwrap_or(0) + 1;
        Mistake { path: self.manifest.clone(), line, what, mend }
    }
}

fn read_packages() -> anyhow::Result<Vec<Package>> {
    let metadata = workspace::read_metadata()?;
    let root = format!("{}/", workspace::root().display());
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    packages.iter().map(|package| read_package(package, &root)).collect()
}

fn read_package(package: &Value, root: &str) -> anyhow::Result<Package> {
    let name = package["name"].as_str().context("a package without a name")?.to_owned();
    let path = package["manifest_path"].as_str().context("a package without a manifest")?;
    let text = std::fs::read_to_string(path).with_context(|| path.to_owned())?;
    let manifest = path.strip_prefix(root).unwrap_or(path).to_owned();
    let read = |dependency: &Value| Dependency {
        name: dependency["name"].as_str().unwrap_or_default().to_owned(),
        only_for_tests: dependency["kind"] == "dev",
    };
    let dependencies = package["dependencies"].as_array().into_iter().flatten().map(read).collect();
    Ok(Package { name, manifest, text, dependencies })
}
