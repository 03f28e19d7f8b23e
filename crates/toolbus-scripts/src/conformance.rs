//! The conformance suite: what every runner must do with scripts that mean no harm, and what must
//! come of those that attack, so that a script is told of in the same words and held as firmly
//! wherever it runs.
//!
//! Every case goes through the service: a request in over the bus, a response out. A runner's test
//! implements [`Fixture`] and hands it to the macro, which makes one test a case:
//!
//! ```ignore
//! toolbus_scripts::conformance_tests!(MyFixture::start().await);
//! ```
//!
//! The expression is an `Option`: without what the runner needs, the tests are skipped. It is
//! evaluated anew in every test, inside a tokio runtime.
//!
//! What counts is what this machine sees, which is where the service runs: processes with their
//! rights, namespaces, limits and mounts, listeners, files, memory, time. Of a call or a file that
//! must be refused only the script can tell, which has to name everything that it tried; it is
//! believed when it says that it got through. `docs/security.md` has the table of attacks, made of
//! [`cases`] by a test.
//!
//! Files that scripts are given and leave are not the service's but the runner's to bring: their
//! cases are in [`files`], for a runner without a service. So are the scripts of [`honest`] that
//! need packages.

pub mod channel;
pub mod endings;
pub mod files;
pub mod honest;
mod host;
mod kernel;
mod network;
mod ordinary;
mod packages;
mod places;
mod processes;
mod protocol;
mod resources;
mod secrets;
mod stage;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use toolbus_bus::conformance::in_own_runtime;

use crate::runner::Runner;
use stage::Stage;

/// A runner under test, and the host as it is seen from where the service runs.
pub trait Fixture: Send + Sync + 'static {
    /// The runner. It must let eight scripts run or wait at a time.
    fn runner(&self) -> Arc<dyn Runner>;

    /// Listeners where a script could reach them if it reached anything.
    fn canaries(&self) -> BoxFuture<'_, Canaries>;

    /// Waits until nothing of these calls is left outside, and panics when something stays.
    fn settle<'a>(&'a self, call_ids: &'a [String]) -> BoxFuture<'a, ()>;

    /// Whether processes of scripts show in this machine's `/proc`. Where they cannot, as in a
    /// cluster of other machines, what is said of processes is judged by [`Fixture::settle`] alone.
    fn shows_processes(&self) -> bool {
        true
    }

    /// How much longer than a script itself its answer may take.
    fn patience(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// Ends what the runner keeps ready. Called last, when nothing of a case is left.
    fn end(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// Listeners that nobody may call.
pub struct Canaries {
    /// Where they listen, as `host:port`.
    pub addresses: Vec<String>,
    /// Who called any of them; asked once, at the end.
    pub callers: BoxFuture<'static, Vec<String>>,
}

/// What happens to a runner in one case.
pub struct Case {
    /// What is tried, as a group of cases.
    pub family: &'static str,
    /// What holds, as the name of a function.
    pub name: &'static str,
    run: fn(Stage) -> BoxFuture<'static, ()>,
}

/// Cases that measure or plant something in the service's own process, so that nothing else may
/// happen in it.
const ALONE: [&str; 3] = [
    "planted_secrets_are_found_nowhere",
    "a_flood_of_output_costs_the_service_nothing",
    "a_line_without_end_costs_the_service_nothing",
];

/// The families of cases that are attacks; the others mean no harm.
pub const ATTACKS: [&str; 8] =
    ["secrets", "places", "network", "resources", "processes", "kernel", "protocol", "packages"];

/// Every case, family by family.
#[must_use]
pub fn cases() -> Vec<Case> {
    crate::conformance_tests!(@every list [])
}

/// Runs one case, in a runtime of its own. What [`conformance_tests!`] makes tests of. `path` is
/// that of the test, as the test program calls it.
///
/// [`conformance_tests!`]: crate::conformance_tests
///
/// # Panics
/// When the runner does not do what it must, or when there is no case of that name.
pub fn run<F: Fixture>(name: &str, path: &str, fixture: impl Future<Output = Option<F>>) {
    let case = cases().into_iter().find(|case| case.name == name);
    let case = case.unwrap_or_else(|| panic!("there is no case {name}"));

    if ALONE.contains(&name) && !host::rerun_alone(path) {
        return;
    }

    in_own_runtime(async {
        let Some(fixture) = fixture.await else { return };
        let stage = Stage::start(Arc::new(fixture)).await;
        (case.run)(stage.clone()).await;
        stage.tear_down().await;
    });
}

/// Makes one `#[test]` for each case of the suite.
///
/// It takes an expression of an `Option` of a type that implements
/// [`Fixture`](crate::conformance::Fixture) and may use `.await`.
#[macro_export]
macro_rules! conformance_tests {
    (@every $what:ident [$($given:tt)*]) => {
        $crate::conformance_tests! { @$what [$($given)*]
            ordinary {
                recorded_scripts_answer_as_recorded,
                exit_codes_are_the_scripts_own,
                tracebacks_are_those_of_python,
                streams_are_kept_apart_and_merged_in_order,
                output_is_live,
                output_beyond_the_limit_is_dropped_and_said,
                large_scripts_and_inputs_arrive_whole,
                what_cannot_be_run_is_refused,
                children_that_outlive_the_script_have_a_moment,
                threads_processes_and_files_are_there,
                nothing_of_the_bootstrap_is_left,
                several_at_once_answer_for_themselves,
                usage_is_told,
            }
            honest {
                honest_scripts_are_not_disturbed,
            }
            channel {
                a_request_gets_its_response,
                a_prelude_that_fails_ends_the_script,
                requests_come_one_after_another,
                requests_are_open_together,
                more_than_may_be_open_wait,
                large_bodies_arrive_whole,
                a_broken_rule_closes_the_channel_alone,
                a_script_may_close_its_end,
                children_share_the_channel,
                responses_that_are_not_read_hold_up_nothing,
                open_requests_end_with_the_script,
                requests_cannot_be_forged,
                scripts_without_a_prelude_have_no_channel,
            }
            secrets {
                planted_secrets_are_found_nowhere,
                other_processes_cannot_be_looked_into,
                no_credentials_of_a_cluster_are_there,
                descriptors_of_the_service_are_not_inherited,
            }
            places {
                files_of_the_host_cannot_be_read,
                nothing_outside_the_work_folder_can_be_written,
                links_and_devices_lead_nowhere,
                every_writable_place_is_small,
                files_without_number_are_bounded,
                nothing_is_left_for_the_next_script,
            }
            network {
                nothing_is_reached_by_the_first_act_of_a_script,
                nothing_is_reached_by_children_threads_and_raw_calls,
                no_socket_but_a_local_one_can_be_had,
                sockets_of_other_programs_are_out_of_reach,
            }
            resources {
                a_fork_bomb_is_bounded_and_ends,
                a_thread_bomb_is_bounded,
                memory_of_one_process_is_bounded,
                memory_spread_over_children_is_bounded,
                memory_of_a_child_alone_ends_the_script,
                memory_in_files_is_bounded,
                memory_in_sockets_is_bounded,
                memory_that_no_process_shows_is_bounded,
                memory_of_mappings_is_bounded,
                locks_without_number_are_bounded,
                a_decompression_bomb_is_bounded,
                endless_recursion_ends,
                a_busy_loop_ends_at_its_time,
                a_sleep_that_ignores_every_signal_ends_at_its_time,
                drips_of_output_do_not_extend_a_run,
                a_flood_of_output_costs_the_service_nothing,
                a_line_without_end_costs_the_service_nothing,
                nobody_dumps_core,
            }
            processes {
                survivors_do_not_survive,
                a_grandchild_that_holds_the_output_does_not_extend_a_run,
                killing_everything_kills_only_the_script,
                the_parent_cannot_be_killed,
                the_first_process_cannot_be_hindered,
                other_processes_cannot_be_traced,
            }
            kernel {
                parts_of_the_kernel_are_closed,
                no_namespace_can_be_made,
                nothing_can_be_mounted,
                limits_cannot_be_raised,
                setuid_programs_give_nothing,
                the_kernels_own_files_cannot_be_written,
                the_machine_sees_the_walls_around_every_process,
            }
            protocol {
                reports_cannot_be_forged,
                any_bytes_become_text,
                characters_survive_being_split,
                death_by_signal_is_told,
                two_scripts_see_nothing_of_each_other,
            }
            packages {
                what_is_no_requirement_is_refused,
            }
        }
    };
    (@tests [$fixture:expr] $($module:ident { $($case:ident),* $(,)? })*) => {
        $($(
            #[test]
            fn $case() {
                $crate::conformance::run(
                    ::core::stringify!($case),
                    ::core::concat!(::core::module_path!(), "::", ::core::stringify!($case)),
                    async { $fixture },
                );
            }
        )*)*
    };
    (@list [] $($module:ident { $($case:ident),* $(,)? })*) => {
        vec![$($(
            Case {
                family: stringify!($module),
                name: stringify!($case),
                run: |stage| Box::pin($module::$case(stage)),
            },
        )*)*]
    };
    ($fixture:expr $(,)?) => {
        $crate::conformance_tests! { @every tests [$fixture] }
    };
}

#[cfg(test)]
mod tests;
