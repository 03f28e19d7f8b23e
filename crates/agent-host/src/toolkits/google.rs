//! Gmail and Calendar: where their client and their logins are.

use toolbus_config::Secret;
use toolbus_toolkits::google::{
    self, Google, GoogleDeps, ID_VARIABLE, NAME, Product, SECRET_VARIABLE, VAULT_PROVIDER,
};

use super::key_place::KeyPlace;
use super::{Off, OfferedToolkit, Toolkit, ToolkitDeps};
use crate::settings::Settings;

/// The command that logs in.
const LOGIN: &str = "agent-host login google";

pub(super) fn toolkit(settings: &Settings, deps: &ToolkitDeps) -> Toolkit {
    let keys = Product::ALL.into_iter().flat_map(|product| {
        product.tools().iter().map(move |tool| ((*tool).to_owned(), login_place(product)))
    });
    Toolkit { keys: keys.collect(), ..Toolkit::new(NAME, open(settings, deps)) }
}

/// What Google is reached with.
pub(crate) fn deps(settings: &Settings, deps: &ToolkitDeps) -> GoogleDeps {
    let zone = settings.schedules.config().zone;
    GoogleDeps { credentials: deps.credentials(), zone, ..GoogleDeps::default() }
}

fn open(settings: &Settings, toolkit_deps: &ToolkitDeps) -> Result<OfferedToolkit, Off> {
    for place in client_places(settings) {
        place.find(toolkit_deps.vault.is_some()).map_err(Off::NotConfigured)?;
    }
    if toolkit_deps.vault.is_none() {
        let what = format!("a login is kept in the vault: set vault.key_file, then run `{LOGIN}`");
        return Err(Off::NotConfigured(what));
    }

    let google = Google::new(&settings.google, deps(settings, toolkit_deps));
    let google = google.map_err(|error| Off::unusable(&error))?;
    Ok(OfferedToolkit::new(google::guide(), |registry| google::register(registry, google)))
}

/// Where the id and the secret of the client are.
fn client_places(settings: &Settings) -> [KeyPlace; 2] {
    let place = |setting: &str, written: &Option<Secret>, variable: &str| KeyPlace {
        setting: setting.to_owned(),
        written: written.clone(),
        variable: Some(variable.to_owned()),
        provider: VAULT_PROVIDER.to_owned(),
        put_by: None,
    };
    [
        place("google.client_id", &settings.google.client_id, ID_VARIABLE),
        place("google.client_secret", &settings.google.client_secret, SECRET_VARIABLE),
    ]
}

/// Where the login for a product is.
fn login_place(product: Product) -> KeyPlace {
    KeyPlace {
        setting: "a login at Google".to_owned(),
        written: Some(format!("${{vault:{}}}", product.token_name()).into()),
        variable: None,
        provider: VAULT_PROVIDER.to_owned(),
        put_by: Some(LOGIN),
    }
}
