//! What turns inherit from the work that began them, also in another process.

use std::sync::Arc;

use serde_json::json;
use toolbus_agent::{Event, Notice, Noticed, SessionRef, TurnContext, TurnEnd};
use toolbus_bus::Asker;
use toolbus_models::ToolResult;
use toolbus_policy::SessionOwner;
use toolbus_tools::budget::BudgetLimits;
use toolbus_tools::id::{SessionId, ToolId};
use toolbus_tools::scope::DoorSet;
use toolbus_tools::{Budget, Door, Lineage, Principal, Scope, View};
use toolbus_wire::name::AgentName;

use crate::support::{Answer, Bench, scope};

fn context(scope: &Arc<Scope>) -> TurnContext<'static> {
    TurnContext { scope: Arc::clone(scope), asker: Asker::none(), on_event: &|_| {} }
}

/// A scope that came in by MCP, with a budget and a narrow view.
fn narrow(session: &str, limits: BudgetLimits) -> Arc<Scope> {
    let scope = Scope::clone(&scope(session))
        .through(DoorSet::of(&[Door::Mcp]))
        .with_budget(Budget::limited(limits))
        .with_view(View::all().only(["test/inherited", "test/look", "test/never"]));
    Arc::new(scope)
}

async fn restore(bench: &Bench, scope: &Scope) -> Scope {
    let owner = SessionOwner::of(scope).unwrap();
    bench.agent.restore_scope(&Lineage::of(scope), owner).await.unwrap()
}

/// The lineage that the tool `inherited` saw last.
async fn inherited(bench: &Bench) -> Lineage {
    let events = bench.events_of_all().await.into_iter().rev();
    let mut lineages = events.filter_map(|event| match event {
        Event::CallEnded { result, .. } => serde_json::from_str(&result.text).ok(),
        _ => None,
    });
    lineages.next().expect("it was called")
}

fn calls(calls: u64) -> BudgetLimits {
    BudgetLimits { calls: Some(calls), ..BudgetLimits::default() }
}

/// A turn that another process resumes goes on in the scope that it was begun in, whoever speaks in
/// the session next and by whichever door.
#[tokio::test]
async fn an_interrupted_turn_goes_on_with_what_it_inherited() {
    for bench in Bench::all().await {
        bench.script.add([Answer::Calls(vec![("1", "never", json!({}))])]);
        let begun = narrow("session/a", calls(5));
        tokio::select! {
            report = bench.agent.say(context(&begun), "hello".to_owned()) => panic!("{report:?}"),
            () = bench.eventually_called(1) => {}
        }

        // Another process of an operator who may do everything, in the same session.
        let next = bench.again();
        next.script.add([Answer::Calls(vec![("2", "inherited", json!({}))])]);
        let wide = scope("session/a");
        tokio::select! {
            report = next.agent.say(context(&wide), "go on".to_owned()) => panic!("{report:?}"),
            () = next.eventually_called(2) => {}
        }
        let ended = ToolResult::success("1", "at last");
        let last = next.again();
        last.script.add([Answer::Calls(vec![("2", "inherited", json!({}))]), Answer::Says("done")]);
        last.record("session/a", Event::CallEnded { result: ended, timed_out: false }).await;
        let report = last.agent.resume(context(&wide)).await.unwrap().unwrap();
        assert_eq!(report.end, TurnEnd::Answered { text: "done".to_owned(), limit: None });

        let lineage = inherited(&last).await;
        assert_eq!(lineage.run(), begun.run.as_str());
        assert_eq!(lineage.doors(), DoorSet::of(&[Door::Mcp, Door::Turn]));
        let offered = last.script.asked.lock()[0].tools.tools().len();
        assert_eq!(offered, 3, "it sees what the one saw that began it");
    }
}

/// Rules for turns apply to a turn by whatever door its scope came in, such as that of a task of
/// another agent or of a subagent of an MCP client.
#[tokio::test]
async fn every_turn_comes_through_the_door_of_turns() {
    for bench in Bench::all().await {
        let agent = AgentName::standard();
        let session = Some(SessionId::parse("session/mcp").unwrap());
        let by_client = Scope::new(Door::Mcp, Principal::local(), agent.clone());
        let by_client = Arc::new(by_client.with_session(session));
        let call = Answer::Calls(vec![("1", "inherited", json!({}))]);
        bench.script.add([call, Answer::Says("done")]);
        bench.agent.say(context(&by_client), "hello".to_owned()).await.unwrap();
        assert_eq!(inherited(&bench).await.doors().to_string(), "mcp,turn");

        // Budgets for turns apply to the run of such a turn, too.
        let session = SessionId::parse("a2a/task").unwrap();
        let principal = Principal::local();
        let of_task = bench.agent.turn_scope(&[Door::Bus], &agent, principal, session);
        let of_task = of_task.with_earlier_doors(DoorSet::of(&[Door::Http]));
        assert_eq!((of_task.door, &*of_task.doors.to_string()), (Door::Bus, "http,bus,turn"));
        let lineage = Lineage::of(&by_client);
        let owner = SessionOwner::of(&by_client).unwrap();
        let scheduled = bench.agent.begin_scope(&lineage, Door::Schedule, owner).unwrap();
        assert_eq!(scheduled.doors.to_string(), "mcp,schedule,turn");
    }
}

/// Work of one run may have come through different doors: who resumes a turn of the same run has
/// the doors and the view that it was begun with, not its own.
#[tokio::test]
async fn an_interrupted_turn_keeps_its_doors_within_its_run() {
    for bench in Bench::all().await {
        let narrow = narrow("session/a", calls(5));
        let chained = Scope::clone(&narrow).through(DoorSet::of(&[Door::Chain]));
        let chained =
            Arc::new(chained.with_view(View::all().only(["test/inherited", "test/never"])));
        assert_eq!(chained.run, narrow.run);
        bench.script.add([Answer::Calls(vec![("1", "never", json!({}))])]);
        tokio::select! {
            report = bench.agent.say(context(&chained), "hello".to_owned()) => {
                panic!("{report:?}")
            }
            () = bench.eventually_called(1) => {}
        }

        let next = bench.again();
        let ended = ToolResult::success("1", "at last");
        next.script.add([Answer::Calls(vec![("2", "inherited", json!({}))]), Answer::Says("done")]);
        next.record("session/a", Event::CallEnded { result: ended, timed_out: false }).await;
        next.agent.resume(context(&narrow)).await.unwrap().unwrap();
        let lineage = inherited(&next).await;
        assert!(lineage.doors().contains(Door::Chain), "{:?}", lineage.doors());
    }
}

/// Everything that a run has begun spends of one account, in each process that works for it.
#[tokio::test]
async fn a_run_has_one_budget_in_every_process() {
    for bench in Bench::all().await {
        let begun = narrow("session/a", calls(3));
        bench.script.add([Answer::Calls(vec![("1", "look", json!({}))]), Answer::Says("one")]);
        bench.agent.say(context(&begun), "hello".to_owned()).await.unwrap();
        // As a row has it that was written before the turn had called anything.
        let early = Lineage::of(&narrow("session/a", calls(3)));
        assert_ne!(early.run(), begun.run.as_str());

        let next = bench.again();
        let restored = Arc::new(restore(&next, &begun).await);
        assert_eq!(restored.budget.usage().calls, 1);
        next.script.add([
            Answer::Calls(vec![("1", "look", json!({})), ("2", "look", json!({}))]),
            Answer::Calls(vec![("3", "look", json!({}))]),
            Answer::Says("two"),
        ]);
        next.agent.say(context(&restored), "again".to_owned()).await.unwrap();
        assert_eq!(*next.looked.lock(), 3, "the fourth was refused");
        assert_eq!(restore(&next.again(), &begun).await.budget.usage().calls, 3);
    }
}

/// The lineage of a row is older than what was spent since: the row of the run says how much.
#[tokio::test]
async fn what_was_spent_since_a_lineage_was_written_counts() {
    for bench in Bench::all().await {
        let begun = narrow("session/a", calls(3));
        let written = Lineage::of(&begun);
        bench.script.add([
            Answer::Calls(vec![("1", "look", json!({})), ("2", "look", json!({}))]),
            Answer::Says("one"),
        ]);
        bench.agent.say(context(&begun), "hello".to_owned()).await.unwrap();
        let next = bench.again();
        let owner = SessionOwner::of(&begun).unwrap();
        let [one, two] = [owner.clone(), owner];
        let one = next.agent.restore_scope(&written, one).await.unwrap();
        let two = next.agent.restore_scope(&written, two).await.unwrap();
        one.budget.charge_call().unwrap();
        assert!(two.budget.charge_call().is_err(), "both spend of one account");
    }
}

/// Who goes on with a turn that was interrupted has no budget anew.
#[tokio::test]
async fn what_an_interrupted_turn_has_spent_counts() {
    for bench in Bench::all().await {
        let begun = narrow("session/a", calls(3));
        let written = Lineage::of(&begun);
        bench.script.add([
            Answer::Calls(vec![("1", "look", json!({})), ("2", "look", json!({}))]),
            Answer::Calls(vec![("3", "never", json!({}))]),
        ]);
        tokio::select! {
            report = bench.agent.say(context(&begun), "hello".to_owned()) => panic!("{report:?}"),
            () = bench.eventually_called(1) => {}
        }

        let owner = SessionOwner::of(&begun).unwrap();
        let restored = bench.again().agent.restore_scope(&written, owner).await.unwrap();
        assert_eq!(restored.budget.usage().calls, 2, "those before its last step");
    }
}

/// However many notices there are, a run begins so many turns for them; what comes after that is
/// told in the next turn.
#[tokio::test]
async fn notices_begin_so_many_turns_of_a_run() {
    for bench in Bench::all().await {
        let scope = narrow("session/a", BudgetLimits::default());
        let lineage = Lineage::of(&scope);
        let mut begun = 0;
        for process in [&bench, &bench.again()] {
            while process.agent.may_begin_notice_turn(&lineage).await.unwrap() {
                begun += 1;
                assert!(begun <= 100, "there is an end");
            }
        }
        assert_eq!(begun, 100);
        let other = Lineage::of(&narrow("session/a", BudgetLimits::default()));
        assert!(bench.agent.may_begin_notice_turn(&other).await.unwrap(), "another run may");

        let notice = |id: &str| Notice::new(id, "agent B", &format!("[{id} is done]"));
        let at = SessionRef::of(&scope).unwrap();
        bench.agent.note(&at, notice("late")).await.unwrap();
        bench.script.add([Answer::Says("well"), Answer::Says("well")]);
        let told = bench.agent.notify(context(&scope), notice("next")).await.unwrap();
        assert!(matches!(told, Noticed::Turn(_)));
        let request = format!("{:?}", bench.script.asked.lock()[0].messages);
        assert!(request.contains("[late is done]") && request.contains("[next is done]"));
    }
}

/// A run of its own keeps doors and view, and not the budget.
#[tokio::test]
async fn work_that_is_a_run_of_its_own_keeps_doors_and_view() {
    let bench = Bench::sqlite();
    let begun = narrow("session/a", calls(0));
    let owner = SessionOwner::of(&begun).unwrap();
    let own = bench.agent.begin_scope(&Lineage::of(&begun), Door::Schedule, owner).unwrap();
    assert_eq!(own.doors, DoorSet::of(&[Door::Mcp, Door::Turn, Door::Schedule]));
    assert_eq!((own.door, own.depth), (Door::Schedule, 0));
    assert_ne!(own.run, begun.run);
    assert!(own.budget.charge_call().is_ok());
    let sees = |tool: &str| own.view.sees(&ToolId::parse(tool).unwrap());
    assert!(sees("test/look") && !sees("test/write"));
}
