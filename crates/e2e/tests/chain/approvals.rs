//! Approvals in the middle of a chain: of one call, of a loop, and of none.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_approvals::{
    Answer, Approval, ApprovalConfig, ApprovalState, ApprovalStore, Approvals, Approve, ForChain,
};
use toolbus_chain::ChainPolicy;
use toolbus_policy::{LivePolicy, PolicySettings, RuleBook};
use toolbus_store::{LazyStore, Location};
use toolbus_testkit::eventually;
use toolbus_tools::Principal;
use toolbus_wire::name::AgentName;

use super::support::{Chains, Ran};

/// Chains whose writes need an approval, and who gives them.
struct Approved {
    chains: Chains,
    approvals: Approvals,
    store: Arc<ApprovalStore>,
    _folder: TempDir,
}

impl Approved {
    async fn open() -> Option<Self> {
        Self::open_with(ChainPolicy::default().call_timeout).await
    }

    async fn open_with(call_timeout: Duration) -> Option<Self> {
        let settings: PolicySettings = serde_json::from_value(json!({"rules": [{
            "name": "writes", "doors": ["chain"], "tools": ["test/write"],
            "effect": "ask", "reason": "it writes"
        }]}))
        .expect("a rule");
        let policy = LivePolicy::new(RuleBook::new(&settings).expect("a book"));
        let folder = tempfile::tempdir().expect("a folder");
        let location = Location::Sqlite(folder.path().join("approvals.db"));
        let store = LazyStore::new(location, &[toolbus_approvals::MIGRATIONS]);
        let config = ApprovalConfig { wait_for_operator: true, ..ApprovalConfig::default() };
        let approvals = Approvals::new(store.clone(), config, &AgentName::standard(), "host");

        let gate = approvals.gate();
        let policy_of_chains =
            ChainPolicy { tool_calls_max: 100, call_timeout, ..ChainPolicy::default() };
        let set_up = |builder: toolbus::ToolbusBuilder| builder.rule_book(&policy).gate(gate);
        let chains = Chains::with(policy_of_chains, set_up).await?;
        let store = Arc::new(ApprovalStore::new(store, false));
        Some(Self { chains, approvals, store, _folder: folder })
    }

    /// Runs a program and answers what is asked for, each by the next verdict.
    async fn run(&self, code: &str, verdicts: Vec<Approve>) -> (Ran, Vec<Value>) {
        let answering = async {
            let mut asked = Vec::new();
            for verdict in verdicts {
                let approval = self.asked().await;
                asked.push(approval.binding.arguments.clone());
                let answer = Answer::new(verdict, &Principal::local());
                self.store.answer(&approval.id, answer).await.expect("an answer");
            }
            asked
        };
        tokio::join!(self.chains.run(code), answering)
    }

    async fn asked(&self) -> Approval {
        eventually(Duration::from_secs(60), async || {
            let mut pending =
                self.store.list(Some(ApprovalState::Pending), 2).await.expect("a list");
            pending.pop().ok_or("nothing is asked for")
        })
        .await
    }
}

#[tokio::test]
async fn a_call_waits_for_its_approval_in_the_middle_of_a_chain() {
    let Some(approved) = Approved::open().await else { return };
    let code = "
print(tools.write(n=1))
try:
    tools.write(n=2)
except ToolDenied as error:
    print('refused')
print(tools.write(n=3))
";
    let verdicts = vec![Approve::ONCE, Approve::No, Approve::With(json!({"n": 4}))];
    let (ran, asked) = approved.run(code, verdicts).await;
    assert_eq!(ran.result["output_text"], "written 1\nrefused\nwritten 2\n");
    assert_eq!(asked, [json!({"n": 1}), json!({"n": 2}), json!({"n": 3})]);
    assert_eq!(*approved.chains.written.lock(), [json!({"n": 1}), json!({"n": 4})]);
    assert_eq!(ran.statuses(), ["ok", "denied", "ok"]);
    approved.approvals.close().await;
}

/// One yes for a loop: within its pattern and its number, and no further.
#[tokio::test]
async fn a_loop_is_approved_once() {
    let Some(approved) = Approved::open().await else { return };
    let code = "
refused = 0
for n in range(12):
    try:
        tools.write(n=n, kind='note')
    except ToolDenied:
        refused += 1
try:
    tools.write(n=1, kind='other')
except ToolDenied:
    print('refused', refused)
";
    let loop_of_ten = Approve::ForChain(ForChain { calls: 9, arguments: json!({"kind": "n*"}) });
    let verdicts = vec![loop_of_ten, Approve::No, Approve::No, Approve::No];
    let (ran, asked) = approved.run(code, verdicts).await;
    assert_eq!(ran.result["output_text"], "refused 2\n");
    let expected = [
        json!({"n": 0, "kind": "note"}),
        json!({"n": 10, "kind": "note"}),
        json!({"n": 11, "kind": "note"}),
        json!({"n": 1, "kind": "other"}),
    ];
    assert_eq!(asked, expected);
    assert_eq!(approved.chains.written.lock().len(), 10);
    approved.approvals.close().await;
}

/// 1c.27: a program waits for as long as its call may take, approval and tool together. What the
/// approval takes is not the tool's.
#[tokio::test]
async fn rule_1c_27_a_program_waits_longer_than_a_call_may_take() {
    let Some(approved) = Approved::open_with(Duration::from_secs(1)).await else { return };
    let answering = async {
        let approval = approved.asked().await;
        // sleeps: waiting takes longer than a call may take, which is real time.
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        let answer = Answer::new(Approve::ONCE, &Principal::local());
        approved.store.answer(&approval.id, answer).await.unwrap();
    };
    let (ran, ()) = tokio::join!(approved.chains.run("return tools.write(n=1)"), answering);
    assert_eq!(ran.result["output_text"], "written 1\n");
    approved.approvals.close().await;
}
