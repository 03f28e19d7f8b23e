//! Jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use toolbus_http::tool_api::{JobConfig, ToolApiConfig};
use toolbus_store::sqlx;
use toolbus_testkit::state::StatePlace;
use toolbus_wire::name::AgentName;
use tower::ServiceExt as _;

use crate::bench::{ADMIN, Bench, CLIENT, LIMIT, config, request, until};

fn one_at_a_time() -> ToolApiConfig {
    let jobs = JobConfig { running_max: 1, open_max: 3, ..JobConfig::default() };
    ToolApiConfig { jobs, ..config() }
}

/// Queues a job, and gives its path.
async fn queue(bench: &Bench, body: Value) -> String {
    let answer = bench.post(CLIENT, "/v1/jobs", body).await;
    assert_eq!(answer.status, 202, "{answer:#?}");
    let data = answer.data();
    assert_eq!(data["status"], "queued");
    format!("/v1/jobs/{}", data["job_id"].as_str().unwrap())
}

async fn until_is(bench: &Bench, path: &str, status: &str) -> Value {
    until(async || bench.get(CLIENT, path).await.data()["status"] == status).await;
    bench.get(CLIENT, path).await.data()
}

#[tokio::test]
async fn cx_e10_a_job_runs_and_is_completed() {
    for place in StatePlace::all().await {
        let bench = Bench::new(&place);
        let path = queue(&bench, json!({"tool_name": "echo", "params": {"text": "later"}})).await;
        let job = until_is(&bench, &path, "completed").await;
        assert_eq!(job["result"]["result"], "later");
        assert_eq!(job["result"]["status"], "success");
        for time in ["created_at", "started_at", "ended_at"] {
            assert!(job[time].as_str().is_some_and(|time| time.ends_with('Z')), "{job:#?}");
        }

        let body = json!({"tool_name": "fail", "async": true});
        let answer = bench.post(CLIENT, "/v1/execute_tool", body).await;
        assert_eq!(answer.status, 202);
        let path = format!("/v1/jobs/{}", answer.data()["job_id"].as_str().unwrap());
        let job = until_is(&bench, &path, "failed").await;
        assert_eq!(job["error"]["code"], "EXECUTION_ERROR");

        let path = queue(&bench, json!({"tool_name": "sleep", "timeout": 1_000})).await;
        let job = until_is(&bench, &path, "timeout").await;
        assert_eq!(job["error"]["code"], "EXECUTION_TIMEOUT");
        // What does not exist is told at once.
        let answer = bench.post(CLIENT, "/v1/jobs", json!({"tool_name": "nothing"})).await;
        answer.expect(404, "TOOL_NOT_FOUND");
        bench.api.drain(LIMIT).await;
    }
}

#[tokio::test]
async fn cx_e10_only_a_queued_job_can_be_cancelled_and_by_its_owner_alone() {
    for place in StatePlace::all().await {
        let bench = Bench::with(&place, one_at_a_time(), None);
        let running = queue(&bench, json!({"tool_name": "wait"})).await;
        until_is(&bench, &running, "running").await;
        let queued = queue(&bench, json!({"tool_name": "wait"})).await;
        let other = queue(&bench, json!({"tool_name": "wait"})).await;
        let full = bench.post(CLIENT, "/v1/jobs", json!({"tool_name": "wait"})).await;
        full.expect(429, "RATE_LIMITED");

        bench.get(ADMIN, &queued).await.expect(404, "JOB_NOT_FOUND");
        bench.delete(ADMIN, &queued).await.expect(404, "JOB_NOT_FOUND");
        let events = format!("{queued}/events");
        bench.get(ADMIN, &events).await.expect(404, "JOB_NOT_FOUND");
        let answer = bench.delete(CLIENT, &running).await.expect(400, "INVALID_REQUEST");
        assert_eq!(answer.body["error"]["details"]["status"], "running");
        assert_eq!(bench.delete(CLIENT, &queued).await.data()["status"], "canceled");
        let cancel = format!("{other}/cancel");
        assert_eq!(bench.post(CLIENT, &cancel, json!({})).await.data()["status"], "canceled");
        bench.delete(CLIENT, &queued).await.expect(400, "INVALID_REQUEST");

        bench.gate.add_permits(3);
        let job = until_is(&bench, &running, "completed").await;
        assert_eq!(job["result"]["result"], "waited");
        assert_eq!(bench.get(CLIENT, &queued).await.data()["status"], "canceled");
        bench.api.drain(LIMIT).await;
        assert_eq!(bench.gate.available_permits(), 2, "a cancelled job has run");
    }
}

#[tokio::test]
async fn a_job_whose_process_is_gone_has_failed() {
    for place in StatePlace::all().await {
        let bench = Bench::with(&place, one_at_a_time(), None);
        let path = queue(&bench, json!({"tool_name": "wait"})).await;
        until_is(&bench, &path, "running").await;
        let store = bench.store.open().await.unwrap();
        store
            .write(|transaction| {
                Box::pin(async move {
                    sqlx::query("UPDATE http_jobs SET holder = 'gone', lease_ms = 1")
                        .execute(transaction.connection())
                        .await?;
                    Ok(())
                })
            })
            .await
            .unwrap();

        let job = until_is(&bench, &path, "failed").await;
        let reason = job["error"]["message"].as_str().unwrap();
        assert!(reason.contains("process"), "{reason}");
        // It has come to its end, whatever this process still does.
        bench.gate.add_permits(1);
        bench.api.drain(LIMIT).await;
        assert_eq!(bench.get(CLIENT, &path).await.data()["status"], "failed");
    }
}

#[tokio::test]
async fn jobs_that_wait_are_run_after_a_restart() {
    for place in StatePlace::all().await {
        let bench = Bench::with(&place, one_at_a_time(), None);
        let running = queue(&bench, json!({"tool_name": "wait"})).await;
        until_is(&bench, &running, "running").await;
        let path = queue(&bench, json!({"tool_name": "echo", "params": {"text": "kept"}})).await;
        bench.api.drain(Duration::ZERO).await;
        assert_eq!(bench.get(CLIENT, &running).await.data()["status"], "failed");
        assert_eq!(bench.get(CLIENT, &path).await.data()["status"], "queued");

        let again = Bench::new(&place);
        let job = until_is(&again, &path, "completed").await;
        assert_eq!(job["result"]["result"], "kept");
        again.api.drain(LIMIT).await;
    }
}

#[tokio::test]
async fn a_job_of_a_revoked_key_is_not_run() {
    let bench = Bench::with(&StatePlace::sqlite(), one_at_a_time(), None);
    let running = queue(&bench, json!({"tool_name": "wait"})).await;
    until_is(&bench, &running, "running").await;
    let issued = bench.key(json!({"name": "short"})).await;
    let (key, id) = (issued["key"].as_str().unwrap(), issued["id"].as_str().unwrap());
    let body = json!({"tool_name": "echo", "params": {"text": "x"}});
    bench.post(key, "/v1/jobs", body).await.data();
    bench.delete(ADMIN, &format!("/v1/keys/{id}")).await.data();
    let read = bench.secrets_read();

    bench.gate.add_permits(1);
    until(async || {
        let store = bench.store.open().await.unwrap();
        let states = sqlx::query_scalar("SELECT state FROM http_jobs WHERE owner LIKE '%short#%'");
        let states: Vec<String> = states.fetch_all(store.readers()).await.unwrap();
        states == ["failed"]
    })
    .await;
    assert_eq!(bench.secrets_read(), read);
    bench.api.drain(LIMIT).await;
}

/// A key of a name that another had is another owner: it sees none of the jobs, and none of them
/// runs with its rights.
#[tokio::test]
async fn who_gets_a_name_again_owns_nothing_of_the_one_before() {
    for place in StatePlace::all().await {
        let bench = Bench::with(&place, one_at_a_time(), None);
        let running = queue(&bench, json!({"tool_name": "wait"})).await;
        until_is(&bench, &running, "running").await;
        let first = bench.key(json!({"name": "ci"})).await;
        let (key, id) = (first["key"].as_str().unwrap(), first["id"].as_str().unwrap());
        let body = json!({"tool_name": "echo", "params": {"text": "x"}});
        let queued = bench.post(key, "/v1/jobs", body).await.data();
        let path = format!("/v1/jobs/{}", queued["job_id"].as_str().unwrap());
        bench.delete(ADMIN, &format!("/v1/keys/{id}")).await.data();
        let second = bench.key(json!({"name": "ci"})).await;
        let key = second["key"].as_str().unwrap();
        assert_ne!(second["id"], first["id"]);
        let read = bench.secrets_read();

        assert_eq!(bench.get(key, &path).await.status, 404);
        assert_eq!(bench.delete(key, &path).await.status, 404);
        bench.gate.add_permits(1);
        until(async || {
            let store = bench.store.open().await.unwrap();
            let states = "SELECT state FROM http_jobs WHERE owner LIKE '%/ci#%'";
            let states: Vec<String> =
                sqlx::query_scalar(states).fetch_all(store.readers()).await.unwrap();
            states == ["failed"]
        })
        .await;
        assert_eq!(bench.secrets_read(), read, "nothing ran");
        bench.api.drain(LIMIT).await;
    }
}

/// A key that was issued before owners had ids has the jobs of its name. The next key with the name
/// has none of them.
#[tokio::test]
async fn a_key_from_before_ids_owns_by_name_until_revoked() {
    for place in StatePlace::all().await {
        let bench = Bench::with(&place, one_at_a_time(), None);
        let first = bench.key(json!({"name": "ci"})).await;
        let (key, id) = (first["key"].as_str().unwrap(), first["id"].as_str().unwrap());
        let store = bench.store.open().await.unwrap();
        let as_before = store.write(|transaction| {
            Box::pin(async move {
                let text = "UPDATE http_keys SET owns_by_name = 1";
                sqlx::query(text).execute(transaction.connection()).await?;
                Ok(())
            })
        });
        as_before.await.unwrap();

        let submit = async || {
            let body = json!({"tool_name": "echo", "params": {"text": "x"}});
            let job = bench.post(key, "/v1/jobs", body).await.data();
            format!("/v1/jobs/{}", job["job_id"].as_str().unwrap())
        };
        let states = async || -> Vec<String> {
            let states = "SELECT state FROM http_jobs WHERE owner = 'token:toolbus-keys/ci'
                          ORDER BY state";
            sqlx::query_scalar(states).fetch_all(store.readers()).await.unwrap()
        };
        let done = submit().await;
        until(async || states().await == ["completed"]).await;
        assert_eq!(bench.get(key, &done).await.data()["status"], "completed");

        let running = queue(&bench, json!({"tool_name": "wait"})).await;
        until_is(&bench, &running, "running").await;
        let queued = submit().await;
        bench.delete(ADMIN, &format!("/v1/keys/{id}")).await.data();
        let second = bench.key(json!({"name": "ci"})).await;
        for path in [&done, &queued] {
            let answer = bench.get(second["key"].as_str().unwrap(), path).await;
            assert_eq!(answer.status, 404);
        }

        bench.gate.add_permits(1);
        until(async || states().await == ["completed", "failed"]).await;
        bench.api.drain(LIMIT).await;
    }
}

/// Jobs of a client that settings name no more are not run.
#[tokio::test]
async fn a_job_of_a_removed_client_is_not_run() {
    for place in StatePlace::all().await {
        let bench = Bench::with(&place, one_at_a_time(), None);
        let running = queue(&bench, json!({"tool_name": "wait"})).await;
        until_is(&bench, &running, "running").await;
        let path = queue(&bench, json!({"tool_name": "echo", "params": {"text": "x"}})).await;
        bench.api.drain(Duration::ZERO).await;

        let without = Bench::with_clients(&place, &[("root", ADMIN)]);
        until(async || {
            let store = without.store.open().await.unwrap();
            let outcomes =
                "SELECT outcome FROM http_jobs WHERE outcome LIKE '%no client any more%'";
            let outcomes: Vec<String> =
                sqlx::query_scalar(outcomes).fetch_all(store.readers()).await.unwrap();
            outcomes.len() == 1
        })
        .await;
        assert_eq!(without.get(CLIENT, &path).await.status, 401);
        assert_eq!(without.secrets_read(), 0);
        without.api.drain(LIMIT).await;
    }
}

#[tokio::test]
async fn ids_of_clients_are_never_given_again() {
    for place in StatePlace::all().await {
        let bench = Bench::new(&place);
        let ids = async |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            let agent = AgentName::standard();
            toolbus_http::tool_api::client_ids(&bench.store, &agent, names).await.unwrap()
        };
        // The clients of the first start own the rows of their names from before ids.
        for names in [["alice", "bob"], ["bob", "alice"]] {
            assert_eq!(ids(&names).await, BTreeMap::new());
        }
        assert_eq!(ids(&["bob"]).await, BTreeMap::new());
        let second = ids(&["alice", "bob"]).await;
        assert_eq!(second.keys().collect::<Vec<_>>(), ["alice"], "another alice, the same bob");
        assert_eq!(ids(&["bob", "alice"]).await, second, "a restart changes nothing");

        ids(&["bob"]).await;
        let third = ids(&["alice", "bob"]).await;
        assert_eq!(third.len(), 1);
        assert_ne!(third["alice"], second["alice"], "another alice");
        bench.api.drain(LIMIT).await;
    }
}

/// Rows with the name of a later client may belong to a client that was removed long before.
#[tokio::test]
async fn only_clients_of_the_first_start_own_by_name() {
    for place in StatePlace::all().await {
        let bench = Bench::new(&place);
        let ids = async |agent: &str, names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            let agent = AgentName::parse(agent).unwrap();
            toolbus_http::tool_api::client_ids(&bench.store, &agent, names).await.unwrap()
        };
        assert_eq!(ids("First", &["alice", "bob"]).await, BTreeMap::new());
        let later = ids("First", &["alice", "bob", "carol"]).await;
        assert_eq!(later.keys().collect::<Vec<_>>(), ["carol"]);

        // An agent may have no clients at its first start.
        assert_eq!(ids("Second", &[]).await, BTreeMap::new());
        assert_eq!(ids("Second", &[]).await, BTreeMap::new());
        assert_eq!(ids("Second", &["alice"]).await.len(), 1);
        bench.api.drain(LIMIT).await;
    }
}

#[tokio::test]
async fn a_client_can_follow_a_job() {
    let bench = Bench::new(&StatePlace::sqlite());
    let path = queue(&bench, json!({"tool_name": "wait"})).await;
    let following = request("GET", CLIENT, &format!("{path}/events")).body(Body::empty()).unwrap();
    let response = bench.router.clone().oneshot(following).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert!(response.headers().contains_key("x-ratelimit-limit"));

    let mut body = response.into_body().into_data_stream();
    let mut text = String::new();
    let reading = async {
        while let Some(chunk) = body.next().await {
            text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
            if text.contains("event: progress") {
                bench.gate.add_permits(1);
            }
        }
    };
    tokio::time::timeout(LIMIT, reading).await.unwrap();
    assert!(text.contains(r#""message":"half""#), "{text}");
    assert!(text.contains(r#""status":"running""#), "{text}");
    assert!(text.trim_end().rsplit("event: ").next().unwrap().contains("completed"), "{text}");
    bench.api.drain(LIMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_cancelled_while_it_begins_has_one_end() {
    for place in StatePlace::all().await {
        let bench = Bench::new(&place);
        let mut paths = Vec::new();
        for _ in 0..20 {
            let body = json!({"tool_name": "echo", "params": {"text": "x"}});
            paths.push(queue(&bench, body).await);
            let path = &paths[paths.len() - 1];
            let answer = bench.delete(CLIENT, path).await;
            assert!(matches!(answer.status.as_u16(), 200 | 400), "{answer:#?}");
        }

        let mut completed = 0;
        for path in &paths {
            until(async || !bench.get(CLIENT, path).await.data()["ended_at"].is_null()).await;
            let job = bench.get(CLIENT, path).await.data();
            let has_result = !job["result"].is_null();
            assert_eq!(job["status"] == "completed", has_result, "{job:#?}");
            assert!(has_result || job["status"] == "canceled", "{job:#?}");
            completed += usize::from(has_result);
        }
        bench.api.drain(LIMIT).await;
        assert_eq!(bench.secrets_read(), completed, "a cancelled job has run");
    }
}
