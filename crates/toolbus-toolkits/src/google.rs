//! Gmail and Calendar of the person who has logged in: `gmail_search`, `gmail_read`, `gmail_send`,
//! `calendar_list_events`, `calendar_create_event` and `calendar_get_event`.
//!
//! To wire it: check [`GoogleSettings`] with those of the program, make [`Google`], call
//! [`register`], and add [`guide`] to the guides. A person logs in by [`GoogleLogin`]; who runs
//! that puts the refresh token into the vault, as [`Product::token_name`] of [`VAULT_PROVIDER`],
//! where calls find it.
//!
//! Invariants: without both, the id and the secret of a client, there are no tools; access tokens
//! are in memory only; no token and no secret is in what models or logs are told; what is wrong
//! with arguments is said before Google is asked.

mod api;
mod calendar;
pub(crate) mod compose;
mod endpoints;
mod gmail;
mod login;
pub(crate) mod mime;
mod oauth;
mod product;
mod text;
pub(crate) mod times;
mod tokens;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use toolbus_config::Secret;
use toolbus_fetch::{FetchConfig, Fetcher, ResolveHost, SystemResolver};
use toolbus_tools::arguments::whole_number;
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::registry::{self, Registry};
use toolbus_tools::tool::Risk;
use toolbus_tools::{Audience, Executor, Guide, Tool};
use zeroize::Zeroizing;

use crate::audience::audience_of;
use crate::credential::{CredentialPlaces, CredentialReference, NoCredential};
use crate::google_settings::GoogleSettings;
use endpoints::Endpoints;
pub use login::{GoogleLogin, LoginError};
use oauth::OAuthClient;
pub use oauth::{BrowserLogin, DeviceLogin, Granted, OAuthError};
pub use product::Product;
use tokens::Tokens;

/// Name of the toolkit.
pub const NAME: &str = "google";
/// The provider of its tokens and keys in the vault.
pub const VAULT_PROVIDER: &str = "google";
/// The variable of the environment that has the client's id where the settings have none.
pub const ID_VARIABLE: &str = "GOOGLE_CLIENT_ID";
/// The variable of the environment that has the client's secret where the settings have none.
pub const SECRET_VARIABLE: &str = "GOOGLE_CLIENT_SECRET";
/// Most requests at a time.
const CONCURRENT_MAX: usize = 8;
/// Requests that a call makes one after the other, at most: a refresh, a request, another refresh
/// and a repeat, and for a search the headers of mails.
const REQUESTS_IN_LINE: u32 = 6;

/// Tells the time.
pub type Clock = dyn Fn() -> Timestamp + Send + Sync;

/// What Google is reached with.
#[derive(Clone)]
pub struct GoogleDeps {
    /// Where keys and tokens are.
    pub credentials: CredentialPlaces,
    /// The zone of the user where the settings have none.
    pub zone: TimeZone,
    /// Tells what day it is.
    pub clock: Arc<Clock>,
    /// Finds the addresses of names.
    pub resolver: Arc<dyn ResolveHost>,
}

/// Gmail and Calendar. Clones are the same.
#[derive(Clone)]
pub struct Google {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    endpoints: Endpoints,
    tokens: Tokens,
    timeout: Duration,
    zone: TimeZone,
    zone_name: String,
    clock: Arc<Clock>,
    permits: Semaphore,
    audience: Audience,
}

/// The client of OAuth, whose keys are read when they are needed.
struct Client {
    id: CredentialReference,
    secret: CredentialReference,
    endpoints: Endpoints,
    timeout: Duration,
    fetcher: Fetcher,
    /// The secret that was read last, to keep it out of texts.
    known: parking_lot::Mutex<Option<Zeroizing<String>>>,
}

/// Why there are no tools.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The client has no id or no secret.
    #[error("{setting}: {reason}")]
    NoClient {
        /// The setting that lacks.
        setting: &'static str,
        /// What is missing there.
        reason: String,
    },
    /// There is no HTTP client.
    #[error("no HTTP client for Google")]
    Http(#[source] reqwest::Error),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Search,
    Read,
    Send,
    List,
    Create,
    Get,
}

struct GoogleTool {
    operation: Operation,
    google: Google,
}

impl Default for GoogleDeps {
    fn default() -> Self {
        Self {
            credentials: CredentialPlaces::default(),
            zone: TimeZone::UTC,
            clock: Arc::new(Timestamp::now),
            resolver: Arc::new(SystemResolver),
        }
    }
}

impl fmt::Debug for GoogleDeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GoogleDeps").field("credentials", &self.credentials).finish_non_exhaustive()
    }
}

/// The guide to Gmail and Calendar.
#[must_use]
pub fn guide() -> Guide {
    Guide {
        name: NAME.to_owned(),
        summary: "Search, read and send mail, and see and make events of the calendar".to_owned(),
        document: include_str!("google/guide.md").to_owned(),
    }
}

/// Registers the tools.
///
/// # Errors
/// When a name is taken.
pub fn register(registry: &Registry, google: Google) -> Result<(), registry::Error> {
    for operation in Operation::ALL {
        let tool = GoogleTool { operation, google: google.clone() };
        let definition = operation.definition(google.inner.timeout);
        registry.register(definition.for_audience(google.inner.audience.clone()), tool)?;
    }
    Ok(())
}

impl Google {
    /// Makes what Google is reached with.
    ///
    /// # Errors
    /// When the client has no id or no secret, as far as that is known without a look into the
    /// vault, or the machine's certificates cannot be read.
    pub fn new(settings: &GoogleSettings, deps: GoogleDeps) -> Result<Self, Error> {
        let client = Client::new(settings, &deps)?;
        let named = settings.time_zone.as_deref().and_then(|zone| TimeZone::get(zone).ok());
        let zone = named.unwrap_or(deps.zone);
        let inner = Inner {
            endpoints: Endpoints::of(settings),
            tokens: Tokens::new(deps.credentials.vault),
            timeout: settings.timeout.duration(),
            zone_name: zone.iana_name().unwrap_or("UTC").to_owned(),
            zone,
            clock: deps.clock,
            permits: Semaphore::new(CONCURRENT_MAX),
            audience: audience_of(&settings.principals),
            client,
        };
        Ok(Self { inner: Arc::new(inner) })
    }
}

impl Client {
    fn new(settings: &GoogleSettings, deps: &GoogleDeps) -> Result<Self, Error> {
        let find = |setting, written: Option<&Secret>, variable| match deps.credentials.find(
            written,
            Some(variable),
            VAULT_PROVIDER,
        ) {
            CredentialReference::Absent(reason) => Err(Error::NoClient { setting, reason }),
            reference => Ok(reference),
        };
        let id = find("google.client_id", settings.client_id.as_ref(), ID_VARIABLE)?;
        let secret =
            find("google.client_secret", settings.client_secret.as_ref(), SECRET_VARIABLE)?;

        let resolver = Arc::clone(&deps.resolver);
        let config = FetchConfig { allowed_hosts: Vec::new(), resolver };
        Ok(Self {
            id,
            secret,
            endpoints: Endpoints::of(settings),
            timeout: settings.timeout.duration(),
            fetcher: Fetcher::new(config).map_err(Error::Http)?,
            known: parking_lot::Mutex::new(None),
        })
    }

    async fn oauth(&self) -> Result<OAuthClient, NoCredential> {
        let (id, secret) = (self.id.load().await?, self.secret.load().await?);
        let (endpoints, fetcher) = (&self.endpoints, self.fetcher.clone());
        let oauth = OAuthClient::new(id.text(), secret.text(), endpoints, self.timeout, fetcher);
        *self.known.lock() = Some(Zeroizing::new(secret.text().to_owned()));
        Ok(oauth)
    }

    fn known_secret(&self) -> Option<Zeroizing<String>> {
        self.known.lock().clone()
    }
}

impl Operation {
    const ALL: [Self; 6] =
        [Self::Search, Self::Read, Self::Send, Self::List, Self::Create, Self::Get];

    fn name(self) -> &'static str {
        match self {
            Self::Search => "gmail_search",
            Self::Read => "gmail_read",
            Self::Send => "gmail_send",
            Self::List => "calendar_list_events",
            Self::Create => "calendar_create_event",
            Self::Get => "calendar_get_event",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Search => {
                "Search the user's Gmail, by Gmail's own search syntax. Returns ids, dates, \
                 senders, subjects and snippets."
            }
            Self::Read => "Read a mail of the user's Gmail by its id.",
            Self::Send => "Send a mail in plain text from the user's Gmail.",
            Self::List => {
                "List events of the user's Google Calendar, today's where no time is given."
            }
            Self::Create => "Create an event in the user's Google Calendar.",
            Self::Get => "Get the details of an event of the user's Google Calendar.",
        }
    }

    fn definition(self, timeout: Duration) -> Tool {
        let tool = Tool::new(self.name(), self.description(), NAME)
            .in_group(NAME)
            .with_timeout(timeout * REQUESTS_IN_LINE)
            .with_parameters(self.parameters());
        match self {
            // Mails and invitations cannot be recalled once sent.
            Self::Send | Self::Create => tool.destructive().with_risk(Risk::High),
            _ => tool.read_only(),
        }
    }

    fn parameters(self) -> Value {
        let string = |text: &str| json!({"type": "string", "description": text});
        let count = |max: u64| {
            json!({"type": "integer", "minimum": 1, "maximum": max, "default": 10,
                   "description": "How many at most"})
        };
        let calendar = || json!({"type": "string", "default": "primary", "description": "The id of the calendar"});

        let (properties, required): (Value, &[&str]) = match self {
            Self::Search => (
                json!({
                    "query": string("What to search for, such as 'from:ana newer_than:7d'"),
                    "maxResults": count(gmail::MAILS_MAX)
                }),
                &["query"],
            ),
            Self::Read => (
                json!({"messageId": string("The id of the mail, as gmail_search gives it")}),
                &["messageId"],
            ),
            Self::Send => (
                json!({
                    "to": string("The addresses, separated by commas"),
                    "subject": string("The subject, in one line"),
                    "body": string("The text")
                }),
                &["to", "subject", "body"],
            ),
            Self::List => (
                json!({
                    "timeMin": string("From when on: a date, or a time such as 2026-01-31T09:00:00"),
                    "timeMax": string("Until when: a date, which counts whole, or a time"),
                    "query": string("Words that events must have"),
                    "maxResults": count(calendar::EVENTS_MAX),
                    "calendarId": calendar()
                }),
                &[],
            ),
            Self::Create => (
                json!({
                    "summary": string("The title"),
                    "start": string("When it starts: a time such as 2026-01-31T09:00:00, with an offset if it is not the user's, or a date for whole days"),
                    "end": string("When it ends: a time, or for whole days the date of the day after the last"),
                    "description": string("What it is about"),
                    "location": string("Where it is"),
                    "attendees": string("Mail addresses, separated by commas"),
                    "calendarId": calendar()
                }),
                &["summary", "start", "end"],
            ),
            Self::Get => (
                json!({
                    "eventId": string("The id of the event, as calendar_list_events gives it"),
                    "calendarId": calendar()
                }),
                &["eventId"],
            ),
        };
        json!({"type": "object", "properties": properties, "required": required})
    }
}

impl Executor for GoogleTool {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move {
            let cancelled = call.context.cancelled.clone();
            match cancelled.run_until_cancelled(self.run(&call.arguments)).await {
                Some(output) => Ok(output),
                None => Err(CallError::cancelled()),
            }
        })
    }

    fn coerce(&self, arguments: &mut Map<String, Value>) {
        arguments.retain(|_, value| !value.is_null());
        if let Some(count) = arguments.get("maxResults").and_then(whole_number) {
            arguments.insert("maxResults".to_owned(), count.into());
        }
    }
}

impl GoogleTool {
    async fn run(&self, arguments: &Map<String, Value>) -> Output {
        let google = &self.google.inner;
        let done = match self.operation {
            Operation::Search => gmail::search(google, arguments).await,
            Operation::Read => gmail::read(google, arguments).await,
            Operation::Send => gmail::send(google, arguments).await,
            Operation::List => calendar::list(google, arguments).await,
            Operation::Create => calendar::create(google, arguments).await,
            Operation::Get => calendar::get(google, arguments).await,
        };
        match done {
            Ok(text) => Output::text(text),
            Err(error) => Output::error(format!("Error in {}: {error}", self.operation.name())),
        }
    }
}
