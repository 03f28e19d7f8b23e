//! A turn of the agent is one trace, and what its model took is counted.

use anyhow::{Context as _, ensure};
use toolbus_testkit::otlp::Collector;
use toolbus_testkit::scripted_server::Server;
use toolbus_testkit::{eventually, process::Launch};

use super::servers::{attribute, exporting, points};
use crate::agent::{answer, script, settings};
use crate::support::LIMIT;

#[tokio::test]
async fn a_turn_is_one_trace_and_its_tokens_are_counted() {
    let Some(collector) = Collector::start().await else { return };
    let server = Server::start([answer("", &[script("print(1)")]), answer("One.", &[])]).await;
    let folder = settings(&server);
    let launch = Launch::new("agent-host").arg("--config").arg(folder.path().join("toolbus.toml"));
    let launch = launch.args(["ask", "One?", "--session", "one"]);
    let asked = exporting(launch, &collector).run(LIMIT).await.unwrap();
    assert_eq!(asked.stdout, "One.\n", "{asked:?}");

    eventually(LIMIT, async || {
        let spans = collector.spans()?;
        let turn = spans.iter().find(|span| span.name == "invoke_agent RockBot");
        let turn = turn.context("no span of the turn")?;
        ensure!(turn.attributes["gen_ai.conversation.id"] == "session/one", "{turn:?}");
        let below = |name: &str| {
            let of_turn =
                spans.iter().filter(|span| span.parent_id.as_ref() == Some(&turn.span_id));
            of_turn.filter(|span| span.name == name).count()
        };
        ensure!(below("chat model-1") == 2, "{spans:#?}");
        ensure!(below("tool.invoke execute_python_script") == 1, "{spans:#?}");

        let requests = collector.requests()?;
        let took = points(&requests, "gen_ai.client.operation.duration");
        let models = took.iter().map(|point| attribute(point, "gen_ai.request.model"));
        ensure!(models.flatten().any(|model| model == "model-1"), "{took:#?}");
        let tokens = points(&requests, "gen_ai.client.token.usage");
        for kind in ["input", "output"] {
            let mut kinds = tokens.iter().filter_map(|point| attribute(point, "gen_ai.token.type"));
            ensure!(kinds.any(|known| known == kind), "{tokens:#?}");
        }
        Ok(())
    })
    .await;
}
