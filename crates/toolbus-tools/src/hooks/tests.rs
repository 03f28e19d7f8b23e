use std::future::{pending, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Barrier;

use super::*;

fn event(kind: HookEventKind) -> HookEvent {
    HookEvent { kind, run: RunId::random(), call: None, details: Map::new() }
}

/// What hooks were told, in order.
type Told = Arc<Mutex<Vec<HookEventKind>>>;

fn tell_to(told: &Told) -> impl Fn(HookEvent) -> std::future::Ready<()> + use<> {
    let told = Arc::clone(told);
    move |event: HookEvent| {
        told.lock().push(event.kind);
        ready(())
    }
}

#[tokio::test]
async fn rv_h1_there_are_twelve_events_and_each_reaches_its_hooks() {
    let (hooks, told) = (Hooks::new(), Told::default());
    for kind in HookEventKind::ALL {
        hooks.register(kind, tell_to(&told));
    }
    for kind in HookEventKind::ALL {
        hooks.fire(event(kind)).await;
    }
    assert_eq!(*told.lock(), HookEventKind::ALL);
}

#[tokio::test]
async fn rv_h1_the_hooks_of_one_event_run_at_once() {
    let hooks = Hooks::new();
    let both = Arc::new(Barrier::new(2));
    for _ in 0..2 {
        let both = Arc::clone(&both);
        hooks.register(HookEventKind::RunStart, move |_| {
            let both = Arc::clone(&both);
            async move {
                both.wait().await;
            }
        });
    }
    // One after the other would wait for ever.
    timeout(Duration::from_secs(5), hooks.fire(event(HookEventKind::RunStart))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rv_h1_what_a_hook_does_wrong_keeps_no_other_from_it() {
    let (hooks, told) = (Hooks::new(), Told::default());
    hooks.register(HookEventKind::RunEnd, |_| async { panic!("on request") });
    hooks.register(HookEventKind::RunEnd, |event| {
        assert!(event.details.contains_key("missing"), "before it has a future");
        ready(())
    });
    hooks.register(HookEventKind::RunEnd, |_| pending());
    hooks.register(HookEventKind::RunEnd, tell_to(&told));
    hooks.fire(event(HookEventKind::RunEnd)).await;
    assert_eq!(*told.lock(), [HookEventKind::RunEnd]);
}

#[tokio::test]
async fn rv_h2_hooks_come_and_go() {
    let (hooks, told) = (Hooks::new(), Told::default());
    let kinds = [HookEventKind::StepStart, HookEventKind::StepEnd, HookEventKind::Handoff];
    let ids = kinds.map(|kind| hooks.register(kind, tell_to(&told)));
    assert_eq!(kinds.map(|kind| hooks.has_hooks(kind)), [true; 3]);

    assert!(hooks.unregister(ids[0]));
    assert!(!hooks.unregister(ids[0]), "it was there once");
    hooks.clear(Some(HookEventKind::StepEnd));
    assert_eq!(kinds.map(|kind| hooks.has_hooks(kind)), [false, false, true]);
    for kind in kinds {
        hooks.fire(event(kind)).await;
    }
    assert_eq!(*told.lock(), [HookEventKind::Handoff]);

    hooks.clear(None);
    assert!(!HookEventKind::ALL.into_iter().any(|kind| hooks.has_hooks(kind)));
}
