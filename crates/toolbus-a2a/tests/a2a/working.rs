//! How an agent does the tasks of others.

use std::num::NonZeroU16;
use std::sync::atomic::Ordering;

use futures_util::FutureExt as _;
use toolbus_a2a::{A2aConfig, TaskEnd};
use toolbus_bus::Envelope;
use toolbus_testkit::{eventually, quiet_for};
use toolbus_wire::message::a2a::{
    AgentErrorCode, AgentMessage, AgentTaskError, AgentTaskRequest, AgentTaskResult,
    AgentTaskState, AgentTaskStatusUpdate, DEPTH_HEADER,
};
use toolbus_wire::{Message, header, message, topic};

use crate::support::*;

pub(crate) fn request(id: &str) -> AgentTaskRequest {
    AgentTaskRequest {
        task_id: id.to_owned(),
        context_id: Some("c1".to_owned()),
        skill: "research".to_owned(),
        message: AgentMessage::of_text("user", "what?"),
    }
}

fn sent(request: &AgentTaskRequest) -> Envelope {
    Envelope::of(request, "Other")
        .with_reply_to(topic::agent_response(&agent("Other")))
        .with_correlation_id(&request.task_id)
}

#[tokio::test]
async fn a_task_is_answered_once_however_often_it_comes() {
    for [_, theirs] in places().await {
        let broker = Broker::memory();
        let work = Work::echo();
        let worker = Setup::new(&broker, &theirs, "ResearchAgent").working(&work).start().await;
        let stranger = Stranger::hearing(&broker, "agent.#").await;
        let tasks = topic::agent_task(&worker.name);
        for _ in 0..3 {
            stranger.publish(&tasks, sent(&request("t1"))).await;
        }
        let results = stranger.heard::<AgentTaskResult>(1).await;
        assert_eq!((results[0].state, &*results[0].task_id), (AgentTaskState::Completed, "t1"));
        assert_eq!(results[0].context_id.as_deref(), Some("c1"));

        // It is told that it is under way before it is answered, and who is asked again says the
        // same.
        stranger.publish(&tasks, sent(&request("t1"))).await;
        let again = eventually(PATIENCE, async || {
            let heard = stranger.heard.lock().clone();
            let of_type = |envelope: &&Envelope| message::is::<AgentTaskResult>(envelope);
            let results: Vec<_> = heard.iter().filter(of_type).cloned().collect();
            if results.len() >= 2 { Ok(results) } else { Err(results) }
        })
        .await;
        assert!(again.iter().all(|result| result.message_id == again[0].message_id));
        assert!(again.iter().all(|result| result.body == again[0].body));
        assert_eq!(again[0].correlation_id.as_deref(), Some("t1"));
        assert_eq!(work.count(), 1);
        let heard = stranger.heard.lock().clone();
        let types: Vec<_> = heard.iter().map(|envelope| &*envelope.message_type).collect();
        let at = |wanted: &str| types.iter().position(|found| *found == wanted).unwrap();
        assert!(at(AgentTaskStatusUpdate::TYPE) < at(AgentTaskResult::TYPE), "{types:?}");

        // Another agent's task of the same id is another.
        let other = Envelope { source: "Third".to_owned(), ..sent(&request("t1")) };
        stranger.publish(&tasks, other).await;
        eventually(PATIENCE, async || if work.count() == 2 { Ok(()) } else { Err(()) }).await;
    }
}

#[tokio::test]
async fn no_more_tasks_are_done_at_a_time_than_there_may_be() {
    for [_, theirs] in places().await {
        let broker = Broker::memory();
        let (work, release) = Work::until_released("x");
        let worker = Setup::new(&broker, &theirs, "ResearchAgent").working(&work).start().await;
        let stranger = Stranger::hearing(&broker, "agent.response.#").await;
        for number in 0..9 {
            let request = request(&number.to_string());
            stranger.publish(&topic::agent_task(&worker.name), sent(&request)).await;
        }
        eventually(PATIENCE, async || if work.count() == 2 { Ok(()) } else { Err(()) }).await;
        quiet_for(A_WHILE, async || match work.count() {
            2 => Ok(()),
            count => Err(count),
        })
        .await;
        release.cancel();
        stranger.heard::<AgentTaskResult>(9).await;
        assert_eq!(work.most_at_a_time.load(Ordering::SeqCst), 2);
    }
}

#[tokio::test]
async fn a_task_has_its_time_and_no_more() {
    for [_, theirs] in places().await {
        let broker = Broker::memory();
        let work = Work::new(|_, _| std::future::pending().boxed());
        let worker = Setup::new(&broker, &theirs, "ResearchAgent").working(&work).start().await;
        let stranger = Stranger::hearing(&broker, "agent.response.#").await;
        let hurried = sent(&request("t1")).with_header(header::TIMEOUT_MS, "1000");
        stranger.publish(&topic::agent_task(&worker.name), hurried).await;
        let errors = stranger.heard::<AgentTaskError>(1).await;
        assert_eq!(errors[0].code, AgentErrorCode::ExecutionFailed);
        assert_text!(&errors[0].message, @"the task took longer than 1 s");
        assert_eq!(work.at_a_time.load(Ordering::SeqCst), 0);
    }
}

/// A process that is slow may keep its lease too late. It does not begin its own task again.
#[tokio::test]
async fn a_task_whose_lease_is_over_is_not_done_twice_at_once() {
    for [_, theirs] in places().await {
        let broker = Broker::memory();
        let (work, release) = Work::until_released("once");
        let worker = Setup::new(&broker, &theirs, "ResearchAgent").working(&work).start().await;
        let stranger = Stranger::hearing(&broker, "agent.response.#").await;
        stranger.publish(&topic::agent_task(&worker.name), sent(&request("t1"))).await;
        eventually(PATIENCE, async || if work.count() == 1 { Ok(()) } else { Err(()) }).await;
        for _ in 0..30 {
            // A message that comes again has it be looked for tasks that nobody does.
            let again = sent(&request("t1"));
            stranger.publish(&topic::agent_task(&worker.name), again).await;
            worker
                .sabotage("UPDATE a2a_tasks SET lease_until_ms = 0 WHERE state = 'running'")
                .await;
            eventually(PATIENCE, async || {
                let over = "SELECT COUNT(*) FROM a2a_tasks WHERE lease_until_ms = 0";
                if worker.count(over).await == 0 { Ok(()) } else { Err("nobody took it up") }
            })
            .await;
        }
        release.cancel();
        stranger.heard::<AgentTaskResult>(1).await;
        assert_eq!((work.count(), work.most_at_a_time.load(Ordering::SeqCst)), (1, 1));
        worker.close().await;
    }
}

#[tokio::test]
async fn what_panics_fails() {
    let [_, theirs] = places().await.remove(0);
    let broker = Broker::memory();
    let work = Work::new(|_, _| async { panic!("as it is told") }.boxed());
    let worker = Setup::new(&broker, &theirs, "ResearchAgent").working(&work).start().await;
    let stranger = Stranger::hearing(&broker, "agent.response.#").await;
    stranger.publish(&topic::agent_task(&worker.name), sent(&request("t1"))).await;
    let errors = stranger.heard::<AgentTaskError>(1).await;
    assert_eq!(errors[0].message, "the task failed within the agent");
}

/// What ends every process that begins it is not begun for ever.
#[tokio::test]
async fn a_task_that_is_lost_again_and_again_fails() {
    for [_, theirs] in places().await {
        let broker = Broker::memory();
        let work = Work::echo();
        let worker = Setup::new(&broker, &theirs, "ResearchAgent").working(&work).start().await;
        let stranger = Stranger::hearing(&broker, "agent.response.#").await;
        worker
            .sabotage(
                "INSERT INTO a2a_tasks
                 (agent, caller, id, state, holder, lease_until_ms, begun, received_ms,
                  deadline_ms, reply_to, depth, request, answer_type, answer)
                 VALUES ('ResearchAgent', 'Other', 't1', 'running', 'lost', 0, 3, 0,
                  9000000000000, 'agent.response.Other', 0, '{\"taskId\":\"t1\",\"skill\":\"s\",\"message\":{\"role\":\"user\",\"parts\":[]}}', '', '')",
            )
            .await;
        // What comes again has it looked for.
        stranger.publish(&topic::agent_task(&worker.name), sent(&request("t1"))).await;
        let errors = stranger.heard::<AgentTaskError>(1).await;
        assert_text!(&errors[0].message, @"the task was begun 3 times, and lost each time");
        assert_eq!(work.count(), 0);
    }
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_with_its_code() {
    let [_, theirs] = places().await.remove(0);
    let broker = Broker::memory();
    let work = Work::echo();
    let config =
        A2aConfig { history_max: 1, tasks_max: NonZeroU16::MIN, ..quick_config("ResearchAgent") };
    let setup = Setup { config, ..Setup::new(&broker, &theirs, "ResearchAgent") };
    let worker = setup.working(&work).start().await;
    let stranger = Stranger::hearing(&broker, "agent.response.#").await;
    let tasks = topic::agent_task(&worker.name);

    let skill = AgentTaskRequest { skill: "cooking".to_owned(), ..request("t1") };
    stranger.publish(&tasks, sent(&skill)).await;
    let deep = sent(&request("t2")).with_header(DEPTH_HEADER, "17");
    stranger.publish(&tasks, deep).await;
    let nameless = AgentTaskRequest { task_id: String::new(), ..request("t3") };
    let nameless = sent(&nameless).with_correlation_id("t3");
    stranger.publish(&tasks, nameless).await;
    stranger.publish(&tasks, sent(&request("t4"))).await;
    stranger.heard::<AgentTaskResult>(1).await;
    stranger.publish(&tasks, sent(&request("t5"))).await;

    let errors = stranger.heard::<AgentTaskError>(4).await;
    let mut errors: Vec<_> = errors
        .iter()
        .map(|error| {
            let again = if error.is_retryable { " (again)" } else { "" };
            format!("{} {}{again}: {}", error.task_id, error.code, error.message)
        })
        .collect();
    errors.sort_unstable();
    assert_text!(errors.join("\n"), @r"
    t1 skill_not_supported: Agent 'ResearchAgent' has no skill 'cooking'. Its skills: research.
    t2 invalid_request: tasks are nested too deep
    t3 invalid_request: the taskId is empty, longer than 256 bytes, or has control characters
    t5 execution_failed (again): the agent cannot take tasks now
    ");
    assert_eq!(work.count(), 1);
}

/// One client has a task, and another the nine that are newer, of which there is one too many. On
/// the bus the other may have as many names as tasks.
#[tokio::test]
async fn who_sends_many_tasks_has_none_forgotten_but_its_own() {
    const FREE_NAMES: &[&str] = &[
        "UPDATE a2a_tasks SET caller = 'http:token:http/ana' WHERE id = 'first'",
        "UPDATE a2a_tasks SET caller = 'Flood' || id WHERE caller = 'Flood'",
    ];
    let variants: [&[&str]; 2] = [&[], FREE_NAMES];
    for renamed in variants {
        for [_, theirs] in places().await {
            let broker = Broker::memory();
            let config = A2aConfig { history_max: 10, ..quick_config("ResearchAgent") };
            let setup = Setup { config, ..Setup::new(&broker, &theirs, "ResearchAgent") };
            let setup = setup.working(&Work::echo());
            let worker = setup.start().await;
            let stranger = Stranger::hearing(&broker, "agent.response.#").await;
            let tasks = topic::agent_task(&worker.name);
            stranger.publish(&tasks, sent(&request("first"))).await;
            answered(&worker, 1).await;
            for number in 0..9 {
                let next = sent(&request(&number.to_string()));
                let next = Envelope { source: "Flood".to_owned(), ..next };
                stranger.publish(&tasks, next).await;
            }
            answered(&worker, 10).await;
            worker.close().await;

            for statement in renamed.iter().copied() {
                setup.sabotage(statement).await;
            }
            // A process looks when it starts.
            let worker = setup.start().await;
            answered(&worker, 9).await;
            let first = "SELECT COUNT(*) FROM a2a_tasks WHERE id = 'first'";
            assert_eq!(worker.count(first).await, 1, "{renamed:?}");
        }
    }
}

/// Waits until so many tasks are answered.
async fn answered(worker: &Host, expected: i64) {
    const ANSWERED: &str = "SELECT COUNT(*) FROM a2a_tasks WHERE answered_ms IS NOT NULL";
    eventually(PATIENCE, async || match worker.count(ANSWERED).await {
        count if count == expected => Ok(()),
        count => Err(count),
    })
    .await;
}

#[tokio::test]
async fn every_end_has_its_state() {
    let [_, theirs] = places().await.remove(0);
    let broker = Broker::memory();
    let work = Work::new(|task, _| {
        let end = match &*task.request.task_id {
            "input" => TaskEnd::InputRequired { text: "which one?".to_owned() },
            "cancelled" => TaskEnd::Canceled,
            "large" => done(&"ä".repeat(1 << 20)),
            _ => done("x"),
        };
        std::future::ready(end).boxed()
    });
    let worker = Setup::new(&broker, &theirs, "ResearchAgent").working(&work).start().await;
    let stranger = Stranger::hearing(&broker, "agent.response.#").await;
    for (id, state) in [
        ("input", AgentTaskState::InputRequired),
        ("cancelled", AgentTaskState::Canceled),
        ("large", AgentTaskState::Completed),
    ] {
        stranger.heard.lock().clear();
        stranger.publish(&topic::agent_task(&worker.name), sent(&request(id))).await;
        let result = stranger.heard::<AgentTaskResult>(1).await.remove(0);
        assert_eq!(result.state, state);
        if id == "large" {
            let text = result.message.unwrap().parts.remove(0).text.unwrap();
            assert!(text.len() <= 1 << 20 && text.ends_with("[cut off: the answer is longer]"));
        }
    }
}

#[tokio::test]
async fn old_tasks_are_forgotten() {
    for [_, theirs] in places().await {
        let broker = Broker::memory();
        let setup = Setup::new(&broker, &theirs, "ResearchAgent").working(&Work::echo());
        let worker = setup.start().await;
        let stranger = Stranger::hearing(&broker, "agent.response.#").await;
        stranger.publish(&topic::agent_task(&worker.name), sent(&request("t1"))).await;
        stranger.heard::<AgentTaskResult>(1).await;
        eventually(PATIENCE, async || {
            let answered = "SELECT COUNT(*) FROM a2a_tasks WHERE answered_ms IS NOT NULL";
            if worker.count(answered).await == 1 { Ok(()) } else { Err(()) }
        })
        .await;
        worker.sabotage("UPDATE a2a_tasks SET answered_ms = 1").await;
        worker.close().await;
        let next = setup.start().await;
        eventually(PATIENCE, async || match next.count("SELECT COUNT(*) FROM a2a_tasks").await {
            0 => Ok(()),
            rows => Err(rows),
        })
        .await;
    }
}
