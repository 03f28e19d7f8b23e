//! Keys and what they allow.

use serde_json::{Value, json};
use toolbus_http::tool_api::{client_ids, current_owner};
use toolbus_policy::{owner_text, parse_principal};
use toolbus_store::sqlx::{self, Row as _};
use toolbus_testkit::state::StatePlace;
use toolbus_vault::CredentialPlace;
use toolbus_wire::name::AgentName;

use crate::bench::{ADMIN, Bench, CLIENT, LIMIT, until};

#[tokio::test]
async fn cx_v3_a_key_is_shown_once_and_kept_as_a_digest() {
    for place in StatePlace::all().await {
        let bench = Bench::new(&place);
        for kind in ["live", "test", "dev"] {
            let issued = bench.key(json!({"name": kind, "kind": kind})).await;
            let key = issued["key"].as_str().unwrap().to_owned();
            assert!(key.starts_with(&format!("acx_{kind}_")) && key.len() > 50, "{key}");
            bench.get(&key, "/v1/tools").await.data();

            let listed = bench.get(ADMIN, "/v1/keys").await.data();
            let shown =
                listed["items"].as_array().unwrap().iter().find(|item| item["name"] == kind);
            assert_eq!(shown.unwrap()["key"], format!("{}…", &key[..8]));
            assert!(!listed.to_string().contains(&key));
            assert!(!listed.to_string().contains(issued["webhook_secret"].as_str().unwrap()));

            let rows = sqlx::query("SELECT digest, shown FROM http_keys WHERE name = $1")
                .bind(kind)
                .fetch_all(bench.store.open().await.unwrap().readers())
                .await
                .unwrap();
            let digest: String = rows[0].try_get("digest").unwrap();
            assert!(digest.len() == 64 && !digest.contains(&key[9..]));
        }
    }
}

/// A credential belongs to the key for which it was set. A later key with the same name gets
/// neither this credential nor one that an older program set for the name.
#[tokio::test]
async fn a_key_gets_no_credentials_of_an_earlier_key_of_its_name() {
    for place in StatePlace::all().await {
        let bench = Bench::new(&place);
        let opens = async |key: &Value| -> Value {
            let body = json!({"tool_name": "opens", "params": {}});
            let key = key["key"].as_str().unwrap();
            bench.post(key, "/v1/execute_tool", body).await.data()["result"].clone()
        };
        let owner = async || {
            let named = parse_principal("token:toolbus-keys/ci").unwrap();
            let owner = current_owner(&bench.store, &AgentName::standard(), named).await.unwrap();
            owner.map(|owner| owner_text(&owner))
        };
        assert_eq!(owner().await, None, "no key has the name");
        let first = bench.key(json!({"name": "ci"})).await;
        let id = first["id"].as_str().unwrap();
        assert_eq!(owner().await, Some(format!("token:toolbus-keys/ci#{id}")));

        let token = CredentialPlace::new("test", "TOKEN");
        let vault = bench.vault.as_ref().unwrap().open().await.unwrap();
        vault.put(token.clone().for_user("token:toolbus-keys/ci"), "of before").await.unwrap();
        vault.put(token.for_user(owner().await.unwrap()), "of the first").await.unwrap();
        until(async || opens(&first).await == "open").await;

        bench.delete(ADMIN, &format!("/v1/keys/{id}")).await.data();
        assert_eq!(owner().await, None, "the key is revoked");
        let second = bench.key(json!({"name": "ci"})).await;
        assert_eq!(opens(&second).await, "closed", "{}", place.location);
        let id = second["id"].as_str().unwrap();
        assert_eq!(owner().await, Some(format!("token:toolbus-keys/ci#{id}")));
        bench.api.drain(LIMIT).await;
    }
}

#[tokio::test]
async fn a_name_of_the_settings_is_the_client_that_has_it_now() {
    for place in StatePlace::all().await {
        let bench = Bench::new(&place);
        let agent = AgentName::standard();
        let owner = async |named: &str| {
            let named = parse_principal(named).unwrap();
            let owner = current_owner(&bench.store, &agent, named).await.unwrap();
            owner.map(|owner| owner_text(&owner))
        };
        let ids = async |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned());
            client_ids(&bench.store, &agent, names.collect::<Vec<_>>()).await.unwrap()
        };
        // The clients of the first start own the rows of their names from before ids.
        let alice = "token:http/alice";
        assert_eq!(owner(alice).await.as_deref(), Some(alice));
        ids(&["alice"]).await;
        assert_eq!(owner(alice).await.as_deref(), Some(alice));

        let bob = "token:http/bob";
        assert_eq!(owner(bob).await, None, "the agent has started without such a client");

        ids(&[]).await;
        assert_eq!(owner(alice).await, None, "the client was removed");
        let second = ids(&["alice"]).await;
        assert_eq!(owner(alice).await, Some(format!("{alice}#{}", second["alice"])));
        for other in ["local:local", "claimed:alice", "broker:alice", "token:idp/alice"] {
            assert_eq!(owner(other).await.as_deref(), Some(other));
        }
        bench.api.drain(LIMIT).await;
    }
}

#[tokio::test]
async fn cx_v4_without_a_valid_key_nothing_is_answered() {
    let bench = Bench::new(&StatePlace::sqlite());
    let answer = bench.get("", "/v1/tools").await.expect(401, "UNAUTHORIZED");
    assert_eq!(answer.headers["www-authenticate"], "Bearer");
    for token in ["acx_live_", "nonsense", "acx_live_of_nobody_at_all", "abc_live_1234567890"] {
        bench.get(token, "/v1/tools").await.expect(401, "INVALID_TOKEN");
    }
}

#[tokio::test]
async fn cx_v4_who_lacks_the_role_is_told_both() {
    let bench = Bench::new(&StatePlace::sqlite());
    let reader = bench.key(json!({"name": "reader", "role": "reader"})).await;
    let reader = reader["key"].as_str().unwrap();
    bench.get(reader, "/v1/tools").await.data();
    let body = json!({"tool_name": "echo", "params": {"text": "x"}});
    for path in ["/v1/execute_tool", "/v1/jobs"] {
        let answer = bench.post(reader, path, body.clone()).await.expect(403, "FORBIDDEN");
        let details = json!({"required": "executor", "current": "reader"});
        assert_eq!(answer.body["error"]["details"], details);
    }
    let answer = bench.get(CLIENT, "/v1/keys").await.expect(403, "FORBIDDEN");
    let details = json!({"required": "admin", "current": "executor"});
    assert_eq!(answer.body["error"]["details"], details);
    bench.post(CLIENT, "/v1/keys", json!({"name": "x"})).await.expect(403, "FORBIDDEN");
    bench.delete(CLIENT, "/v1/keys/x").await.expect(403, "FORBIDDEN");
    assert_eq!(bench.secrets_read(), 0);
}

#[tokio::test]
async fn a_revoked_key_is_of_no_use_anywhere() {
    for place in StatePlace::all().await {
        let (bench, other) = (Bench::new(&place), Bench::new(&place));
        let issued = bench.key(json!({"name": "shared"})).await;
        let (key, id) = (issued["key"].as_str().unwrap(), issued["id"].as_str().unwrap());
        other.get(key, "/v1/tools").await.data();

        bench
            .post(ADMIN, "/v1/keys", json!({"name": "shared"}))
            .await
            .expect(400, "INVALID_REQUEST");
        let revoked = bench.delete(ADMIN, &format!("/v1/keys/{id}")).await.data();
        assert!(revoked["revoked_at"].as_str().is_some_and(|time| time.ends_with('Z')));
        bench.get(key, "/v1/tools").await.expect(401, "INVALID_TOKEN");
        other.get(key, "/v1/tools").await.expect(401, "INVALID_TOKEN");
        bench.delete(ADMIN, "/v1/keys/nothing").await.expect(404, "INVALID_REQUEST");
        // The name is free again.
        bench.key(json!({"name": "shared"})).await;
    }
}

#[tokio::test]
async fn a_key_expires() {
    for place in StatePlace::all().await {
        let bench = Bench::new(&place);
        let issued = bench.key(json!({"name": "short", "expires_in": 1})).await;
        let key = issued["key"].as_str().unwrap();
        assert!(issued["details"]["expires_at"].is_string());
        until(async || bench.get(key, "/v1/tools").await.status == 401).await;
        bench.key(json!({"name": "short"})).await;
    }
}

#[tokio::test]
async fn every_problem_of_a_key_is_told() {
    let bench = Bench::new(&StatePlace::sqlite());
    let body = json!({"name": "a b", "kind": "x", "role": "god", "plan": "gold", "expires_in": 0});
    let answer = bench.post(ADMIN, "/v1/keys", body).await.expect(400, "INVALID_REQUEST");
    let problems = answer.body["error"]["details"]["problems"].as_array().unwrap().len();
    assert_eq!(problems, 5);
    bench.post(ADMIN, "/v1/keys", json!({})).await.expect(400, "MISSING_REQUIRED_FIELD");
}
