//! `doctor`: whether all is well here, and what mends what is not.

use std::time::Duration;

use toolbus_config::Finding;
use toolbus_rabbitmq::doctor as broker_doctor;
use toolbus_runtime::doctor::{self, CHECK_TIMEOUT, DoctorOptions, within};
use toolbus_runtime::service::{Context, Exit, Program};

use crate::arguments::Arguments;
use crate::settings::{RunnerKind, Settings};

/// How long what scripts run in may take to be tried: it has shorter limits of its own.
const RUNNER_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn run(program: Program, arguments: &Arguments, options: &DoctorOptions) -> Exit {
    doctor::run(&program, &arguments.common, arguments.settings(), options, examine)
}

async fn examine(settings: Settings, context: Context) -> Vec<Finding> {
    let name = context.identity.connection_name();
    let asking = broker_doctor::examine(&settings.bus, name, &[]);
    let trying = async {
        match settings.runner {
            RunnerKind::Local => toolbus_sandbox::doctor::examine(&settings.scripts).await,
            RunnerKind::Kubernetes => {
                Box::pin(toolbus_pods::doctor::examine(&settings.kubernetes)).await
            }
        }
    };
    let port = [("health.address", &settings.health.address)];
    let port = doctor::check_ports(&port);

    let checking = async {
        tokio::join!(
            within("broker", CHECK_TIMEOUT, asking),
            within("runner", RUNNER_TIMEOUT, trying),
            port,
        )
    };
    let stop = context.shutdown.requested();
    let checked = Box::pin(stop.run_until_cancelled(checking)).await;
    let Some((broker, runner, port)) = checked else { return Vec::new() };
    [broker, runner, examine_grants(&settings), port].concat()
}

fn examine_grants(settings: &Settings) -> Vec<Finding> {
    match settings.grants.load_check("scripts manager") {
        Ok(_) => Vec::new(),
        Err(error) => {
            let why = toolbus_config::on_one_line(&error);
            vec![Finding::wrong("grants", why).mended_by("correct the section grants")]
        }
    }
}
