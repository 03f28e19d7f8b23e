//! Who is known, and for how long.

use toolbus_a2a::{A2aConfig, CardError};
use toolbus_bus::Envelope;
use toolbus_search::{KnownServices, ServiceKind};
use toolbus_testkit::{eventually, quiet_for};
use toolbus_wire::message::a2a::{AgentCard, AgentSkill};
use toolbus_wire::topic;

use crate::support::*;

fn card(name: &str, description: &str) -> AgentCard {
    let description = Some(description.to_owned());
    AgentCard { agent_name: name.to_owned(), description, ..AgentCard::default() }
}

fn from(source: &str, card: &AgentCard) -> Envelope {
    Envelope::of(card, source)
}

fn names(host: &Host) -> Vec<String> {
    host.directory.list(None).into_iter().map(|known| known.card.agent_name).collect()
}

#[tokio::test]
async fn agents_know_each_other_and_say_goodbye() {
    for [ours, theirs] in places().await {
        let broker = Broker::memory();
        let one = Setup::new(&broker, &ours, "RockBot").start().await;
        let other = Setup::new(&broker, &theirs, "ResearchAgent").start().await;
        one.eventually_knows("RESEARCHAGENT").await;
        // It does not know itself: nobody gives tasks to themselves.
        assert_eq!(names(&one), ["ResearchAgent"]);
        assert_eq!(one.directory.list(Some("RESEARCH")).len(), 1);
        assert_eq!(one.directory.list(Some("cooking")).len(), 0);
        other.close().await;
        eventually(PATIENCE, async || if names(&one).is_empty() { Ok(()) } else { Err(()) }).await;
        eventually(PATIENCE, async || match one.count("SELECT COUNT(*) FROM a2a_agents").await {
            0 => Ok(()),
            rows => Err(rows),
        })
        .await;
    }
}

/// Whoever comes later need not wait for the next announcement.
#[tokio::test]
async fn who_comes_later_is_told_soon() {
    let [ours, theirs] = places().await.remove(0);
    let broker = Broker::memory();
    let _other = Setup::new(&broker, &theirs, "ResearchAgent").start().await;
    let announced = Stranger::hearing(&broker, "discovery.announce").await;
    let one = Setup::new(&broker, &ours, "RockBot").start().await;
    one.eventually_knows("ResearchAgent").await;
    // RockBot, ResearchAgent in turn, and RockBot since that was new to it; and then no more. The
    // first of ResearchAgent may have been heard.
    announced.heard::<AgentCard>(3).await;
    // Agents that announced themselves to each other for ever would do so at every pace. On a busy
    // machine one may announce itself once more.
    let pace = quick_config("RockBot").announce_pace;
    quiet_for(8 * pace, async || match announced.heard.lock().len() {
        0..=6 => Ok(()),
        heard => Err(heard),
    })
    .await;
}

#[tokio::test]
async fn the_last_announcement_counts_and_outlives_the_process() {
    for [ours, _] in places().await {
        let broker = Broker::memory();
        let setup = Setup::new(&broker, &ours, "RockBot");
        let host = setup.start().await;
        for (name, description) in [("Sales", "old"), ("SALES", "new"), ("Other", "x")] {
            host.directory.hear(&from(name, &card(name, description))).await.unwrap();
        }
        host.close().await;

        let host = setup.start().await;
        assert_eq!(names(&host), ["Other", "SALES"]);
        let known = host.directory.find("sales").unwrap();
        assert_eq!(known.card.description.as_deref(), Some("new"));
        assert!(known.seen_ms.is_some() && !known.is_well_known);

        host.sabotage("UPDATE a2a_agents SET seen_ms = seen_ms - 86400001 WHERE id = 'other'")
            .await;
        host.close().await;
        let host = setup.start().await;
        assert_eq!(names(&host), ["SALES"]);
    }
}

#[tokio::test]
async fn well_known_agents_stay() {
    for [ours, _] in places().await {
        let broker = Broker::memory();
        let well_known = vec![card("Sales", "of the settings"), card("no name", "x")];
        let config = A2aConfig { well_known, ..quick_config("RockBot") };
        let host = Setup { config, ..Setup::new(&broker, &ours, "RockBot") }.start().await;
        let sales = || host.directory.find("sales").unwrap();
        assert_eq!(names(&host), ["Sales"]);
        assert_eq!((sales().seen_ms, sales().is_well_known), (None, true));

        host.directory.hear(&from("Sales", &card("Sales", "live"))).await.unwrap();
        assert_eq!(sales().card.description.as_deref(), Some("live"));
        assert!(sales().seen_ms.is_some() && sales().is_well_known);

        let gone = AgentCard { is_deregistering: true, ..card("Sales", "live") };
        host.directory.hear(&from("Sales", &gone)).await.unwrap();
        assert_eq!(sales().card.description.as_deref(), Some("of the settings"));
        assert_eq!(sales().seen_ms, None);
    }
}

#[tokio::test]
async fn nobody_says_goodbye_for_another() {
    let [ours, _] = places().await.remove(0);
    let host = Setup::new(&Broker::memory(), &ours, "RockBot").start().await;
    // A job may announce an agent that is started by need.
    host.directory.hear(&from("unknown", &card("Sales", "x"))).await.unwrap();
    let gone = AgentCard { is_deregistering: true, ..card("Sales", "x") };
    let error = host.directory.hear(&from("unknown", &gone)).await.unwrap_err();
    assert_eq!(error.to_string(), "'unknown' says that 'Sales' has gone");
    assert_eq!(names(&host), ["Sales"]);
    host.directory.hear(&from("SALES", &gone)).await.unwrap();
    assert_eq!(names(&host), [""; 0]);
}

#[tokio::test]
async fn a_directory_is_bounded() {
    let [ours, _] = places().await.remove(0);
    let config = A2aConfig { agents_max: 2, ..quick_config("RockBot") };
    let host = Setup { config, ..Setup::new(&Broker::memory(), &ours, "RockBot") }.start().await;
    for name in ["a", "b"] {
        host.directory.hear(&from(name, &card(name, "x"))).await.unwrap();
    }
    let error = host.directory.hear(&from("c", &card("c", "x"))).await.unwrap_err();
    assert_eq!(error, CardError::Full);
    host.directory.hear(&from("a", &card("A", "y"))).await.unwrap();
    assert_eq!(names(&host), ["A", "b"]);
}

#[tokio::test]
async fn agents_are_services_that_are_found() {
    let [ours, _] = places().await.remove(0);
    let broker = Broker::memory();
    let host = Setup::new(&broker, &ours, "RockBot").start().await;
    let skill = AgentSkill {
        id: "generate-qbr-report".to_owned(),
        name: "Quarterly report".to_owned(),
        tags: Some(vec!["pipeline".to_owned()]),
        ..AgentSkill::default()
    };
    let sales = AgentCard {
        skills: Some(vec![skill]),
        ..card("SalesOpsAgent", "Autonomous agent for complex sales workflows")
    };
    let announced = Stranger::hearing(&broker, "nothing").await;
    announced.publish(&topic::DISCOVERY_ANNOUNCE, from("SalesOpsAgent", &sales)).await;
    host.eventually_knows("SalesOpsAgent").await;

    let services = host.directory.services();
    assert_eq!(services[0].kind, ServiceKind::Agent);
    assert_text!(KnownServices::new(services).snapshot().search("pipeline"), @r#"
    {
      "results": [
        {
          "id": "SalesOpsAgent",
          "type": "a2a",
          "summary": "Autonomous agent for complex sales workflows",
          "relevance_score": 1.0,
          "top_skills": [
            "generate-qbr-report"
          ]
        }
      ]
    }
    "#);
}
