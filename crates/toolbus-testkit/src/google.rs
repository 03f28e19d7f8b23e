//! Google, as far as tests need it: its OAuth, and its APIs of Gmail and Calendar, where each
//! request and each answer is checked against the documents that Google publishes of them.

mod discovery;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::scripted_server::{Asked, Part, Reply, Server};
use discovery::{Discovery, parse_form};

/// The client that it knows.
pub const CLIENT_ID: &str = "canary-client-id.apps.example";
/// Its secret.
pub const CLIENT_SECRET: &str = "canary-client-secret";
/// What every token begins with.
pub const TOKEN_MARK: &str = "canary-token-";

/// A running server. It is gone when it is dropped.
pub struct Google {
    server: Server,
    state: Arc<Mutex<State>>,
}

/// What an API answers.
pub enum Answer {
    /// A value that the method has, which is checked.
    Json(Value),
    /// Anything.
    Reply(Reply),
}

/// What the person at a device does, question by question.
pub type DeviceScript = Vec<&'static str>;

type Api = Box<dyn FnMut(&str, &Asked) -> Answer + Send>;

struct State {
    discovery: Discovery,
    api: Api,
    /// Codes of browsers, with what was asked for.
    codes: BTreeMap<String, BTreeMap<String, String>>,
    /// Tokens that are good, with their scopes.
    refresh_tokens: BTreeMap<String, Vec<String>>,
    access_tokens: BTreeMap<String, Vec<String>>,
    made: usize,
    refreshes: usize,
    revoked: Vec<String>,
    device_script: DeviceScript,
    device_scopes: Vec<String>,
    /// Scopes that the person leaves out.
    denied_scope: Option<&'static str>,
    /// What a refresh is answered with instead of a token.
    refresh_reply: Option<Reply>,
    revoke_reply: Option<Reply>,
    access_is_refused: bool,
    violations: Vec<String>,
}

impl Google {
    /// Starts it, with APIs that answer so: with the id of a method, such as
    /// `gmail.users.messages.list`. `None` where the documents have not been fetched and may be
    /// missing.
    ///
    /// # Panics
    /// When they are missing and `TOOLBUS_REQUIRE_REAL` is `1`.
    pub async fn start(api: impl FnMut(&str, &Asked) -> Answer + Send + 'static) -> Option<Self> {
        let state = Arc::new(Mutex::new(State {
            discovery: Discovery::load()?,
            api: Box::new(api),
            codes: BTreeMap::new(),
            refresh_tokens: BTreeMap::new(),
            access_tokens: BTreeMap::new(),
            made: 0,
            refreshes: 0,
            revoked: Vec::new(),
            device_script: Vec::new(),
            device_scopes: Vec::new(),
            denied_scope: None,
            refresh_reply: None,
            revoke_reply: None,
            access_is_refused: false,
            violations: Vec::new(),
        }));

        let answering = Arc::clone(&state);
        let server = Server::answering_any(move |asked| answering.lock().answer(asked)).await;
        Some(Self { server, state })
    }

    /// Where it is, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> &str {
        self.server.url.strip_suffix("/v1").expect("it ends so")
    }

    /// What it was asked of its APIs.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        let is_api = |asked: &Asked| !asked.path.starts_with("/oauth/");
        self.server.asked().into_iter().filter(is_api).collect()
    }

    /// A refresh token with these scopes, as a login gives it.
    #[must_use]
    pub fn new_refresh_token(&self, scopes: &[&str]) -> String {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        self.state.lock().new_refresh_token(scopes)
    }

    /// How often an access token was refreshed.
    #[must_use]
    pub fn refreshes(&self) -> usize {
        self.state.lock().refreshes
    }

    /// Which tokens were revoked.
    #[must_use]
    pub fn revoked(&self) -> Vec<String> {
        self.state.lock().revoked.clone()
    }

    /// Forgets the access tokens, as Google does when a password changes.
    pub fn forget_access_tokens(&self) {
        self.state.lock().access_tokens.clear();
    }

    /// Refuses every access token from now on.
    pub fn refuse_access_tokens(&self) {
        self.state.lock().access_is_refused = true;
    }

    /// Answers refreshes so.
    pub fn refresh_with(&self, reply: Reply) {
        self.state.lock().refresh_reply = Some(reply);
    }

    /// Answers revocations so.
    pub fn revoke_with(&self, reply: Reply) {
        self.state.lock().revoke_reply = Some(reply);
    }

    /// The person at the device does this: each is the error of a question, and then it is granted.
    pub fn script_device(&self, script: DeviceScript) {
        self.state.lock().device_script = script;
    }

    /// The person does not allow this scope.
    pub fn deny(&self, scope: &'static str) {
        self.state.lock().denied_scope = Some(scope);
    }

    /// Asserts that all that was asked is in the documents.
    ///
    /// # Panics
    /// When something is not.
    pub fn assert_valid(&self) {
        assert_eq!(self.state.lock().violations, Vec::<String>::new());
    }
}

impl State {
    fn answer(&mut self, asked: &Asked) -> Reply {
        let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
        let form: BTreeMap<_, _> = match asked.body.as_str() {
            Some(body) => parse_form(body).into_iter().collect(),
            None => parse_form(query).into_iter().collect(),
        };
        match (asked.method.as_str(), path) {
            ("GET", "/oauth/authorize") => self.authorize(form),
            ("POST", "/oauth/token") => self.token(&form),
            ("POST", "/oauth/device") => self.device(&form),
            ("POST", "/oauth/revoke") => self.revoke(&form),
            (method, path) => match self.call(method, path, query, asked) {
                Ok(reply) => reply,
                Err(problem) => {
                    let reply = api_error(400, &problem);
                    self.violations.push(problem);
                    reply
                }
            },
        }
    }

    fn call(
        &mut self,
        method: &str,
        path: &str,
        query: &str,
        asked: &Asked,
    ) -> Result<Reply, String> {
        let found = self.discovery.find(method, path)?;
        found.check_query(&parse_form(query))?;
        found.check_body(&asked.body)?;
        if !asked.body.is_null() && asked.headers["content-type"] != "application/json" {
            return Err("a body is JSON".to_owned());
        }

        let token =
            asked.headers.get("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let token = token.ok_or("there is no token")?;
        let Some(scopes) = self.access_tokens.get(token).filter(|_| !self.access_is_refused) else {
            // Google does not repeat what it refuses; this server tries it.
            return Ok(api_error(401, &format!("Invalid Credentials {token}")));
        };
        if !found.allows(scopes) {
            return Ok(api_error(403, "Request had insufficient authentication scopes."));
        }

        match (self.api)(found.id(), asked) {
            Answer::Json(value) => {
                found.check_answer(&value)?;
                Ok(Reply::json(200, &value))
            }
            Answer::Reply(reply) => Ok(reply),
        }
    }

    fn authorize(&mut self, form: BTreeMap<String, String>) -> Reply {
        let value = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        let expected = [
            ("response_type", "code"),
            ("client_id", CLIENT_ID),
            ("code_challenge_method", "S256"),
            ("access_type", "offline"),
            ("prompt", "consent"),
        ];
        for (name, expected) in expected {
            if value(name) != expected {
                self.violations.push(format!("authorize: {name} is '{}'", value(name)));
            }
        }
        let redirect = value("redirect_uri").to_owned();
        if !redirect.starts_with("http://127.0.0.1:") || value("state").len() < 16 {
            self.violations.push(format!("authorize: {form:?}"));
        }

        self.made += 1;
        let code = format!("canary-code-{}", self.made);
        let state = value("state").to_owned();
        self.codes.insert(code.clone(), form);
        Reply::empty(302).header("location", &format!("{redirect}?state={state}&code={code}"))
    }

    fn token(&mut self, form: &BTreeMap<String, String>) -> Reply {
        let value = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        if value("client_id") != CLIENT_ID || value("client_secret") != CLIENT_SECRET {
            return oauth_error(401, "invalid_client");
        }

        match value("grant_type") {
            "authorization_code" => {
                let Some(asked) = self.codes.remove(value("code")) else {
                    return oauth_error(400, "invalid_grant");
                };
                let digest = Sha256::digest(value("code_verifier"));
                let is_same = URL_SAFE_NO_PAD.encode(digest) == asked["code_challenge"]
                    && value("redirect_uri") == asked["redirect_uri"];
                if !is_same {
                    return oauth_error(400, "invalid_grant");
                }
                self.grant(&asked["scope"])
            }
            "refresh_token" => self.refresh(value("refresh_token")),
            "urn:ietf:params:oauth:grant-type:device_code" => {
                if value("device_code") != "canary-device-code" {
                    return oauth_error(400, "invalid_grant");
                }
                if !self.device_script.is_empty() {
                    // As Google does.
                    let error = self.device_script.remove(0);
                    return oauth_error(
                        if error == "authorization_pending" { 428 } else { 403 },
                        error,
                    );
                }
                self.grant(&self.device_scopes.join(" "))
            }
            _ => oauth_error(400, "unsupported_grant_type"),
        }
    }

    fn refresh(&mut self, refresh_token: &str) -> Reply {
        self.refreshes += 1;
        if let Some(reply) = &self.refresh_reply {
            return reply.clone();
        }
        let Some(scopes) = self.refresh_tokens.get(refresh_token).cloned() else {
            let text =
                format!("Token {refresh_token} of {CLIENT_SECRET} has been expired or revoked.");
            let body = json!({"error": "invalid_grant", "error_description": text});
            return Reply::json(400, &body);
        };
        let body = json!({
            "access_token": self.new_access_token(scopes), "expires_in": 3599,
            "token_type": "Bearer"
        });
        // Time for another call to come along.
        Reply::empty(200)
            .header("content-type", "application/json; charset=utf-8")
            .then(Part::Wait(Duration::from_millis(100)))
            .then(Part::Bytes(body.to_string().into_bytes()))
    }

    fn grant(&mut self, scopes: &str) -> Reply {
        let scopes = scopes.split(' ').filter(|scope| Some(*scope) != self.denied_scope);
        let scopes: Vec<_> = scopes.map(str::to_owned).collect();
        Reply::json(
            200,
            &json!({
                "access_token": self.new_access_token(scopes.clone()), "expires_in": 3599,
                "refresh_token": self.new_refresh_token(scopes.clone()),
                "scope": scopes.join(" "), "token_type": "Bearer"
            }),
        )
    }

    fn device(&mut self, form: &BTreeMap<String, String>) -> Reply {
        let value = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        if value("client_id") != CLIENT_ID {
            return oauth_error(401, "invalid_client");
        }
        if self.device_script.first() == Some(&"invalid_scope") {
            return oauth_error(400, "invalid_scope");
        }
        self.device_scopes = value("scope").split(' ').map(str::to_owned).collect();
        // Google has another name for the address.
        Reply::json(
            200,
            &json!({
                "device_code": "canary-device-code", "user_code": "ABCD-EFGH",
                "verification_url": "https://www.google.com/device", "expires_in": 1800,
                "interval": 1
            }),
        )
    }

    fn revoke(&mut self, form: &BTreeMap<String, String>) -> Reply {
        let token = form.get("token").cloned().unwrap_or_default();
        self.revoked.push(token.clone());
        if let Some(reply) = &self.revoke_reply {
            return reply.clone();
        }
        match self.refresh_tokens.remove(&token) {
            Some(_) => Reply::json(200, &json!({})),
            None => oauth_error(400, "invalid_token"),
        }
    }

    fn new_refresh_token(&mut self, scopes: Vec<String>) -> String {
        self.made += 1;
        let token = format!("{TOKEN_MARK}refresh//{}", self.made);
        self.refresh_tokens.insert(token.clone(), scopes);
        token
    }

    fn new_access_token(&mut self, scopes: Vec<String>) -> String {
        self.made += 1;
        let token = format!("{TOKEN_MARK}access-{}", self.made);
        self.access_tokens.insert(token.clone(), scopes);
        token
    }
}

/// An error of an API.
#[must_use]
pub fn api_error(status: u16, message: &str) -> Reply {
    Reply::json(status, &json!({"error": {"code": status, "message": message}}))
}

fn oauth_error(status: u16, code: &str) -> Reply {
    Reply::json(status, &json!({"error": code}))
}
