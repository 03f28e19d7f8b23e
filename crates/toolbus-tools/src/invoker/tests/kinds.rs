//! Which kinds of tools can be called, and how (RV-I1, 1c.25).

use super::*;
use crate::registry::Offer;
use crate::tool_kind::ProviderSpecs;

/// An invoker of `web_search`, which a provider runs, `shell`, which it defines, `tool_chain` (also
/// `Chain`), and `work`. All say what they are.
fn mixed() -> Invoker {
    let registry = Arc::new(Registry::new());
    let run = |call: Invocation| ready(Ok(Output::text(call.tool.to_string())));
    let hosted = Tool::new("web_search", "", "test").hosted_by_provider(ProviderSpecs::default());
    let shell = Tool::new("shell", "", "test")
        .defined_by_provider(ProviderSpecs::default(), ["local_shell_call", "shell_call"]);
    let chain = Tool::new("tool_chain", "", "test").with_alias("Chain");
    let offers = vec![
        Offer::hosted(hosted),
        Offer::new(shell, run),
        Offer::new(chain, run),
        Offer::new(tool(), run),
    ];
    let provider = registry.provider("test");
    assert!(provider.publish(offers).is_empty());
    // They stay for as long as the test does.
    std::mem::forget(provider);
    Invoker::new(registry)
}

fn in_door(door: Door, tool: &str) -> Call {
    let scope = Scope::new(door, Principal::local(), AgentName::standard());
    Call { tool: name(tool), ..call_in(scope, json!({})) }
}

async fn refusal(call: Call) -> String {
    let error = mixed().invoke(call).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Denied);
    assert_eq!(error.execution, toolbus_wire::Execution::NotStarted);
    error.message
}

#[tokio::test]
async fn rv_i1_tools_of_providers_cannot_be_called_by_name() {
    for door in Door::ALL {
        assert_eq!(
            refusal(in_door(door, "web_search")).await,
            "tool 'web_search' is run by the model's provider and cannot be called here"
        );
        assert_eq!(
            refusal(in_door(door, "shell")).await,
            "tool 'shell' is called by the model's provider and cannot be called by its name"
        );
    }
}

#[tokio::test]
async fn rv_1c25_a_chain_cannot_call_chains() {
    for called in ["tool_chain", "Chain"] {
        let text = refusal(in_door(Door::Chain, called)).await;
        assert_eq!(text, "tool 'tool_chain' cannot be called from within a chain");
        for door in Door::ALL.into_iter().filter(|door| *door != Door::Chain) {
            assert!(mixed().invoke(in_door(door, called)).await.is_ok(), "{door:?}");
        }
    }
    assert!(mixed().invoke(in_door(Door::Chain, "work")).await.is_ok());
}

#[tokio::test]
async fn a_provider_calls_what_it_defines_by_type() {
    let call = |tool: &str, call_type: &str| in_door(Door::Turn, tool).with_call_type(call_type);
    for call_type in ["local_shell_call", "shell_call"] {
        let output = mixed().invoke(call("shell", call_type)).await.unwrap();
        assert_eq!(output.content.as_deref(), Some("shell"));
    }
    let other = refusal(call("shell", "other")).await;
    assert_eq!(other, "tool 'shell' does not answer calls of this type");
    assert!(refusal(call("work", "shell_call")).await.contains("is called by its name"));
    assert!(refusal(call("web_search", "shell_call")).await.contains("cannot be called here"));
}

/// RV-I1: a spent budget and an unknown name refuse before the kind does, and the kind before the
/// policy.
#[tokio::test]
async fn rv_i1_the_kind_is_the_third_question() {
    let registry = Arc::new(Registry::new());
    let provider = registry.provider("test");
    let hosted = Tool::new("web_search", "", "test").hosted_by_provider(ProviderSpecs::default());
    assert!(provider.publish(vec![Offer::hosted(hosted)]).is_empty());
    let policy = |_: &crate::policy::PolicyRequest<'_>| crate::policy::Decision::Deny("no".into());
    let invoker = Invoker::builder(registry).policy(policy).build();
    let code_of = async |call: Call| {
        let error = invoker.invoke(call).await.unwrap_err();
        (error.code, error.message)
    };

    let spent = Scope::new(Door::Turn, Principal::local(), AgentName::standard());
    let spent = spent.with_budget(crate::Budget::calls(0));
    let spent = Call { tool: name("web_search"), ..call_in(spent, json!({})) };
    assert!(code_of(spent).await.1.contains("budget"));
    assert_eq!(code_of(in_door(Door::Turn, "missing")).await.0, ErrorCode::ToolNotFound);
    let (code, text) = code_of(in_door(Door::Turn, "web_search")).await;
    assert!(code == ErrorCode::Denied && text.contains("model's provider"), "{text}");
}
