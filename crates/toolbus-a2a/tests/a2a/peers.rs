//! Agents of the C# system, by what was recorded of them, and two of ours over RabbitMQ.

use toolbus_a2a::TaskChange;
use toolbus_bus::Envelope;
use toolbus_testkit::eventually;
use toolbus_wire::fixtures::{self, RecordedFrame};
use toolbus_wire::message::a2a::{
    AgentErrorCode, AgentTaskError, AgentTaskRequest, AgentTaskResult, AgentTaskState,
    AgentTaskStatusUpdate,
};
use toolbus_wire::{Topic, topic};

use crate::support::*;

/// A recorded message, and where it went.
fn recorded(flow: &str, at: usize) -> (Topic, Envelope) {
    let RecordedFrame { frame, routing_key, .. } = fixtures::flow(flow).frames.swap_remove(at);
    (Topic::parse(routing_key).unwrap(), Envelope::from_frame(frame))
}

/// The same, about another task.
fn about(task_id: &str, (topic, envelope): (Topic, Envelope)) -> (Topic, Envelope) {
    let body = String::from_utf8(envelope.body.to_vec()).unwrap();
    let known = envelope.correlation_id.clone().unwrap();
    let body = body.replace(&known, task_id).into();
    (topic, Envelope { body, correlation_id: Some(task_id.to_owned()), ..envelope })
}

#[tokio::test]
async fn a_recorded_task_is_done_as_the_recorded_agent_does_it() {
    for [_, theirs] in places().await {
        let broker = Broker::memory();
        let work = Work::echo();
        let _worker = Setup::new(&broker, &theirs, "ResearchAgent").working(&work).start().await;
        let rockbot = Stranger::hearing(&broker, "agent.#").await;
        let (topic, request) = recorded("a2a", 0);
        rockbot.publish(&topic, request.clone()).await;

        let id = request.correlation_id.clone().unwrap();
        let result = rockbot.heard::<AgentTaskResult>(1).await.remove(0);
        assert_eq!((&result.task_id, result.state), (&id, AgentTaskState::Completed));
        let statuses = rockbot.heard::<AgentTaskStatusUpdate>(2).await;
        assert_eq!((statuses[0].state, &statuses[0].message), (AgentTaskState::Working, &None));
        let heard = rockbot.heard.lock().clone();
        assert!(heard.iter().all(|heard| heard.correlation_id.as_deref() == Some(&id)));
        let trace = heard.last().unwrap().trace.clone().unwrap();
        assert_eq!(&trace.traceparent()[..35], &request.trace.unwrap().traceparent()[..35]);
    }
}

#[tokio::test]
async fn the_recorded_agent_is_asked_and_understood() {
    for [ours, _] in places().await {
        let broker = Broker::memory();
        let host = Setup::new(&broker, &ours, "RockBot").start().await;
        let researcher = Stranger::hearing(&broker, "agent.task.ResearchAgent").await;
        let (topic, card) = recorded("announce", 0);
        researcher.publish(&topic, card).await;
        host.eventually_knows("ResearchAgent").await;

        let asked = host.ask("researchagent", "what is rust?").await;
        let failing = host.ask("ResearchAgent", "please fail").await;
        let requests = researcher.heard::<AgentTaskRequest>(2).await;
        assert_eq!(requests[0].task_id, asked);
        for at in [2, 3, 4] {
            let (topic, envelope) = about(&asked, recorded("a2a", at));
            researcher.publish(&topic, envelope).await;
        }
        for at in [5, 6] {
            let (topic, envelope) = about(&failing, recorded("a2a", at));
            researcher.publish(&topic, envelope).await;
        }
        let answer = host.answer_to(&asked).await;
        assert_text!(answer, @r#"
        done: what is rust?

        ## report

        {"n":1}
        "#);
        assert_eq!(
            host.end_of(&failing).await.what,
            TaskChange::Failed {
                code: "execution_failed".to_owned(),
                message: "research failed".to_owned(),
                is_retryable: false,
            }
        );
        // As the recorded caller writes it, but for what is ours.
        let (_, theirs) = recorded("a2a", 0);
        let (of_ours, theirs) = (researcher.heard.lock()[0].clone(), theirs);
        assert_eq!(of_ours.reply_to, theirs.reply_to);
        assert_eq!(of_ours.message_type, theirs.message_type);
        assert_eq!(of_ours.body.len(), theirs.body.len());
    }
}

/// The C# agent refuses every wish to cancel.
#[tokio::test]
async fn a_refused_cancel_is_no_end() {
    let [ours, _] = places().await.remove(0);
    let broker = Broker::memory();
    let host = Setup::new(&broker, &ours, "RockBot").start().await;
    let researcher = Stranger::hearing(&broker, "agent.task.#").await;
    let id = host.ask("ResearchAgent", "x").await;
    host.tasks.cancel(&owner(&host.name), &id).await.unwrap();
    let refused = AgentTaskError {
        task_id: id.clone(),
        context_id: None,
        code: AgentErrorCode::TaskNotCancelable,
        message: "Stateless agents do not support task cancellation.".to_owned(),
        is_retryable: false,
    };
    let refused = Envelope::of(&refused, "ResearchAgent").with_correlation_id(&id);
    researcher.publish(&topic::agent_response(&host.name), refused).await;
    eventually(PATIENCE, async || {
        let events = host.listener.events.lock().clone();
        let is_told = |change: &TaskChange| matches!(change, TaskChange::NotCancelled { .. });
        if events.iter().any(|event| is_told(&event.what)) { Ok(()) } else { Err(events) }
    })
    .await;
    assert_eq!(host.listener.ends(), []);
    let (topic, result) = about(&id, recorded("a2a", 4));
    researcher.publish(&topic, result).await;
    host.answer_to(&id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_agents_ask_each_other_over_rabbitmq() {
    let Some(broker) = Broker::rabbit().await else { return };
    for [ours, theirs] in places().await {
        let (one, other) = (Work::echo(), Work::echo());
        let one = Setup::new(&broker, &ours, "RockBot").working(&one).start().await;
        let other = Setup::new(&broker, &theirs, "ResearchAgent").working(&other).start().await;
        // Whoever is there first hears the other.
        one.eventually_knows("ResearchAgent").await;
        for number in 0..5 {
            let text = number.to_string();
            let (asked, asked_back) =
                (one.ask("ResearchAgent", &text).await, other.ask("RockBot", &text).await);
            assert_eq!(one.answer_to(&asked).await, format!("research: {number}"));
            assert_eq!(other.answer_to(&asked_back).await, format!("research: {number}"));
        }
        other.close().await;
        eventually(PATIENCE, async || {
            let known = one.directory.list(None);
            if known.is_empty() { Ok(()) } else { Err(known) }
        })
        .await;
        one.close().await;
    }
    let Broker::Rabbit(vhost) = &*broker else { return };
    let mut queues: Vec<_> = eventually(PATIENCE, async || {
        let queues = vhost.queues().await.unwrap();
        let is_private = |queue: &toolbus_testkit::rabbit::Queue| queue.exclusive;
        if queues.iter().any(is_private) { Err(queues) } else { Ok(queues) }
    })
    .await
    .into_iter()
    .map(|queue| queue.name)
    .filter(|name| !name.ends_with(".dlq"))
    .collect();
    queues.sort_unstable();
    assert_eq!(
        queues,
        [
            "rockbot.ResearchAgent.agent-response-ResearchAgent",
            "rockbot.ResearchAgent.agent-task-ResearchAgent",
            "rockbot.ResearchAgent.agent-task-cancel-ResearchAgent",
            "rockbot.RockBot.agent-response-RockBot",
            "rockbot.RockBot.agent-task-RockBot",
            "rockbot.RockBot.agent-task-cancel-RockBot",
        ]
    );
}
