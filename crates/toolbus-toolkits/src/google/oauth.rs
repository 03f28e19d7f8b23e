//! OAuth at Google: logins in a browser and with a device, refreshing and revoking tokens.
//!
//! Nothing is kept here: who logs a person in stores the refresh token, and calls have theirs from
//! the vault. Invariant: no error holds a code, a token or the client's secret.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use oauth2::basic::{BasicClient, BasicTokenResponse};
use oauth2::{
    AsyncHttpClient, AuthType, AuthUrl, AuthorizationCode, ClientId, ClientSecret, CsrfToken,
    DeviceAuthorizationUrl, EndpointNotSet, EndpointSet, ErrorResponse, ErrorResponseType,
    HttpRequest, HttpResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RefreshToken,
    RequestTokenError, Scope, StandardDeviceAuthorizationResponse, StandardErrorResponse,
    TokenResponse as _, TokenUrl,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use tokio::time::{sleep, timeout};
use toolbus_fetch::{BodyLimit, FetchRequest, Fetcher, Oversize};
use toolbus_json::Limits;
use zeroize::Zeroizing;

use super::endpoints::{Endpoint, Endpoints};
use super::product::Product;
use super::text::{erase, one_line};

/// Largest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Why Google refuses: a code and a sentence.
const REFUSAL_LIMITS: Limits = Limits::of_bytes(ANSWER_BYTES_MAX).with_values(1_000);
/// Longest text of Google that an error repeats, in characters.
const TEXT_CHARS_MAX: usize = 300;
/// Longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 8 << 10;
/// How long a device waits between two questions, at least.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long an access token is good for where Google does not say.
const TOKEN_TTL: Duration = Duration::from_secs(5 * 60);
/// The longest that an access token is taken for good, whatever Google says.
const TOKEN_TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

type Client = BasicClient<EndpointSet, EndpointSet, EndpointNotSet, EndpointNotSet, EndpointSet>;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthError {
    /// Google says no.
    #[error("Google refused: {code}{}", .description.as_ref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Refused {
        /// The code of OAuth, such as `invalid_grant`.
        code: String,
        /// What Google says of it.
        description: Option<String>,
    },
    /// Nobody confirmed it in time.
    #[error("nobody logged in within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// There is no answer.
    #[error("no answer of Google: {0}")]
    Request(#[from] toolbus_fetch::Error),
    /// There is one, and it is none of OAuth.
    #[error("the answer of Google cannot be read: {0}")]
    Unreadable(&'static str),
    /// The answer of the browser belongs to another login.
    #[error("the answer of the browser belongs to another login")]
    State,
    /// There is nothing to come back with.
    #[error(
        "Google gave no refresh token: remove the access of this client at \
             https://myaccount.google.com/connections, and log in again"
    )]
    NoRefreshToken,
}

/// A client of Google's OAuth, with its id and secret.
pub(super) struct OAuthClient {
    client: Client,
    secret: Zeroizing<String>,
    revoke: Endpoint,
    token: Endpoint,
    device: Endpoint,
    timeout: Duration,
    fetcher: Fetcher,
}

/// A login that a person finishes in a browser.
pub struct BrowserLogin {
    /// The page to open.
    pub url: Url,
    /// What the answer of the browser must carry.
    pub state: String,
    redirect: String,
    verifier: PkceCodeVerifier,
}

/// A login that a person finishes on another device.
pub struct DeviceLogin {
    /// The page to open.
    pub url: String,
    /// What to type there.
    pub code: String,
    response: StandardDeviceAuthorizationResponse,
}

/// What a login gave.
pub struct Granted {
    /// What calls get their access tokens by.
    pub refresh_token: Zeroizing<String>,
    /// For which products: a person may leave some out.
    pub products: Vec<Product>,
}

/// An access token.
#[derive(Clone)]
pub(super) struct AccessToken {
    pub(super) text: Zeroizing<String>,
    pub(super) ttl: Duration,
}

impl OAuthClient {
    pub(super) fn new(
        id: &str,
        secret: &str,
        endpoints: &Endpoints,
        timeout: Duration,
        fetcher: Fetcher,
    ) -> Self {
        let client = BasicClient::new(ClientId::new(id.to_owned()))
            .set_client_secret(ClientSecret::new(secret.to_owned()))
            .set_auth_type(AuthType::RequestBody)
            .set_auth_uri(AuthUrl::from_url(endpoints.authorize.url.clone()))
            .set_token_uri(TokenUrl::from_url(endpoints.token.url.clone()))
            .set_device_authorization_url(DeviceAuthorizationUrl::from_url(
                endpoints.device.url.clone(),
            ));
        Self {
            client,
            secret: Zeroizing::new(secret.to_owned()),
            revoke: endpoints.revoke.clone(),
            token: endpoints.token.clone(),
            device: endpoints.device.clone(),
            timeout,
            fetcher,
        }
    }

    /// Begins a login whose answer the browser brings to this address.
    pub(super) fn begin_browser(&self, products: &[Product], redirect: &str) -> BrowserLogin {
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let client = self.client.clone();
        let client = client.set_redirect_uri(redirect_url(redirect));
        let (url, state) = client
            .authorize_url(CsrfToken::new_random)
            .add_scopes(scopes(products))
            .set_pkce_challenge(challenge)
            // Else there is no refresh token, or none the second time.
            .add_extra_param("access_type", "offline")
            .add_extra_param("prompt", "consent")
            .url();
        BrowserLogin { url, state: state.into_secret(), redirect: redirect.to_owned(), verifier }
    }

    /// Takes the answer that the browser brought.
    pub(super) async fn finish_browser(
        &self,
        login: BrowserLogin,
        answer: &Url,
        products: &[Product],
    ) -> Result<Granted, OAuthError> {
        let value = |wanted: &str| {
            answer.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| value)
        };
        if value("state").is_none_or(|state| state != login.state) {
            return Err(OAuthError::State);
        }
        if let Some(code) = value("error") {
            return Err(refused(&code, None, &[&self.secret]));
        }
        let code = value("code").ok_or(OAuthError::Unreadable("it has no code"))?.into_owned();

        let client = self.client.clone().set_redirect_uri(redirect_url(&login.redirect));
        let request = client
            .exchange_code(AuthorizationCode::new(code.clone()))
            .set_pkce_verifier(login.verifier);
        let response = request.request_async(self).await;
        let response = response.map_err(|error| problem_of(error, &[&self.secret, &code]))?;
        granted(&response, products)
    }

    /// Begins a login on another device.
    pub(super) async fn begin_device(
        &self,
        products: &[Product],
    ) -> Result<DeviceLogin, OAuthError> {
        let request = self.client.exchange_device_code().add_scopes(scopes(products));
        let response = request.request_async(self).await;
        let response: StandardDeviceAuthorizationResponse =
            response.map_err(|error| problem_of(error, &[&self.secret]))?;
        Ok(DeviceLogin {
            url: one_line(response.verification_uri().as_str(), TEXT_CHARS_MAX),
            code: one_line(response.user_code().secret(), TEXT_CHARS_MAX),
            response,
        })
    }

    /// Asks until the person has confirmed it, up to a limit.
    pub(super) async fn finish_device(
        &self,
        login: &DeviceLogin,
        products: &[Product],
        limit: Duration,
    ) -> Result<Granted, OAuthError> {
        let limit = limit.min(login.response.expires_in());
        let request = self.client.exchange_device_access_token(&login.response);
        // The limit is kept here alone: the library reports its own as an expired code.
        let polled =
            request.request_async(self, |pause: Duration| sleep(pause.max(POLL_INTERVAL)), None);
        let response = timeout(limit, polled).await.map_err(|_| OAuthError::TimedOut(limit))?;
        let secrets: &[&str] = &[&self.secret, login.response.device_code().secret()];
        granted(&response.map_err(|error| problem_of(error, secrets))?, products)
    }

    /// A new access token.
    pub(super) async fn refresh(&self, refresh_token: &str) -> Result<AccessToken, OAuthError> {
        let token = RefreshToken::new(refresh_token.to_owned());
        let response = self.client.exchange_refresh_token(&token).request_async(self).await;
        let response =
            response.map_err(|error| problem_of(error, &[&self.secret, refresh_token]))?;
        let text = response.access_token().secret();
        check_token(text)?;
        let ttl = response.expires_in().unwrap_or(TOKEN_TTL).min(TOKEN_TTL_MAX);
        Ok(AccessToken { text: Zeroizing::new(text.clone()), ttl })
    }

    /// Has Google forget a refresh token, and all that was granted with it.
    pub(super) async fn revoke(&self, refresh_token: &str) -> Result<(), OAuthError> {
        let token = utf8_percent_encode(refresh_token, NON_ALPHANUMERIC);
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        let request = FetchRequest {
            method: Method::POST,
            headers: HeaderMap::from_iter([(CONTENT_TYPE, form)]),
            body: Some(Bytes::from(format!("token={token}"))),
            is_internal: self.revoke.is_internal,
            redirects_max: 0,
            timeout: self.timeout,
            ..FetchRequest::get(self.revoke.url.clone())
        };
        let response = self.fetcher.send(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }

        let limit = BodyLimit { bytes_max: ANSWER_BYTES_MAX, oversize: Oversize::Cut };
        let body = response.read(limit).await?;
        let said: serde_json::Value =
            toolbus_json::from_slice(&body.bytes, &REFUSAL_LIMITS).unwrap_or_default();
        let text = |name: &str| said.get(name).and_then(serde_json::Value::as_str);
        let code = text("error").map_or_else(|| format!("HTTP {}", status.as_u16()), str::to_owned);
        Err(refused(&code, text("error_description"), &[&self.secret, refresh_token]))
    }
}

impl<'c> AsyncHttpClient<'c> for OAuthClient {
    type Error = toolbus_fetch::Error;
    type Future = BoxFuture<'c, Result<HttpResponse, toolbus_fetch::Error>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        let (parts, body) = request.into_parts();
        let url = Url::parse(&parts.uri.to_string());
        Box::pin(async move {
            let url = url.map_err(|error| toolbus_fetch::Error::Request(error.to_string()))?;
            let named = [&self.token, &self.device];
            let is_internal = named.iter().any(|named| named.is_internal && named.url == url);
            let request = FetchRequest {
                method: parts.method,
                headers: parts.headers,
                body: Some(Bytes::from(body)),
                is_internal,
                redirects_max: 0,
                timeout: self.timeout,
                ..FetchRequest::get(url)
            };

            let response = self.fetcher.send(request).await?;
            let mut answer = HttpResponse::new(Vec::new());
            *answer.status_mut() = response.status();
            *answer.headers_mut() = response.headers().clone();
            let limit = BodyLimit { bytes_max: ANSWER_BYTES_MAX, oversize: Oversize::Refuse };
            *answer.body_mut() = response.read(limit).await?.bytes;
            Ok(answer)
        })
    }
}

fn redirect_url(text: &str) -> RedirectUrl {
    RedirectUrl::new(text.to_owned()).expect("the address of a port is a URL")
}

fn scopes(products: &[Product]) -> impl Iterator<Item = Scope> {
    let scopes = products.iter().flat_map(|product| product.scopes());
    scopes.map(|scope| Scope::new((*scope).to_owned()))
}

fn granted(response: &BasicTokenResponse, asked: &[Product]) -> Result<Granted, OAuthError> {
    let token = response.refresh_token().ok_or(OAuthError::NoRefreshToken)?;
    check_token(token.secret())?;
    // Where nothing is said, all was granted.
    let is_granted = |product: &Product| match response.scopes() {
        Some(scopes) => product
            .scopes()
            .iter()
            .all(|needed| scopes.iter().any(|scope| scope.as_str() == *needed)),
        None => true,
    };
    Ok(Granted {
        refresh_token: Zeroizing::new(token.secret().clone()),
        products: asked.iter().copied().filter(is_granted).collect(),
    })
}

/// A token goes into a header and into the vault.
fn check_token(text: &str) -> Result<(), OAuthError> {
    let is_token = (1..=TOKEN_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_token { Ok(()) } else { Err(OAuthError::Unreadable("its token is none")) }
}

fn problem_of<T>(
    error: RequestTokenError<toolbus_fetch::Error, StandardErrorResponse<T>>,
    secrets: &[&str],
) -> OAuthError
where
    T: ErrorResponseType + AsRef<str> + 'static,
    StandardErrorResponse<T>: ErrorResponse,
{
    match error {
        RequestTokenError::ServerResponse(said) => {
            refused(said.error().as_ref(), said.error_description().map(String::as_str), secrets)
        }
        RequestTokenError::Request(error) => OAuthError::Request(error),
        RequestTokenError::Parse(..) => OAuthError::Unreadable("it is not what OAuth says"),
        RequestTokenError::Other(_) => OAuthError::Unreadable("it is empty or of another type"),
    }
}

fn refused(code: &str, description: Option<&str>, secrets: &[&str]) -> OAuthError {
    let clean = |text: &str| one_line(&erase(text, secrets), TEXT_CHARS_MAX);
    OAuthError::Refused { code: clean(code), description: description.map(clean) }
}
