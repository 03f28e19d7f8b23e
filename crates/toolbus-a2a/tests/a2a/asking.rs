//! What becomes of tasks that an agent asks another for.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use toolbus_a2a::{A2aConfig, CancelAsked, Error, MESSAGE_BYTES_MAX, NewTask, TaskChange, TaskEnd};
use toolbus_bus::Envelope;
use toolbus_testkit::eventually;
use toolbus_tools::Scope;
use toolbus_tools::scope::DEPTH_MAX;
use toolbus_wire::message::a2a::{
    AgentArtifact, AgentErrorCode, AgentMessage, AgentMessagePart, AgentTaskCancelRequest,
    AgentTaskRequest, AgentTaskResult, AgentTaskState, ROLE_AGENT,
};
use toolbus_wire::topic;

use crate::support::*;

fn result(task_id: &str, text: &str) -> AgentTaskResult {
    AgentTaskResult {
        task_id: task_id.to_owned(),
        context_id: None,
        state: AgentTaskState::Completed,
        artifacts: None,
        message: Some(AgentMessage::of_text(ROLE_AGENT, text)),
    }
}

#[tokio::test]
async fn a_task_is_done_and_its_result_is_told_once() {
    for [ours, theirs] in places().await {
        let broker = Broker::memory();
        let work = Work::new(|_, _| {
            let part = AgentMessagePart {
                kind: "data".to_owned(),
                data: Some("{\"n\":1}".to_owned()),
                ..AgentMessagePart::default()
            };
            let description = Some("What was found".to_owned());
            let artifact =
                AgentArtifact { name: "report".to_owned(), description, parts: vec![part] };
            let end = TaskEnd::Completed { text: "done".to_owned(), artifacts: vec![artifact] };
            std::future::ready(end).boxed()
        });
        let researcher = Setup::new(&broker, &theirs, "ResearchAgent").working(&work).start().await;
        let asker = Setup::new(&broker, &ours, "RockBot").start().await;
        asker.eventually_knows("researchagent").await;

        let id = asker.ask("RESEARCHAGENT", "what is rust?").await;
        let end = asker.end_of(&id).await;
        assert_eq!((&*end.target, &*end.skill), ("ResearchAgent", "research"));
        assert_eq!(end.owner, owner(&agent("RockBot")));
        assert_text!(end.text().replace(&id, "ID"), @r#"
        [The task ID ('research') of agent 'ResearchAgent' completed:]

        done

        ## report

        What was found

        {"n":1}

        [kept in working memory under 'session/s1/a2a/ResearchAgent/ID/result']
        "#);
        assert_eq!(asker.keeper.kept.lock().len(), 1);

        let ran = work.ran.lock().clone();
        assert_eq!(
            (&*ran[0].caller, ran[0].lineage.depth, ran[0].is_resumed),
            ("RockBot", 1, false)
        );
        assert!(ran[0].timeout <= Duration::from_secs(60));
        // What was said before came before.
        let events = asker.listener.events.lock().clone();
        let texts: Vec<_> = events.iter().map(|event| event.text().replace(&id, "ID")).collect();
        assert_eq!(texts[0], "[The task ID ('research') of agent 'ResearchAgent' is under way.]");
        assert!(texts[1].ends_with("is under way: reading]"), "{texts:?}");
        assert_eq!(texts.len(), 3);
        eventually(PATIENCE, async || match asker.count("SELECT COUNT(*) FROM a2a_asked").await {
            0 => Ok(()),
            rows => Err(rows),
        })
        .await;
        asker.close().await;
        researcher.close().await;
    }
}

#[tokio::test]
async fn a_failure_is_told() {
    for [ours, theirs] in places().await {
        let broker = Broker::memory();
        let work = Work::new(|_, _| {
            let (code, message) = (AgentErrorCode::ExecutionFailed, "no network".to_owned());
            std::future::ready(TaskEnd::Failed { code, message, is_retryable: true }).boxed()
        });
        let _researcher =
            Setup::new(&broker, &theirs, "ResearchAgent").working(&work).start().await;
        let asker = Setup::new(&broker, &ours, "RockBot").start().await;
        let id = asker.ask("ResearchAgent", "please").await;
        assert_text!(asker.end_of(&id).await.text().replace(&id, "ID"),
            @"[The task ID ('research') of agent 'ResearchAgent' failed: no network (execution_failed, may be tried again)]");
    }
}

/// The C# agent tells nobody.
#[tokio::test]
async fn a_timeout_is_told_and_the_agent_is_asked_to_stop() {
    for [ours, _] in places().await {
        let broker = Broker::memory();
        let silent = Stranger::hearing(&broker, "agent.task.#").await;
        let asker = Setup::new(&broker, &ours, "RockBot").start().await;
        let id = asker.ask_within("ResearchAgent", "x", Duration::from_millis(300)).await;
        let end = asker.end_of(&id).await;
        assert_text!(end.text().replace(&id, "ID"),
            @"[The task ID ('research') of agent 'ResearchAgent' gave no result within 1 s, and was given up.]");
        let cancels = silent.heard::<AgentTaskCancelRequest>(1).await;
        assert_eq!(cancels[0].task_id, id);

        // What comes later counts for nothing.
        let late = Envelope::of(&result(&id, "late"), "ResearchAgent");
        silent.publish(&topic::agent_response(&asker.name), late).await;
        asker.tells_no_more_than(1).await;
    }
}

#[tokio::test]
async fn a_task_is_cancelled() {
    for [ours, theirs] in places().await {
        let broker = Broker::memory();
        let work = Work::endless();
        let _researcher =
            Setup::new(&broker, &theirs, "ResearchAgent").working(&work).start().await;
        let asker = Setup::new(&broker, &ours, "RockBot").start().await;
        let id = asker.ask("ResearchAgent", "for ever").await;
        eventually(PATIENCE, async || if work.count() == 1 { Ok(()) } else { Err(()) }).await;

        let owner = owner(&asker.name);
        assert_eq!(asker.tasks.cancel(&owner, &id).await.unwrap(), CancelAsked::Sent);
        let end = asker.end_of(&id).await;
        assert_eq!(end.what, TaskChange::Answered { state: 5, text: String::new() });
        assert_text!(end.text().replace(&id, "ID"), @r"
        [The task ID ('research') of agent 'ResearchAgent' was cancelled:]

        (no text)
        ");
        assert_eq!(asker.tasks.cancel(&owner, &id).await.unwrap(), CancelAsked::NotOpen);
        assert_eq!(asker.keeper.kept.lock().len(), 0);
        assert_eq!(work.at_a_time.load(Ordering::SeqCst), 0);
    }
}

/// Work that goes on whatever it is told is dropped.
#[tokio::test]
async fn a_task_that_does_not_stop_is_dropped() {
    let [ours, theirs] = places().await.remove(0);
    let broker = Broker::memory();
    let work = Work::new(|_, _| std::future::pending().boxed());
    let _researcher = Setup::new(&broker, &theirs, "ResearchAgent").working(&work).start().await;
    let asker = Setup::new(&broker, &ours, "RockBot").start().await;
    let id = asker.ask("ResearchAgent", "for ever").await;
    eventually(PATIENCE, async || if work.count() == 1 { Ok(()) } else { Err(()) }).await;
    asker.tasks.cancel(&owner(&asker.name), &id).await.unwrap();
    assert!(matches!(asker.end_of(&id).await.what, TaskChange::Answered { state: 5, .. }));
    assert_eq!(work.at_a_time.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_task_that_cannot_be_cancelled_goes_on_and_that_is_told() {
    for [ours, theirs] in places().await {
        let broker = Broker::memory();
        let (work, release) = Work::until_released("all the same");
        work.can_stop.store(false, Ordering::Relaxed);
        let _researcher =
            Setup::new(&broker, &theirs, "ResearchAgent").working(&work).start().await;
        let asker = Setup::new(&broker, &ours, "RockBot").start().await;
        let id = asker.ask("ResearchAgent", "x").await;
        eventually(PATIENCE, async || if work.count() == 1 { Ok(()) } else { Err(()) }).await;
        asker.tasks.cancel(&owner(&asker.name), &id).await.unwrap();

        let refused = eventually(PATIENCE, async || {
            let events = asker.listener.events.lock().clone();
            let is_refused =
                |change: &TaskChange| matches!(change, TaskChange::NotCancelled { .. });
            events.iter().find(|event| is_refused(&event.what)).cloned().ok_or(events)
        })
        .await;
        assert_text!(refused.text().replace(&id, "ID"),
            @"[The task ID ('research') of agent 'ResearchAgent' was not cancelled: Stateless agents do not support task cancellation. (task_not_cancelable)]");
        release.cancel();
        assert_eq!(asker.answer_to(&id).await, "all the same");
    }
}

/// The broker may hand out the cancel message first.
#[tokio::test]
async fn a_task_is_cancelled_before_it_comes() {
    for [ours, theirs] in places().await {
        let broker = Broker::memory();
        let work = Work::echo();
        let researcher = Setup::new(&broker, &theirs, "ResearchAgent").working(&work).start().await;
        let stranger = Stranger::hearing(&broker, "agent.response.#").await;
        let cancel = AgentTaskCancelRequest { task_id: "t1".to_owned(), context_id: None };
        let responses = topic::agent_response(&agent("Other"));
        let envelope = |envelope: Envelope| {
            envelope.with_reply_to(responses.clone()).with_correlation_id("t1")
        };
        let cancel = envelope(Envelope::of(&cancel, "Other"));
        stranger.publish(&topic::agent_task_cancel(&researcher.name), cancel).await;
        let errors = stranger.heard::<toolbus_wire::message::a2a::AgentTaskError>(1).await;
        assert_eq!(errors[0].code, AgentErrorCode::TaskNotFound);

        let request = AgentTaskRequest {
            task_id: "t1".to_owned(),
            context_id: None,
            skill: "research".to_owned(),
            message: AgentMessage::of_text("user", "x"),
        };
        let request = envelope(Envelope::of(&request, "Other"));
        stranger.publish(&topic::agent_task(&researcher.name), request).await;
        let results = stranger.heard::<AgentTaskResult>(1).await;
        assert_eq!(results[0].state, AgentTaskState::Canceled);
        assert_eq!(work.count(), 0);
        drop(ours);
    }
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_and_leaves_nothing() {
    for [ours, _] in places().await {
        let broker = Broker::memory();
        let _silent = Stranger::hearing(&broker, "agent.task.There").await;
        let config = A2aConfig { asked_max: 2, ..quick_config("RockBot") };
        let asker = Setup { config, ..Setup::new(&broker, &ours, "RockBot") }.start().await;
        let refused = async |task: NewTask| {
            asker.tasks.invoke(&scope(&asker.name), task).await.expect_err("it is refused")
        };
        assert_text!(refused(new_task("Nobody", "x")).await.to_string(),
            @"nothing was sent: no agent named 'Nobody' is there");
        assert_text!(refused(new_task("rockbot", "x")).await.to_string(),
            @"'rockbot' is this agent: it cannot give tasks to itself");
        assert_text!(refused(new_task("no.name", "x")).await.to_string(),
            @"'no.name' cannot be the name of an agent: a name has only letters and digits of ASCII, `_` and `-`");
        let deep = Scope { depth: DEPTH_MAX, ..scope(&asker.name) };
        let refused_deep = asker.tasks.invoke(&deep, new_task("There", "x")).await;
        assert!(matches!(refused_deep, Err(Error::TooDeep)));
        for message in ["", " ", &"x".repeat(MESSAGE_BYTES_MAX + 1)] {
            assert!(matches!(refused(new_task("There", message)).await, Error::Length { .. }));
        }
        for seconds in [0, 60 * 60 * 24 + 1] {
            let timeout = Some(Duration::from_secs(seconds));
            let error = refused(NewTask { timeout, ..new_task("There", "x") }).await;
            assert_eq!(error.to_string(), "a task may take from 1 to 1440 minutes");
        }
        assert_eq!(asker.count("SELECT COUNT(*) FROM a2a_asked").await, 0);

        asker.ask("There", "1").await;
        asker.ask("There", "2").await;
        assert_text!(refused(new_task("There", "3")).await.to_string(),
            @"nothing was sent: you have 2 tasks for other agents open, the most there may be. Wait for the results");
    }
}

#[tokio::test]
async fn a_result_waits_for_its_session() {
    for [ours, theirs] in places().await {
        let broker = Broker::memory();
        let _researcher =
            Setup::new(&broker, &theirs, "ResearchAgent").working(&Work::echo()).start().await;
        let asker = Setup::new(&broker, &ours, "RockBot").start().await;
        asker.listener.laters.store(2, Ordering::Relaxed);
        // Statuses are told besides, and do not count.
        let id = asker.ask("ResearchAgent", "x").await;
        assert_eq!(asker.answer_to(&id).await, "research: x");
        asker.tells_no_more_than(1).await;
    }
}
