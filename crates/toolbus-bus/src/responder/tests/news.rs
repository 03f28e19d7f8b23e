//! Signs of life and progress.

use futures_util::FutureExt as _;

use super::*;
use crate::responder::heartbeat::CHECK_INTERVAL;

/// A request that asks for news at `news`.
fn watched(call: &str, tool: &str, argument: &str) -> Envelope {
    request(call, tool, argument).with_header(header::PROGRESS_TO, "news")
}

async fn signs(news: &Inbox, at_least: usize) -> Vec<Vec<String>> {
    let signs: Vec<Alive> = news.read(at_least).await;
    assert!(signs.iter().all(|sign| sign.instance == "one"));
    let sorted = signs.into_iter().map(|mut sign| {
        sign.calls.sort();
        sign.calls
    });
    sorted.collect()
}

#[tokio::test(start_paused = true)]
async fn the_first_sign_comes_at_once_and_then_one_a_second() {
    let stage = Stage::start(4).await;
    let news = Inbox::open(&*stage.bus, "news").await;
    stage.publish(watched("c", "held", "")).await;
    let started = Instant::now();

    for count in 1..=5 {
        news.received(count).await;
        let due = SECOND * u32::try_from(count - 1).unwrap();
        let late = started.elapsed() - due;
        assert!(late < Duration::from_millis(count as u64 * 110), "sign {count}: {late:?} late");
    }

    stage.service.release("c");
    stage.outcomes(1).await;
    let given = news.len();
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(news.len(), given, "no sign of a call that has ended");
    assert!(news.received(1).await.iter().all(|sign| sign.expires_after.is_some()));
}

#[tokio::test(start_paused = true)]
async fn one_sign_names_every_call_that_runs_and_no_other() {
    let stage = Stage::start(3).await;
    let news = Inbox::open(&*stage.bus, "news").await;
    let others = Inbox::open(&*stage.bus, "news.of.another").await;
    stage.publish(watched("a", "held", "")).await;
    news.received(1).await;
    let started = Instant::now();
    let other = request("other", "held", "");
    stage.publish(other.with_header(header::PROGRESS_TO, "news.of.another")).await;
    assert_eq!(signs(&others, 1).await[0], ["other"]);
    assert!(started.elapsed() < CHECK_INTERVAL / 2, "a second caller's first sign is at once, too");

    for call in ["b", "waits for a permit"] {
        stage.publish(watched(call, "held", "")).await;
    }

    stage.service.started(3).await;
    assert_eq!(signs(&news, 2).await, [vec!["a"], vec!["a", "b"]]);
    stage.service.release("a");
    stage.service.started(4).await;
    assert_eq!(signs(&news, 3).await[2], ["b", "waits for a permit"]);
}

#[tokio::test(start_paused = true)]
async fn calls_that_end_at_once_cost_one_sign_a_second_at_most() {
    let stage = Stage::start(1).await;
    let news = Inbox::open(&*stage.bus, "news").await;
    stage.publish(watched("first", "sleep", "0.01")).await;
    stage.outcomes(1).await;
    assert_eq!(signs(&news, 1).await, [["first"]]);

    for number in 0..50 {
        stage.publish(watched(&number.to_string(), "sleep", "0.01")).await;
        stage.outcomes(number + 2).await;
    }

    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(news.len(), 1);

    // With pauses between them it is still one a second, not one a call.
    let started = Instant::now();
    for number in 50..90 {
        stage.publish(watched(&number.to_string(), "sleep", "0.01")).await;
        stage.outcomes(number + 2).await;
        tokio::time::sleep(SECOND / 7).await;
    }

    let seconds = started.elapsed().as_secs() as usize;
    assert!((2..=2 + seconds).contains(&news.len()), "{} signs in {seconds} s", news.len());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_reads_no_progress_gets_signs_of_life_alone() {
    let stage = Stage::start(1).await;
    let news = Inbox::open(&*stage.bus, "news").await;
    let quiet = watched("quiet", "talk", "one two").with_header(header::QUIET, "1");
    for request in [quiet, watched("heard", "talk", "three")] {
        stage.publish(request).await;
    }
    stage.outcomes(2).await;
    let told = news.received(1).await.into_iter().filter(message::is::<ToolProgress>);
    let told = told.map(|message| json::read::<ToolProgress>(&message.body).unwrap().tool_call_id);
    assert_eq!(told.collect::<Vec<_>>(), ["heard"]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_named_no_topic_gets_no_news() {
    let stage = Stage::start(1).await;
    stage.publish(request("c", "talk", "a b")).await;
    stage.publish(request("d", "sleep", "3")).await;
    stage.publish(request("e", "talk", "a").with_header(header::PROGRESS_TO, "")).await;
    stage.outcomes(3).await;
    let topics = ["replies", WORK];
    let sent: usize = topics.iter().map(|to| stage.bus.published(&topic(to)).len()).sum();
    assert_eq!(sent, 6, "three requests and three replies");
    assert_eq!(stage.bus.published(&topic("news")).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_caller_that_is_gone_for_ten_signs_are_cancelled() {
    let stage = Stage::start(4).await;
    let news = Inbox::open(&*stage.bus, "news").await;
    stage.publish(watched("a", "held", "")).await;
    stage.publish(watched("b", "polite", "")).await;
    let other = request("other", "held", "").with_header(header::PROGRESS_TO, "elsewhere");
    let elsewhere = Inbox::open(&*stage.bus, "elsewhere").await;
    stage.publish(other).await;
    stage.service.started(3).await;
    news.received(2).await;
    news.close().await;
    let started = Instant::now();
    stage.service.until("both are cancelled", |state| state.told.len() == 2).await;
    let took = started.elapsed();
    assert!(took >= 9 * SECOND && took < 13 * SECOND, "{took:?}");
    assert_eq!(stage.service.look(|state| state.dropped.clone()), ["a"]);
    assert_eq!(stage.service.look(|state| state.running), 1, "the other caller's call goes on");
    assert!(elsewhere.len() > 5);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_comes_back_in_time_keeps_its_calls() {
    let stage = Stage::start(1).await;
    let news = Inbox::open(&*stage.bus, "news").await;
    stage.publish(watched("c", "held", "")).await;
    news.received(1).await;
    news.close().await;

    for _ in 0..3 {
        tokio::time::sleep(8 * SECOND).await;
        let news = Inbox::open(&*stage.bus, "news").await;
        news.received(1).await;
        news.close().await;
    }

    assert_eq!(stage.service.look(|state| state.running), 1);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_broker_says_nothing_about_the_caller() {
    let stage = Stage::start(1).await;
    let news = Inbox::open(&*stage.bus, "news").await;
    stage.publish(watched("c", "held", "")).await;
    news.received(1).await;
    let away = || PublishError::Unavailable("connection refused".to_owned());
    stage.bus.fail((0..20).map(|_| Fault::Fails(away())));
    news.received(2).await;
    assert_eq!(stage.service.look(|state| state.running), 1);
}

#[tokio::test(start_paused = true)]
async fn progress_is_counted_and_comes_before_the_reply() {
    let stage = Stage::start(1).await;
    // One queue for both, as a requester has it, so that the order can be seen.
    let both = Inbox::open(&*stage.bus, "to.*").await;

    for call in ["c", "d"] {
        let talk = request(call, "talk", "one two three").with_reply_to(topic("to.replies"));
        stage.publish(talk.with_header(header::PROGRESS_TO, "to.news")).await;
    }

    let said = |messages: &[Envelope]| {
        let mut said = Vec::new();
        for message in messages {
            if message::is::<ToolProgress>(message) {
                let progress: ToolProgress = json::read(&message.body).unwrap();
                let word = progress.message.unwrap_or_default();
                said.push(format!("{} {} {word}", progress.tool_call_id, progress.seq));
            } else if !message::is::<Alive>(message) {
                said.push(outcome(message));
            }
        }

        said
    };

    let replies = |messages: &[Envelope]| {
        messages.iter().filter(|message| message::is::<ToolInvokeResponse>(message)).count()
    };

    let mut messages = Vec::new();
    while replies(&messages) < 2 {
        messages = both.received(messages.len() + 1).await;
    }

    assert_eq!(
        said(&messages),
        [
            "c 0 one",
            "c 1 two",
            "c 2 three",
            "c was run RockBot",
            "d 0 one",
            "d 1 two",
            "d 2 three",
            "d was run RockBot"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_reply_does_not_wait_for_news_that_are_stuck() {
    let stage = Stage::start(1).await;
    let _news = Inbox::open(&*stage.bus, "news").await;
    stage.publish(watched("first", "sleep", "0.5")).await;
    stage.outcomes(1).await;
    stage.bus.fail([Fault::ArrivesAndHangs]);

    // The fault is taken by the request itself, unless it is sent around it.
    stage.bus.inner.publish(&topic(WORK), watched("c", "talk", "a b")).await.unwrap();
    let started = Instant::now();
    stage.outcomes(2).await;
    let took = started.elapsed();
    assert!(took >= SECOND && took < 2 * SECOND, "{took:?}");

    // A call that had no news has none to wait for.
    let started = Instant::now();
    stage.bus.inner.publish(&topic(WORK), request("d", "echo", "")).await.unwrap();
    stage.outcomes(3).await;
    assert!(started.elapsed() < SECOND / 10, "{:?}", started.elapsed());
}

/// A tool that talks without end, or in very long words, must not eat the memory of its worker.
#[tokio::test(start_paused = true)]
async fn news_are_bounded_in_number_and_bytes() {
    let bus = Faulty::new();
    let _news = Inbox::open(&*bus, "news").await;
    let outbox = Outbox::start(bus.clone(), "worker", CancellationToken::new());
    let post = |bytes: usize, count: usize| {
        for _ in 0..count {
            let message = Some("x".repeat(bytes));
            outbox.post_notification(
                &topic("news"),
                &ToolProgress { message, ..ToolProgress::default() },
            );
        }
    };

    assert!(outbox.flush_notifications().now_or_never().is_some(), "there is nothing to wait for");
    // Nothing is sent before this task waits for something.
    post(1, 2_000);
    assert!(outbox.flush_notifications().now_or_never().is_none());
    outbox.flush_notifications().await;
    assert!(outbox.flush_notifications().now_or_never().is_some());
    assert_eq!(bus.published(&topic("news")).len(), 1_024);
    post(1 << 20, 100);
    outbox.flush_notifications().await;
    assert_eq!(bus.published(&topic("news")).len(), 1_024 + 7);

    // There is room again.
    post(1, 1);
    outbox.flush_notifications().await;
    assert_eq!(bus.published(&topic("news")).len(), 1_024 + 8);
    within("the end", outbox.stop()).await;
    within("a flush after the end", outbox.flush_notifications()).await;
}
