//! `login google` and `logout google`: a person's login, whose tokens are kept in the vault.
//!
//! No token is ever shown, and nothing is kept of a login that does not come to its end.

use std::time::Duration;

use tokio::io::BufReader;
use tokio::time::timeout;
use toolbus_mcp::login::Callback;
use toolbus_runtime::service::{BoxError, Context, Exit};
use toolbus_toolkits::google::{
    GoogleLogin, Granted, LoginError, OAuthError, Product, VAULT_PROVIDER,
};
use toolbus_vault::{CredentialPlace, LazyVault, Vault, VaultError};

use crate::arguments::{GoogleProduct, LoginOptions, LoginService, LogoutOptions};
use crate::command::{print, print_error, print_warning};
use crate::settings::Settings;
use crate::state;
use crate::toolkits::{ToolkitDeps, google_deps};

/// Why nobody is logged in, or out.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(
        "logins are kept in the vault, and there is none: set `vault.key_file` or \
             `vault.key_command`"
    )]
    NoVault,
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Client(#[from] LoginError),
    #[error(transparent)]
    OAuth(#[from] OAuthError),
    #[error(
        "{0} (Google has no device log in for Gmail and Calendar: leave out --device; the \
             browser may be on any machine)"
    )]
    DeviceScope(OAuthError),
    #[error(transparent)]
    Browser(#[from] toolbus_mcp::login::Error),
    #[error("cannot listen on a port for the browser: {0}")]
    Port(std::io::Error),
    #[error("nothing of what was asked for was allowed")]
    NothingGranted,
    /// A signal, which says how this ends.
    #[error("cut off")]
    CutOff,
}

impl Failure {
    fn exit(&self) -> Exit {
        match self {
            Self::NoVault | Self::Client(_) => Exit::MISUSE,
            _ => Exit::FAILURE,
        }
    }
}

pub(crate) async fn log_in(
    options: LoginOptions,
    settings: &Settings,
    context: &Context,
) -> Result<Exit, BoxError> {
    let LoginService::Google = options.service;
    let work = async |vault: &LazyVault, deps: &ToolkitDeps| {
        let products = match options.only {
            None => Product::ALL.to_vec(),
            Some(GoogleProduct::Gmail) => vec![Product::Gmail],
            Some(GoogleProduct::Calendar) => vec![Product::Calendar],
        };
        let deps = google_deps(settings, deps);
        let login = GoogleLogin::new(&settings.google, &deps, &products).await?;
        // Before anybody is asked for anything.
        let vault = vault.open().await?;
        let limit = options.timeout.duration();
        let granted = match options.device {
            true => on_device(&login, limit).await?,
            false => in_browser(&login, limit).await?,
        };
        keep(&vault, granted, &products, context).await
    };
    run(settings, context, work).await
}

pub(crate) async fn log_out(
    options: LogoutOptions,
    settings: &Settings,
    context: &Context,
) -> Result<Exit, BoxError> {
    let LoginService::Google = options.service;
    let work = async |vault: &LazyVault, deps: &ToolkitDeps| {
        if !vault.may_hold_something() {
            return Ok("nobody has logged in at Google\n".to_owned());
        }
        let login = GoogleLogin::new(&settings.google, &google_deps(settings, deps), &[]).await;
        remove(&vault.open().await?, login.as_ref(), context).await
    };
    run(settings, context, work).await
}

/// Does the work with the vault, up to a signal, and prints how it went.
async fn run(
    settings: &Settings,
    context: &Context,
    work: impl AsyncFnOnce(&LazyVault, &ToolkitDeps) -> Result<String, Failure>,
) -> Result<Exit, BoxError> {
    let store = state::store(settings);
    let vault = store.as_ref().and_then(|store| state::vault(settings, store));
    let deps = ToolkitDeps { memory: None, vault: vault.clone() };
    let done = match &vault {
        Some(vault) => {
            let stop = context.shutdown.requested();
            let done = stop.run_until_cancelled(Box::pin(work(vault, &deps))).await;
            done.unwrap_or(Err(Failure::CutOff))
        }
        None => Err(Failure::NoVault),
    };
    if let Some(store) = store {
        store.close().await;
    }

    match done {
        Ok(text) => {
            print(&text);
            Ok(Exit::SUCCESS)
        }
        Err(Failure::CutOff) => Ok(Exit::FAILURE),
        Err(failure) => {
            print_error(&failure);
            Ok(failure.exit())
        }
    }
}

async fn in_browser(login: &GoogleLogin, limit: Duration) -> Result<Granted, Failure> {
    let callback = Callback::listen(None).await.map_err(Failure::Port)?;
    let started = login.begin_in_browser(&callback.redirect_uri());
    print(&format!(
        "Open this address in a browser to log in at Google:\n\n  {}\n\n\
         If the browser ends at an address that it cannot open, paste that here.\n",
        started.url
    ));

    let pasted = BufReader::new(tokio::io::stdin());
    let answer = timeout(limit, callback.wait_for_answer(&started.state, pasted)).await;
    let answer = answer.map_err(|_| OAuthError::TimedOut(limit))??;
    Ok(login.finish_in_browser(started, &answer).await?)
}

async fn on_device(login: &GoogleLogin, limit: Duration) -> Result<Granted, Failure> {
    let refused = |error: OAuthError| match &error {
        OAuthError::Refused { code, .. } if code == "invalid_scope" => Failure::DeviceScope(error),
        _ => error.into(),
    };
    let started = login.begin_on_device().await.map_err(refused)?;
    print(&format!(
        "Open this address on any device, and type the code there:\n\n  {}\n  {}\n\n",
        started.url, started.code
    ));
    login.finish_on_device(&started, limit).await.map_err(refused)
}

/// Puts the token into the vault for each product that it was granted for.
async fn keep(
    vault: &Vault,
    granted: Granted,
    asked: &[Product],
    context: &Context,
) -> Result<String, Failure> {
    let Granted { refresh_token, products } = granted;
    for product in &products {
        vault.put(place_of(*product), &refresh_token).await?;
    }
    let left_out: Vec<_> = asked.iter().filter(|product| !products.contains(product)).collect();
    for product in left_out {
        let title = product.title();
        print_warning(format_args!("not all was allowed that {title} needs"), context);
    }
    if products.is_empty() {
        return Err(Failure::NothingGranted);
    }
    let titles: Vec<_> = products.iter().map(|product| product.title()).collect();
    Ok(format!("logged in at Google: {}\n", titles.join(", ")))
}

/// Removes the tokens, and has Google revoke each. That it refuses is told, and hinders nothing.
async fn remove(
    vault: &Vault,
    login: Result<&GoogleLogin, &LoginError>,
    context: &Context,
) -> Result<String, Failure> {
    let mut tokens = Vec::new();
    let mut is_removed = false;
    for product in Product::ALL {
        let place = place_of(product);
        // One that cannot be read any more is removed all the same.
        let token = vault.find(&place).await.ok().flatten();
        is_removed |= vault.remove(place).await?;
        // One login is for several products.
        tokens.extend(token.filter(|token| !tokens.contains(token)));
    }

    for token in &tokens {
        let revoked = match login {
            Ok(login) => login.revoke(token).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(reason) = revoked {
            let what = format!(
                "the login was removed here, and Google has not revoked it: {reason}; see \
                 https://myaccount.google.com/connections"
            );
            print_warning(what, context);
        }
    }
    let text =
        if is_removed { "logged out of Google\n" } else { "nobody has logged in at Google\n" };
    Ok(text.to_owned())
}

fn place_of(product: Product) -> CredentialPlace {
    CredentialPlace::new(VAULT_PROVIDER, product.token_name())
}
