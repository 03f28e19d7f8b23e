//! What clients of the face hear unasked, and what they are proposed, over a broker.

use super::*;

/// What a client has heard that waits for these.
fn hear(host: &Host, tools: &[&str], expected: &[&str]) -> Value {
    let what = json!({"do": "hear", "uri": "note://1", "tools": tools, "expected": expected});
    host.step("/asker", what)
}

#[tokio::test]
async fn arguments_are_completed_where_a_server_does_that() {
    let Some((host, _servers)) = Host::with_asker(json!({})).await else { return };
    let complete = |path: &str, prompt: &str, decided: Value| {
        let argument = json!({"name": "city", "value": "Ber"});
        let what =
            json!({"do": "complete", "prompt": prompt, "argument": argument, "decided": decided});
        host.step(path, what)
    };

    for (era, _) in ERAS {
        let [both, one, none, own] = host
            .does(
                era,
                [
                    complete("/asker", "travel", json!({})),
                    complete("/asker", "travel", json!({"not": "Bern"})),
                    complete("/asker", "other", json!({})),
                    complete("", "travel", json!({})),
                ],
            )
            .await;
        let proposed = |values: Value| {
            let total = values.as_array().unwrap().len();
            json!({"values": values, "total": total, "hasMore": false})
        };
        assert_eq!(both["completion"], proposed(json!(["Berlin", "Bern"])), "{both}");
        assert_eq!(one["completion"], proposed(json!(["Berlin"])), "{one}");
        assert_eq!(none["completion"], proposed(json!([])), "{none}");
        assert_eq!(own, -32601);
    }
}

#[tokio::test]
async fn changes_reach_clients_of_both_eras_and_nothing_stays_subscribed() {
    let Some((host, servers)) = Host::with_asker(json!({})).await else { return };
    let everything = ["note://1", "prompts", "resources", "tools"];
    for (era, _) in ERAS {
        let [heard] = host.does(era, [hear(&host, &["touch", "grow"], &everything)]).await;
        assert_eq!(heard, json!(everything), "{era}");
    }
    // The clients of both eras went without a word.
    let one = ["subscribe note://1", "unsubscribe note://1"];
    servers.wait_for_marks(&[one, one].concat()).await;
}

#[tokio::test]
async fn a_subscription_outlives_its_bridge_and_says_that_something_may_be_missed() {
    let Some((mut host, servers)) = Host::with_asker(json!({})).await else { return };
    let folder = TempDir::new().unwrap();
    let mut step = hear(&host, &[], &["note://1"]);
    let file = folder.path().join("holds");
    step["file"] = json!(file);
    let (mut bridge, vhost) = host.fleet.take().unwrap();
    let bus = vhost.amqp_url();
    let again = async {
        toolbus_testkit::eventually(LIMIT, async || {
            anyhow::ensure!(file.exists(), "the subscription does not hold yet");
            Ok(())
        })
        .await;
        bridge.process().kill();
        crate::support::bridge(&bus, &servers).await
    };

    let ([heard], _bridge) = tokio::join!(host.does("auto", [step]), again);
    assert_eq!(heard, json!(["note://1"]));
    let expected = ["subscribe note://1", "subscribe note://1", "unsubscribe note://1"];
    servers.wait_for_marks(&expected).await;
}
