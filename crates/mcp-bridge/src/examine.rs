//! `doctor`: whether all is well here, and what mends what is not.

use std::sync::Arc;

use toolbus_config::{Finding, on_one_line};
use toolbus_mcp::ServerCredentials;
use toolbus_mcp::doctor as mcp_doctor;
use toolbus_rabbitmq::doctor as broker_doctor;
use toolbus_runtime::doctor::{self, CHECK_TIMEOUT, within};
use toolbus_runtime::service::Context;

use crate::settings::Settings;

pub(crate) async fn examine(settings: Settings, context: Context) -> Vec<Finding> {
    let name = context.identity.connection_name();
    let asking = broker_doctor::examine(&settings.bus, name, &[]);
    let port = [("health.address", &settings.health.address)];
    let port = doctor::check_ports(&port);
    let others = async {
        let keys = within("vault", CHECK_TIMEOUT, examine_keys(&settings));
        tokio::join!(within("broker", CHECK_TIMEOUT, asking), keys, port)
    };

    let stop = context.shutdown.requested();
    let others = stop.run_until_cancelled(others);
    let (others, servers) = tokio::join!(others, examine_servers(&settings, &context));
    let Some((broker, keys, port)) = others else { return Vec::new() };
    [broker, keys, servers, port].concat()
}

/// Looks for the keys that the settings name, and where credentials are kept.
async fn examine_keys(settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = settings.grants.load_check("bridge") {
        let finding = Finding::wrong("grants", on_one_line(&error));
        findings.push(finding.mended_by("correct the section grants"));
    }
    let (Some(key), Some((_, store))) = (settings.vault.key(), settings.vault()) else {
        return findings;
    };

    findings.push(store.examine().await.0);
    findings.push(key.examine().await);
    findings
}

async fn examine_servers(settings: &Settings, context: &Context) -> Vec<Finding> {
    let (mut findings, entries) = mcp_doctor::examine_list(&settings.mcp);
    if mcp_doctor::has_shielded_servers(&settings.mcp, &entries) {
        findings.push(mcp_doctor::SHIELDED_SERVERS.note());
    }
    let vault = settings.vault();
    let mut mcp = settings.mcp.clone();
    if let Some((vault, _)) = &vault {
        mcp.credentials = Some(ServerCredentials(Arc::new(vault.clone())));
    }

    let connected = mcp_doctor::examine_servers(&mcp, &entries, async |pool| {
        context.shutdown.requested().run_until_cancelled(pool.wait_settled()).await;
    });
    findings.extend(connected.await);
    if let Some((_, store)) = vault {
        store.close().await;
    }
    findings
}
