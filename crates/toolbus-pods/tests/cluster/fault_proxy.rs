//! A client of the real cluster whose requests are written down, and meddled with on the way.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use kube::client::{Body, ClientBuilder, DynBody};
use parking_lot::Mutex;
use tokio::time::sleep;
use tower::{BoxError, Layer, Service};

use crate::support::config;

/// What becomes of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate {
    /// It goes its way.
    Pass,
    /// It arrives, and its answer comes so much later.
    Late(Duration),
    /// It arrives, and its answer is lost.
    Lost,
    /// The same where it is granted, which is noted.
    LostWhenGranted(&'static AtomicBool),
    /// It does not arrive; this is answered.
    Refused(u16),
    /// It does not arrive, and nothing is answered.
    Silent,
    /// It does not arrive: its connection was closed in that moment.
    Cut,
}

type Answer = Response<Box<DynBody>>;
type Judge = dyn Fn(&str, &str) -> Fate + Send + Sync;

/// What becomes of the first request of each kind, and the kinds that have met with it.
struct Firsts {
    fate: Fate,
    met: BTreeSet<String>,
}

/// Decides by method and path what becomes of requests, and remembers them.
#[derive(Clone)]
pub(crate) struct FaultProxy {
    judge: Arc<Mutex<Arc<Judge>>>,
    calls: Arc<Mutex<BTreeSet<String>>>,
    changes: Arc<Mutex<Vec<String>>>,
    firsts: Arc<Mutex<Option<Firsts>>>,
    prelude: Arc<Mutex<Option<&'static str>>>,
    attachments: Option<Client>,
}

impl FaultProxy {
    /// Lets everything pass, for the time being.
    pub(crate) fn new() -> Self {
        let pass: Arc<Judge> = Arc::new(|_, _| Fate::Pass);
        Self {
            judge: Arc::new(Mutex::new(pass)),
            calls: Arc::default(),
            changes: Arc::default(),
            firsts: Arc::default(),
            prelude: Arc::default(),
            attachments: None,
        }
    }

    /// The same, but streams of containers are attached to by this client.
    pub(crate) fn attaching_by(client: Client) -> Self {
        Self { attachments: Some(client), ..Self::new() }
    }

    /// From now on.
    pub(crate) fn judge(&self, judge: impl Fn(&str, &str) -> Fate + Send + Sync + 'static) {
        *self.judge.lock() = Arc::new(judge);
    }

    /// The first request of each kind meets with this from now on, whatever else is judged. Gives
    /// the kinds that did since the last time, as a Role names them.
    pub(crate) fn first_of_each(&self, fate: Fate) -> BTreeSet<String> {
        let before = self.firsts.lock().replace(Firsts { fate, met: BTreeSet::new() });
        before.map(|before| before.met).unwrap_or_default()
    }

    /// The first processes of pods that are made from now on run these lines before their own.
    pub(crate) fn run_before(&self, lines: &'static str) {
        *self.prelude.lock() = Some(lines);
    }

    fn fate_of_first(&self, kind: &str) -> Option<Fate> {
        let mut firsts = self.firsts.lock();
        let Firsts { fate, met } = firsts.as_mut()?;
        met.insert(kind.to_owned()).then_some(*fate)
    }

    /// A client whose requests pass here, as this user where one is named.
    pub(crate) async fn client(&self, user: Option<&str>) -> Option<Client> {
        let mut config = config().await?;
        config.auth_info.impersonate = user.map(str::to_owned);
        let builder = ClientBuilder::try_from(config).expect("a client");
        Some(builder.with_layer(self).build())
    }

    /// Every kind of request that was made: verb and resource, as a Role names them.
    pub(crate) fn calls(&self) -> BTreeSet<String> {
        self.calls.lock().clone()
    }

    /// The requests that change pods, in the order in which they were made since the last time.
    pub(crate) fn changes(&self) -> Vec<String> {
        std::mem::take(&mut self.changes.lock())
    }
}

impl<S> Layer<S> for FaultProxy {
    type Service = Meddling<S>;

    fn layer(&self, inner: S) -> Meddling<S> {
        Meddling { inner, fault_proxy: self.clone() }
    }
}

pub(crate) struct Meddling<S> {
    inner: S,
    fault_proxy: FaultProxy,
}

impl<S> Service<Request<Body>> for Meddling<S>
where
    S: Service<Request<Body>, Response = Answer, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Answer;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Answer, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let is_new_pod = request.method() == "POST" && request.uri().path().ends_with("/pods");
        if let Some(prelude) = self.fault_proxy.prelude.lock().filter(|_| is_new_pod) {
            request = request.map(|body| with_prelude(body, prelude));
        }
        let (method, path) = (request.method().as_str(), request.uri().path());
        let query = request.uri().query().unwrap_or_default();
        let kind = as_in_a_role(method, path, query);
        let judge = Arc::clone(&self.fault_proxy.judge.lock());
        let first = self.fault_proxy.fate_of_first(&kind);
        let fate = first.unwrap_or_else(|| judge(method, path));
        if method != "GET" && kind.ends_with(" pods") {
            self.fault_proxy.changes.lock().push(kind.clone());
        }
        self.fault_proxy.calls.lock().insert(kind);
        let attachments =
            self.fault_proxy.attachments.clone().filter(|_| path.ends_with("/attach"));
        let passing = match fate {
            Fate::Pass | Fate::Late(_) | Fate::Lost | Fate::LostWhenGranted(_) => {
                Some(match attachments {
                    Some(client) => async move { answer_of(client.send(request).await) }.boxed(),
                    None => self.inner.call(request).boxed(),
                })
            }
            Fate::Refused(_) | Fate::Silent | Fate::Cut => None,
        };
        Box::pin(async move {
            let answer = match passing {
                Some(passing) => Some(passing.await?),
                None => None,
            };
            match (fate, answer) {
                (Fate::Late(time), Some(answer)) => {
                    // sleeps: the delay of the fault.
                    sleep(time).await;
                    Ok(answer)
                }
                (Fate::Lost, _) => Err("the answer was lost".into()),
                (Fate::LostWhenGranted(noted), Some(answer)) if answer.status().is_success() => {
                    noted.store(true, Ordering::Relaxed);
                    Err("the answer was lost".into())
                }
                (Fate::Cut, _) => Err("the connection was closed".into()),
                (Fate::Refused(code), _) => Ok(refusal(code)),
                (_, Some(answer)) => Ok(answer),
                (_, None) => std::future::pending().await,
            }
        })
    }
}

/// A pod's description, with lines before its program.
fn with_prelude(pod: Body, prelude: &str) -> Body {
    let pod = pod.collect().now_or_never().expect("it is all there").expect("bytes").to_bytes();
    let mut pod: serde_json::Value = serde_json::from_slice(&pod).expect("JSON");
    let program = &mut pod["spec"]["containers"][0]["command"][4];
    *program = format!("{prelude}{}", program.as_str().expect("a program")).into();
    Body::from(serde_json::to_vec(&pod).expect("JSON"))
}

fn answer_of(answer: kube::Result<Response<Body>>) -> Result<Answer, BoxError> {
    Ok(answer?.map(|body| Box::new(body.map_err(BoxError::from)) as Box<DynBody>))
}

fn refusal(code: u16) -> Answer {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": "Meddled", "message": "refused by the test",
    });
    let body = Full::from(serde_json::to_vec(&status).expect("JSON"));
    let body: Box<DynBody> = Box::new(body.map_err(|never| match never {}));
    Response::builder().status(code).body(body).expect("an answer")
}

/// `patch pods`, `get pods/log`, `create selfsubjectrulesreviews.authorization.k8s.io` and so on.
fn as_in_a_role(method: &str, path: &str, query: &str) -> String {
    let mut parts = path.trim_matches('/').split('/');
    let group = match parts.next() {
        Some("apis") => parts.next().unwrap_or_default(),
        _ => "",
    };
    let mut rest: Vec<&str> = parts.skip(1).collect();
    // A namespace before something in it; by itself it is what is asked for.
    if rest.first() == Some(&"namespaces") && rest.len() > 2 {
        rest.drain(..2);
    }
    let (resource, name) = (rest.first().copied().unwrap_or_default(), rest.get(1));
    let verb = match method {
        "GET" if query.contains("watch=true") => "watch",
        "GET" if name.is_none() => "list",
        "GET" => "get",
        "POST" => "create",
        "PATCH" => "patch",
        "PUT" => "update",
        "DELETE" => "delete",
        other => other,
    };
    let subresource = rest.get(2).map(|name| format!("/{name}")).unwrap_or_default();
    let group = if group.is_empty() { String::new() } else { format!(".{group}") };
    format!("{verb} {resource}{group}{subresource}")
}
