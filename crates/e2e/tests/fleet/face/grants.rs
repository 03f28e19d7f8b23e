//! A face before workers that demand grants: everything that a client may do still works.

use super::*;

/// As the agents and the workers of one fleet have it.
const KEY: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

#[tokio::test]
async fn clients_do_what_they_did_before_workers_demand_grants() {
    // `required` is for the bridge; the agent has no such setting, and warns of it.
    let so = |launch: Launch| {
        launch.env("TOOLBUS_GRANTS__KEY", KEY).env("TOOLBUS_GRANTS__REQUIRED", "true")
    };
    let Some((host, servers)) = Host::with_asker_in(json!({}), so).await else { return };

    for (era, _) in ERAS {
        let mut ask = host.call("/asker", "ask", json!({}));
        ask["answers"] = json!({"form": {"name": "Ada"}, "word": "ok", "roots": []});
        let argument = json!({"name": "city", "value": "Ber"});
        let complete = json!({"do": "complete", "prompt": "travel", "argument": argument,
            "decided": {}});
        let everything = ["note://1", "prompts", "resources", "tools"];
        let hear = json!({"do": "hear", "uri": "note://1", "tools": ["touch", "grow"],
            "expected": everything});
        let [told, completed, heard] =
            host.does(era, [ask, host.step("/asker", complete), host.step("/asker", hear)]).await;

        assert_eq!(told["content"], json!([{"type": "text", "text": "Ada: ok"}]), "{told}");
        assert_eq!(completed["completion"]["values"], json!(["Berlin", "Bern"]), "{completed}");
        assert_eq!(heard, json!(everything), "{era}");
    }
    let one = ["form accept", "word ok", "subscribe note://1", "unsubscribe note://1"];
    servers.wait_for_marks(&[one, one].concat()).await;
}
