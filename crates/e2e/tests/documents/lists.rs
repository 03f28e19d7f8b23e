//! What of the pages is not run as it stands: each item with its reason. A test fails where an item
//! fits nothing any more.

use crate::blocks::{Block, Command};

/// What stands in pages for the folder that its commands are run in, and for the home.
pub(crate) const WORK: &str = "/home/you/work";
pub(crate) const HOME: &str = "/home/you";

/// A page whose commands are run.
pub(crate) struct Page {
    pub(crate) path: &'static str,
    /// Whether there is a broker, a virtual host of its own.
    pub(crate) has_broker: bool,
    /// What the page takes for granted, as a script that is run first.
    pub(crate) given: &'static str,
    /// Beside [`ENVIRONMENT`], and `SERVER`, the address of what stands for models.
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

impl Page {
    const fn new(path: &'static str) -> Self {
        Self { path, has_broker: false, given: "", environment: &[] }
    }
}

/// What all pages have: nobody is at a terminal to be asked whether the folder is trusted.
pub(crate) const ENVIRONMENT: &[(&str, &str)] = &[("TOOLBUS_TRUST_FOLDER", "1")];

/// A model; the server says what it answers.
const MODEL: &str = r#"
cat >toolbus.toml <<END
[models.endpoints.main]
provider = "openai"
model = "any"
base_url = "$SERVER"
END
"#;

/// Scripts wait for an approval; `pending` makes a call that waits, and sets `ID` to the approval's.
const PENDING: &str = r#"
cat >toolbus.toml <<END
[approvals]
wait_for_operator = true
[[policy.rules]]
name = "scripts"
effect = "ask"
reason = "a script"
tools = ["script/execute_python_script"]
END
pending() {
  agent-host invoke execute_python_script script='print(1)' >/dev/null 2>&1 &
  until [ -n "$ID" ]; do
    ID=$(agent-host approvals list --json | grep -o '"id": "[^"]*' | cut -d'"' -f4 | head -1)
  done
}
"#;

/// Sets `KEPT` to the id of a yes that holds for calls to come.
const REMEMBERED: &str = r#"
KEPT=$(agent-host approvals remembered --json | grep -o '"id": "[^"]*' | cut -d'"' -f4 | head -1)
"#;

/// A large result of a script, which a chain gets by reference; sets `ID` to the artifact's.
const ARTIFACT: &str = r#"
code='return tools.execute_python_script(script="print(list(range(5000)))").ref'
agent-host invoke tool_chain code="$code" >/dev/null 2>&1
ID=$(agent-host artifacts list | grep -o 'art_[0-9a-f]*' | head -1)
"#;

/// A vault, and the value of a credential.
const VAULT: &str = r#"
(umask 077 && openssl rand -hex 32 >"$HOME/vault.key" && openssl rand -hex 32 >new.key)
export TOOLBUS_VAULT__KEY_FILE=$HOME/vault.key
echo a-token >token.txt
"#;

const SCHEDULED: &str = r#"
agent-host invoke schedule_task '{"name": "morning-mail", "cron": "0 7 * * *", "description": "Read the mail."}'
"#;

/// The pages with commands.
pub(crate) const PAGES: &[Page] = &[
    Page {
        has_broker: true,
        environment: &[("ANTHROPIC_API_KEY", "sk-ant-none")],
        ..Page::new("README.md")
    },
    Page { given: MODEL, ..Page::new("docs/agent.md") },
    Page { given: PENDING, ..Page::new("docs/approvals.md") },
    Page::new("docs/artifacts.md"),
    Page {
        given: "printf '[audit]\nenabled = true\n' >toolbus.toml",
        ..Page::new("docs/audit.md")
    },
    Page::new("docs/chains.md"),
    Page {
        given: r#"echo '{"mcpServers": {"github": {"command": "github-mcp-server"}, "time": {"command": "uvx", "args": ["mcp-server-time"]}}}' >mcp.json"#,
        ..Page::new("docs/discovery.md")
    },
    Page::new("docs/install.md"),
    Page { given: VAULT, ..Page::new("docs/mcp-json.md") },
    Page::new("docs/operations.md"),
    Page::new("docs/scripts.md"),
    Page { given: "(umask 077 && openssl rand -hex 32 >new.key)", ..Page::new("docs/security.md") },
    Page { has_broker: true, ..Page::new("docs/trouble.md") },
    Page { has_broker: true, ..Page::new("docs/tutorial.md") },
];

/// What a text of a page is in the test.
pub(crate) struct Substitute {
    /// The pages, or all where there is none.
    pub(crate) pages: &'static [&'static str],
    pub(crate) text: &'static str,
    pub(crate) to: To,
    /// Why it cannot stand.
    pub(crate) reason: &'static str,
}

/// What stands in the place of a text.
pub(crate) enum To {
    Text(&'static str),
    /// A port of this machine, in the place of another one: `:8081`.
    FreePort,
    /// The URL of the page's virtual host.
    Bus,
}

impl Substitute {
    pub(crate) fn is_of(&self, page: &str) -> bool {
        self.pages.is_empty() || self.pages.contains(&page)
    }
}

pub(crate) const SUBSTITUTES: &[Substitute] = &[
    Substitute {
        pages: &["README.md", "docs/trouble.md", "docs/tutorial.md"],
        text: "amqp://user:password@broker:5672",
        to: To::Bus,
        reason: "the broker is a private one",
    },
    Substitute {
        pages: &["README.md", "docs/operations.md"],
        text: ":8081",
        to: To::FreePort,
        reason: PORT,
    },
    Substitute { pages: &["README.md"], text: ":8082", to: To::FreePort, reason: PORT },
    Substitute { pages: &["README.md"], text: ":8085", to: To::FreePort, reason: PORT },
    Substitute {
        pages: &["README.md"],
        text: "OPENROUTER_API_KEY=...",
        to: To::Text("TOOLBUS_OPENROUTER__BASE_URL=$SERVER OPENROUTER_API_KEY=..."),
        reason: "there is no account",
    },
    Substitute { pages: &["docs/agent.md"], text: ":8810", to: To::FreePort, reason: PORT },
    Substitute {
        pages: &["docs/approvals.md"],
        text: "4f1c20ab",
        to: To::Text("$ID"),
        reason: "ids are drawn at random",
    },
    Substitute {
        pages: &["docs/approvals.md"],
        text: "9a0e77c1",
        to: To::Text("$KEPT"),
        reason: "ids are drawn at random",
    },
    Substitute {
        pages: &["docs/agent.md"],
        text: "curl -N",
        to: To::Text("curl --fail --silent --show-error -N"),
        reason: "so that an error of HTTP is one of the command",
    },
    Substitute {
        pages: &["docs/artifacts.md"],
        text: "art_5f0c1e…",
        to: To::Text("$ID"),
        reason: "ids are drawn at random",
    },
    Substitute {
        pages: &["docs/mcp-json.md"],
        text: "--header Authorization",
        to: To::Text("--header Authorization <<<'Bearer a-token'"),
        reason: TYPED,
    },
    Substitute {
        pages: &["docs/mcp-json.md"],
        text: "agent-host mcp add github",
        to: To::Text("<<<a-token agent-host mcp add github"),
        reason: TYPED,
    },
    Substitute {
        pages: &["docs/security.md"],
        text: "agent-host vault set",
        to: To::Text("<<<a-token agent-host vault set"),
        reason: TYPED,
    },
];

const TYPED: &str = "a person types the value at a terminal";
const PORT: &str = "other tests, and other programs of this machine, may listen there";

/// A program that stands for one of its name.
pub(crate) struct Program {
    pub(crate) pages: &'static [&'static str],
    pub(crate) name: &'static str,
    /// `{time}` is a Python with `mcp`, `{pika}` one with `pika`, `{bin}` the folder of the programs
    /// of this workspace.
    pub(crate) text: &'static str,
    pub(crate) reason: &'static str,
}

pub(crate) const PROGRAMS: &[Program] = &[
    Program {
        pages: &["README.md", "docs/discovery.md", "docs/mcp-json.md"],
        name: "uvx",
        text: "#!/bin/sh\n[ \"$1\" = mcp-server-time ] || exit 1\nexec {time} -m mcp_server_time\n",
        reason: "the package was fetched beforehand",
    },
    Program {
        pages: &["docs/discovery.md", "docs/mcp-json.md"],
        name: "github-mcp-server",
        text: "#!{time}
from mcp.server import MCPServer
server = MCPServer('github')
@server.tool()
def deploy(version: str) -> str:
    'Deploys a version.'
    return version
server.run()
",
        reason: "the real one needs an account",
    },
    Program {
        pages: &["docs/tutorial.md"],
        name: "uv",
        text: "#!/bin/sh
case $* in
'run --with mcp '*) program={time} ;;
'run --with pika '*) program={pika} ;;
*) exit 1 ;;
esac
shift 3
exec $program \"$@\"
",
        reason: "the packages were fetched beforehand",
    },
    Program {
        pages: &["docs/tutorial.md"],
        name: "cargo",
        text: "#!/bin/sh
case $* in
'new '*) mkdir -p \"$2/src\" ;;
'add '*) ;;
'run --quiet --bin '*) exec \"{bin}/tutorial-$4\" ;;
*) exit 1 ;;
esac
",
        reason: "the programs are compiled with this workspace: another test compares their text",
    },
];

/// A command that does not end by itself: it is run in the background.
pub(crate) struct Service {
    pub(crate) page: &'static str,
    /// The first line of the command.
    pub(crate) command: &'static str,
    /// What it says once it serves; empty where its port tells.
    pub(crate) says: &'static str,
}

impl Service {
    pub(crate) fn is(&self, page: &str, command: &Command) -> bool {
        self.page == page && first_line(command) == self.command
    }
}

pub(crate) const SERVICES: &[Service] = &[
    Service { page: "docs/agent.md", command: "agent-host serve --http 127.0.0.1:8810", says: "" },
    Service {
        page: "docs/tutorial.md",
        command: "cargo run --quiet --bin worker &",
        says: "serving add",
    },
    Service {
        page: "docs/tutorial.md",
        command: "uv run --with pika worker.py &",
        says: "serving add",
    },
];

/// What has to be before a command can do what its page says, as a script.
pub(crate) struct Before {
    pub(crate) page: &'static str,
    pub(crate) command: &'static str,
    pub(crate) script: &'static str,
}

pub(crate) const BEFORE: &[Before] = &[
    Before {
        page: "README.md",
        command: "agent-host ask \"What time is it in Berlin?\"",
        script: "echo \"base_url = \\\"$SERVER\\\"\" >>toolbus.toml",
    },
    Before { page: "docs/agent.md", command: "agent-host schedules list", script: SCHEDULED },
    Before { page: "docs/approvals.md", command: "agent-host approvals list", script: "pending" },
    Before {
        page: "docs/approvals.md",
        command: "agent-host approvals deny 4f1c20ab --note 'not on a Friday'",
        script: "ID=; pending",
    },
    Before {
        page: "docs/approvals.md",
        command: "agent-host approvals remembered",
        script: "ID=; pending; agent-host approvals approve \"$ID\" --remember tool >/dev/null",
    },
    Before {
        page: "docs/approvals.md",
        command: "agent-host approvals revoke 9a0e77c1",
        script: REMEMBERED,
    },
    Before { page: "docs/artifacts.md", command: "agent-host artifacts list", script: ARTIFACT },
    Before {
        page: "docs/operations.md",
        command: "agent-host health --health 127.0.0.1:8081",
        script: "agent-host serve --health \"127.0.0.1$PORT_8081\" & await_answer \"${PORT_8081#:}\" /readyz",
    },
];

/// What is run before this command.
pub(crate) fn before(page: &str, command: &Command) -> &'static str {
    let line = first_line(command);
    let before = BEFORE.iter().find(|before| before.page == page && before.command == line);
    before.map(|before| before.script).unwrap_or_default()
}

/// A block or a command that is not run. The options of our programs in it are checked all the same.
pub(crate) struct Excuse {
    pub(crate) page: &'static str,
    /// The first line of the block or of the command.
    pub(crate) line: &'static str,
    pub(crate) reason: &'static str,
}

const COMPILES: &str = "it compiles the workspace, which whoever runs the tests has done";
const INSTALLS: &str = "it installs packages on this machine";
const DOCKER: &str = "it takes an engine of Docker: the test `ship` has one";
const CLUSTER: &str = "it takes a cluster: the test `ship` has one";
const ARCHIVE: &str = "it takes an archive: the test `ship` makes one and unpacks it";
const SERVER: &str = "it changes a broker that runs as a service of the machine";

pub(crate) const EXCUSED_BLOCKS: &[Excuse] = &[
    Excuse {
        page: "README.md",
        line: r#"dev/demo            # installs bubblewrap if it is missing, builds, and shows the whole fleet in one process"#,
        reason: INSTALLS,
    },
    Excuse {
        page: "docs/install.md",
        line: r#"sha256sum --check --ignore-missing SHA256SUMS"#,
        reason: ARCHIVE,
    },
    Excuse {
        page: "docs/install.md",
        line: r#"rustup target add aarch64-unknown-linux-gnu"#,
        reason: INSTALLS,
    },
    Excuse {
        page: "docs/install.md",
        line: r#"JEMALLOC_SYS_WITH_MALLOC_CONF=narenas:1 \"#,
        reason: COMPILES,
    },
    Excuse {
        page: "docs/install.md",
        line: r#"AGENT_HOST_MCP_PORT=8801 deploy/compose/up"#,
        reason: DOCKER,
    },
    Excuse {
        page: "docs/install.md",
        line: r#"kubectl --namespace toolbus get pods,persistentvolumeclaims"#,
        reason: CLUSTER,
    },
    Excuse {
        page: "docs/operations.md",
        line: r#"kubectl --namespace toolbus exec deployment/toolbus-agent-host -- agent-host doctor"#,
        reason: CLUSTER,
    },
    Excuse {
        page: "docs/install.md",
        line: r#"docker/images                    # or: docker compose --file deploy/compose/compose.yaml build"#,
        reason: DOCKER,
    },
    Excuse {
        page: "docs/install.md",
        line: r#"helm install toolbus helm/toolbus --namespace toolbus --create-namespace --wait \"#,
        reason: CLUSTER,
    },
    Excuse { page: "docs/install.md", line: r#"rabbitmqctl add_vhost agents"#, reason: SERVER },
    Excuse {
        page: "docs/install.md",
        line: r#"kubectl --namespace toolbus create secret generic broker-login --from-literal=password=…"#,
        reason: CLUSTER,
    },
    Excuse {
        page: "docs/install.md",
        line: r#"kubectl apply --filename broker.yaml"#,
        reason: CLUSTER,
    },
    Excuse {
        page: "docs/operations.md",
        line: r#"kubectl --namespace toolbus port-forward deployment/toolbus-mcp-bridge 8081 &"#,
        reason: CLUSTER,
    },
    Excuse {
        page: "docs/operations.md",
        line: r#"helm upgrade toolbus helm/toolbus --namespace toolbus --reset-then-reuse-values --wait --set image.tag=NEW"#,
        reason: CLUSTER,
    },
    Excuse {
        page: "docs/operations.md",
        line: r#"kubectl --namespace toolbus create secret generic broker-url \"#,
        reason: CLUSTER,
    },
    Excuse {
        page: "docs/operations.md",
        line: r#"kubectl --namespace toolbus exec toolbus-rabbitmq-0 -- rabbitmqctl export_definitions - >definitions.json"#,
        reason: CLUSTER,
    },
    Excuse {
        page: "docs/operations.md",
        line: r#"kubectl --namespace toolbus exec --stdin toolbus-rabbitmq-0 -- rabbitmqctl change_password toolbus <new-password"#,
        reason: CLUSTER,
    },
    Excuse {
        page: "docs/operations.md",
        line: r#"kubectl --namespace toolbus create secret generic grants --from-file=key=new-key --from-file=previous=old-key \"#,
        reason: CLUSTER,
    },
    Excuse { page: "docs/operations.md", line: r#"kubectl cordon NODE"#, reason: CLUSTER },
    Excuse {
        page: "docs/operations.md",
        line: r#"kubectl --namespace toolbus port-forward toolbus-rabbitmq-0 15672 &"#,
        reason: CLUSTER,
    },
];

pub(crate) const EXCUSED_COMMANDS: &[Excuse] = &[
    Excuse { page: "README.md", line: "cargo build --release", reason: COMPILES },
    Excuse { page: "docs/install.md", line: "dev/setup --run", reason: INSTALLS },
    Excuse {
        page: "docs/install.md",
        line: "cargo build --release --package agent-host",
        reason: COMPILES,
    },
    Excuse {
        page: "docs/operations.md",
        line: "agent-host health --url https://tools.example.org",
        reason: "it asks an agent elsewhere",
    },
    Excuse {
        page: "docs/approvals.md",
        line: r#"agent-host approvals approve 4f1c20ab --arguments '{"to": "alice", "amount": 5}'"#,
        reason: "it is about a tool that pays",
    },
    Excuse {
        page: "docs/approvals.md",
        line: r#"agent-host approvals approve 4f1c20ab --chain-calls 50 --matching '{"repository": "toolbus/*", "label": "urgent"}'"#,
        reason: "it is about a chain that writes to a repository",
    },
    Excuse {
        page: "docs/trouble.md",
        line: "kubectl --namespace toolbus get pods,persistentvolumeclaims",
        reason: CLUSTER,
    },
    Excuse {
        page: "docs/mcp-json.md",
        line: "agent-host mcp sync",
        reason: "it connects servers of others, over the network",
    },
];

/// Whether no command of this block is run.
pub(crate) fn is_excused_block(page: &str, block: &Block) -> bool {
    let line = block.first_line();
    EXCUSED_BLOCKS.iter().any(|excuse| excuse.page == page && excuse.line == line)
}

/// Whether this command is not run.
pub(crate) fn is_excused_command(page: &str, command: &Command) -> bool {
    let line = first_line(command);
    EXCUSED_COMMANDS.iter().any(|excuse| excuse.page == page && excuse.line == line)
}

/// What lists know a command by.
pub(crate) fn first_line(command: &Command) -> &str {
    command.text.lines().next().unwrap_or_default()
}
