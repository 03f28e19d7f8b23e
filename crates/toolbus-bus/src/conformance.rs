//! The conformance suite: what every implementation of the [port](crate::port) must do, one case a
//! rule, so that code on top of the port behaves the same on every broker. The questions of calls
//! are put to the test here as well, with both ends: they make a queue while a call runs. So are
//! parked calls, which are acknowledged before they are answered.
//!
//! A broker's test implements [`Fixture`] and hands it to the macro, which makes one test a case:
//!
//! ```ignore
//! toolbus_bus::conformance_tests!(MyFixture::start().await);
//! ```
//!
//! The expression is evaluated anew in every test, inside a tokio runtime. Cases run at the same
//! time and may share one broker: every case makes up names and topics of its own and binds nothing
//! that would take another's messages. They leave their durable queues behind, so a broker that
//! outlives the tests should give them a virtual host of their own.
//!
//! A case waits for what must come until [`Fixture::patience`] is over and fails then. Only that
//! something does *not* come is shown by waiting, for [`Fixture::quiet`]; where the order of a
//! queue can show it, a later message does.
//!
//! Not asked here, because one process has no such thing: what happens while the broker is away.

mod answers;
mod asks;
mod content;
mod ending;
mod expiry;
mod flow;
mod lifetime;
mod parking;
mod probe;
mod publishing;
mod routing;
mod stage;
mod telemetry;

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use toolbus_wire::{Envelope, Topic};

use crate::Bus;
use stage::Stage;

/// How many times [`Fixture::patience`] a whole case may take: a case that gets near it fails soon
/// anyway, and this is for what waits in no other way.
const WAITS_MAX: u32 = 6;
/// How long a runtime may take to end after its case. What hangs longer is left behind.
const TEARDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// A broker under test.
///
/// Its methods are called on the runtime that is to run the bus, which is not always the one that
/// made the fixture. They panic when the broker cannot be reached: then there is nothing to test.
pub trait Fixture: Send + Sync + 'static {
    /// A new connection to the broker, as another process of the fleet would have.
    fn bus(&self) -> BoxFuture<'_, Arc<dyn Bus>>;

    /// A new connection that can be killed.
    ///
    /// The killing must look to the broker as the end of a process does: the connection breaks
    /// without a word, with messages unanswered, and does not come back. Over TCP, connect through
    /// a small proxy that is shut, rather than close anything in the client, which would say
    /// goodbye, or through the broker's management, after which the client would come back.
    fn doomed(&self) -> BoxFuture<'_, Doomed>;

    /// How many messages wait in a subscription's queue and are with no consumer; 0 when there is
    /// no such queue. A value that lags is asked for again until it is the expected one, so it must
    /// not lag for ever, and must not count what a consumer holds. On RabbitMQ a passive declare
    /// tells it at once, while the management's numbers are seconds old.
    fn ready_count<'a>(&'a self, subscription: &'a str) -> BoxFuture<'a, usize>;

    /// The dead letters of a subscription, oldest first. Asking takes none away. Those that expired
    /// may be among them or not.
    fn dead_letters<'a>(&'a self, subscription: &'a str) -> BoxFuture<'a, Vec<DeadLetter>>;

    /// How long to wait for what must come before the case fails. It costs nothing when all is
    /// well, so let it outlast the worst moment of a busy machine.
    fn patience(&self) -> Duration {
        Duration::from_secs(20)
    }

    /// How long to watch that nothing comes: a good multiple of what a message needs to arrive.
    fn quiet(&self) -> Duration {
        Duration::from_millis(200)
    }
}

/// A connection that can be killed.
pub struct Doomed {
    bus: Arc<dyn Bus>,
    kill: BoxFuture<'static, ()>,
}

impl Doomed {
    /// `kill` runs at the most once and is done when the connection is broken.
    pub fn new(bus: Arc<dyn Bus>, kill: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { bus, kill: Box::pin(kill) }
    }
}

/// A message that could not be handled, as it is kept for people to look at.
#[derive(Debug, Clone)]
pub struct DeadLetter {
    /// The topic it was published to, not the pattern that took it.
    pub topic: Topic,
    /// Why it could not be handled.
    pub reason: String,
    /// The message. It may have more headers than it had when it was published, but no fewer.
    pub envelope: Envelope,
}

/// One rule of the port.
pub struct Case {
    name: &'static str,
    run: fn(Stage) -> BoxFuture<'static, ()>,
}

impl Case {
    fn new(name: &'static str, run: fn(Stage) -> BoxFuture<'static, ()>) -> Self {
        Self { name, run }
    }

    /// The rule, as the name of a function.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Puts a broker to the test. Needs a multi-threaded tokio runtime with its clock running.
    ///
    /// # Panics
    /// When the broker breaks the rule.
    pub async fn run(&self, fixture: Arc<dyn Fixture>) {
        telemetry::let_every_thread_decide();
        let limit = fixture.patience() * WAITS_MAX;
        let stage = Stage::new(fixture);
        let case = async {
            (self.run)(stage.clone()).await;
            stage.strike().await;
        };
        let in_time = tokio::time::timeout(limit, case).await.is_ok();
        assert!(in_time, "the case {} was not over after {limit:?}", self.name);
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Case({})", self.name)
    }
}

/// Every case, in no order that matters.
#[must_use]
pub fn cases() -> Vec<Case> {
    crate::conformance_tests!(@every list [])
}

/// Runs one case by its name, in a runtime of its own. What [`conformance_tests!`] makes tests of.
///
/// [`conformance_tests!`]: crate::conformance_tests
///
/// # Panics
/// When the broker breaks the rule, or when there is no case of that name.
pub fn run<F: Fixture>(name: &str, fixture: impl Future<Output = F>) {
    // Before the fixture, which may make spans already.
    telemetry::let_every_thread_decide();
    let case = cases().into_iter().find(|case| case.name == name);
    let case = case.unwrap_or_else(|| panic!("there is no case {name}"));
    in_own_runtime(async { case.run(Arc::new(fixture.await)).await });
}

/// Runs a case of a suite, this one's or another's, in a runtime that ends with it.
///
/// # Panics
/// When the case does.
pub fn in_own_runtime(case: impl Future<Output = ()>) {
    // Two threads, because some faults show only when things really happen at the same time.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a test machine has threads to give");
    let outcome = catch_unwind(AssertUnwindSafe(|| runtime.block_on(case)));

    // Even after a failure: a plain drop would wait for what hangs, and the failure would not be
    // seen.
    runtime.shutdown_timeout(TEARDOWN_TIMEOUT);
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

/// Makes one `#[test]` for each case of the suite, named as the rule is.
///
/// It takes an expression of a type that implements [`Fixture`](crate::conformance::Fixture) and
/// may use `.await`.
#[macro_export]
macro_rules! conformance_tests {
    (@every $what:ident [$($given:tt)*]) => {
        $crate::conformance_tests! { @$what [$($given)*]
            routing {
                different_names_each_get_a_copy,
                two_names_of_one_process_each_get_a_copy,
                one_name_shares_the_work,
                patterns_match_by_segment,
                several_bindings_of_a_queue_take_a_message_once,
                a_subscription_is_bound_when_subscribe_returns,
                a_new_subscription_hears_a_topic_that_is_in_use,
                any_text_can_be_a_reply_topic,
            }
            publishing {
                a_confirmed_message_is_in_the_queue,
                nobody_listens_is_an_error_that_names_the_topic,
                every_publish_gets_its_own_answer,
                two_thousand_publishes_at_once_arrive_once_each,
                a_dropped_publish_does_no_harm,
                a_body_over_the_limit_is_refused,
                what_is_answered_takes_no_room,
            }
            content {
                every_member_arrives_unchanged,
                any_body_arrives_unchanged,
                a_trace_context_is_carried_unchanged,
            }
            telemetry {
                publishing_and_processing_are_one_trace,
                a_redelivery_belongs_to_the_trace_of_its_message,
                a_sign_of_life_is_no_span,
            }
            answers {
                an_acked_message_is_gone,
                a_dead_letter_is_kept_once_with_its_reason,
                a_panic_makes_a_dead_letter,
            }
            asks {
                a_question_reaches_its_caller_and_the_answer_comes_back,
                a_round_of_questions_comes_together,
                a_refusal_comes_back_as_it_was_given,
                a_question_that_nobody_takes_is_refused_at_once,
                a_question_of_no_call_is_refused,
                a_question_that_comes_twice_is_asked_once,
                questions_are_bounded_in_number_and_size,
                questions_of_scripts_have_limits_of_their_own,
                a_question_ends_with_its_call,
                what_a_call_tells_before_it_asks_is_heard_before,
            }
            parking {
                a_parked_call_frees_its_permit,
                a_parked_call_outlives_its_process,
            }
            flow {
                no_more_handlers_run_than_permits,
                as_many_handlers_run_as_there_are_permits,
                what_is_over_the_permits_is_left_for_others,
                what_is_over_the_prefetch_is_left_for_others,
                an_ordered_consumer_keeps_the_order,
                one_permit_keeps_the_order,
                a_stuck_subscription_holds_up_no_other,
            }
            expiry {
                a_message_that_waited_too_long_is_not_delivered,
                a_message_expires_behind_a_slow_handler,
            }
            ending {
                the_work_of_a_dead_process_goes_to_another,
                order_survives_the_death_of_a_consumer,
                a_stop_lets_running_work_finish,
                a_consumer_that_takes_no_more_ends_what_it_has,
                a_stop_under_load_leaves_nothing_that_looks_begun,
                a_stop_drops_what_outlasts_its_grace,
                a_stop_without_work_is_prompt,
                a_dropped_consumer_stops,
                closing_gives_unfinished_work_back,
                closing_loses_no_confirmed_message,
                a_closed_bus_says_so,
            }
            lifetime {
                a_durable_queue_keeps_messages_for_its_consumer,
                the_consumers_of_a_durable_queue_are_counted,
                a_durable_queue_is_never_private,
                a_private_queue_belongs_to_one_consumer,
                a_private_queue_ends_with_its_consumer,
                a_private_queue_ends_with_its_process,
                one_consumer_of_a_single_active_queue_has_every_message,
                a_single_active_queue_is_handed_on_by_a_stop,
            }
        }
    };
    (@tests [$fixture:expr] $($module:ident { $($case:ident),* $(,)? })*) => {
        $($(
            #[test]
            fn $case() {
                $crate::conformance::run(::core::stringify!($case), async { $fixture });
            }
        )*)*
    };
    (@list [] $($module:ident { $($case:ident),* $(,)? })*) => {
        vec![$($(
            Case::new(stringify!($case), |stage| Box::pin($module::$case(stage))),
        )*)*]
    };
    ($fixture:expr $(,)?) => {
        $crate::conformance_tests! { @every tests [$fixture] }
    };
}
