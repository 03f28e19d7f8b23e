//! A fake API server for Leases and pods that are never run: it stores objects, counts their
//! versions, and refuses changes of what does not exist or is not as it was seen.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::jiff::Timestamp;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::{BoxError, Service};
use url::form_urlencoded;

use crate::pod_spec::MANAGER;

pub(crate) const NAMESPACE: &str = "scripts";

#[derive(Clone, Default)]
pub(crate) struct FakeCluster {
    state: Arc<Mutex<FakeState>>,
}

/// Whether requests are heard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Hearing {
    #[default]
    Well,
    /// What is asked for is done, and nothing is answered.
    Mute,
    /// Nothing arrives, and nothing is answered.
    Deaf,
}

#[derive(Default)]
struct FakeState {
    hearing: Hearing,
    /// How many requests were made.
    requests: usize,
    version: u64,
    /// By collection and name.
    objects: BTreeMap<(String, String), Value>,
    /// What pods have said, by their names.
    logs: BTreeMap<String, String>,
}

/// A code, and the reason of a refusal.
type ApiRefusal = (u16, &'static str);
const GONE: ApiRefusal = (404, "NotFound");

impl FakeCluster {
    /// From now on.
    pub(crate) fn is_watching(&self, hearing: Hearing) {
        self.state.lock().hearing = hearing;
    }

    /// How many requests there were so far.
    pub(crate) fn requests(&self) -> usize {
        self.state.lock().requests
    }

    /// Makes a pod another manager's.
    pub(crate) fn take_over(&self, pod: &str, manager: &str) {
        let patch = json!({"metadata": {"labels": {MANAGER: manager}}});
        let place = ("pods".to_owned(), pod.to_owned());
        self.state.lock().patch(&place, &patch).expect("a pod");
    }

    /// Has the log of a pod say this.
    pub(crate) fn log_says(&self, pod: &str, text: &str) {
        self.state.lock().logs.insert(pod.to_owned(), text.to_owned());
    }

    /// The names of all objects of a collection.
    pub(crate) fn names(&self, collection: &str) -> Vec<String> {
        let state = self.state.lock();
        let names = state.objects.keys().filter(|(of, _)| of == collection);
        names.map(|(_, name)| name.clone()).collect()
    }

    /// When a manager renewed its Lease, by its own account.
    pub(crate) fn renewal(&self, manager: &str) -> Timestamp {
        let state = self.state.lock();
        let time = &state.objects[&lease_of(manager)]["spec"]["renewTime"];
        time.as_str().expect("a time").parse().expect("a time")
    }

    /// Changes that time.
    pub(crate) fn renewed_at(&self, manager: &str, time: &str) {
        let patch = json!({"spec": {"renewTime": time}});
        self.state.lock().patch(&lease_of(manager), &patch).expect("a Lease");
    }
}

fn lease_of(manager: &str) -> (String, String) {
    ("leases".to_owned(), format!("toolbus-scripts-{manager}"))
}

impl FakeState {
    fn record_request(
        &mut self,
        request: &Request<()>,
        body: &Value,
    ) -> Option<Result<Value, ApiRefusal>> {
        self.requests += 1;
        let arrives = self.hearing != Hearing::Deaf;
        let answer = arrives.then(|| self.answer(request, body));
        answer.filter(|_| self.hearing == Hearing::Well)
    }

    fn answer(&mut self, request: &Request<()>, body: &Value) -> Result<Value, ApiRefusal> {
        let (_, place) = request.uri().path().split_once(NAMESPACE).ok_or(GONE)?;
        let mut place = place.trim_matches('/').splitn(2, '/').map(str::to_owned);
        let collection = place.next().unwrap_or_default();
        let name = place.next();

        match (request.method(), name) {
            (&Method::GET, None) => Ok(self.list(&collection, request.uri().query())),
            (&Method::GET, Some(name)) if name.ends_with("/log") => {
                let log = self.logs.get(name.trim_end_matches("/log"));
                log.cloned().map(Value::String).ok_or(GONE)
            }
            (&Method::GET, Some(name)) => {
                self.objects.get(&(collection, name)).cloned().ok_or(GONE)
            }
            (&Method::POST, None) => self.create(collection, body),
            (&Method::PATCH, Some(name)) => self.patch(&(collection, name), body),
            (&Method::DELETE, Some(name)) => self.delete(&(collection, name), body),
            _ => Err((405, "MethodNotAllowed")),
        }
    }

    fn list(&self, collection: &str, query: Option<&str>) -> Value {
        let query = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let selectors: Vec<_> = query.filter(|(name, _)| name == "labelSelector").collect();
        let labels = selectors.iter().flat_map(|(_, selector)| selector.split(','));
        let labels: Vec<_> = labels.filter_map(|label| label.split_once('=')).collect();
        let is_selected = |object: &Value| {
            let own = &object["metadata"]["labels"];
            labels.iter().all(|(name, value)| own[*name] == *value)
        };
        let objects =
            self.objects.iter().filter(|((of, _), object)| of == collection && is_selected(object));
        let items: Vec<_> = objects.map(|(_, object)| object.clone()).collect();

        json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items})
    }

    fn create(&mut self, collection: String, body: &Value) -> Result<Value, ApiRefusal> {
        let name = body["metadata"]["name"].as_str().ok_or((422, "Invalid"))?.to_owned();
        if self.objects.contains_key(&(collection.clone(), name.clone())) {
            return Err((409, "AlreadyExists"));
        }
        self.version += 1;
        let mut object = body.clone();
        object["metadata"]["uid"] = json!(format!("uid-{}", self.version));
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert((collection, name), object.clone());
        Ok(object)
    }

    fn patch(&mut self, place: &(String, String), patch: &Value) -> Result<Value, ApiRefusal> {
        let object = self.objects.get_mut(place).ok_or(GONE)?;
        let seen = &patch["metadata"]["resourceVersion"];
        let current = &object["metadata"]["resourceVersion"];
        if !seen.is_null() && seen != current {
            return Err((409, "Conflict"));
        }
        self.version += 1;
        apply_merge_patch(object, patch);
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        Ok(object.clone())
    }

    fn delete(&mut self, place: &(String, String), options: &Value) -> Result<Value, ApiRefusal> {
        let object = self.objects.get(place).ok_or(GONE)?;
        for what in ["uid", "resourceVersion"] {
            let expected = &options["preconditions"][what];
            if !expected.is_null() && *expected != object["metadata"][what] {
                return Err((409, "Conflict"));
            }
        }
        self.objects.remove(place);
        Ok(json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"}))
    }
}

/// As RFC 7386 says.
fn apply_merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *target = patch.clone();
        return;
    };

    if !target.is_object() {
        *target = json!({});
    }

    for (name, value) in members {
        if value.is_null() {
            target.as_object_mut().expect("an object").remove(name);
        } else {
            apply_merge_patch(&mut target[name.as_str()], value);
        }
    }
}

impl Service<Request<Body>> for FakeCluster {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let state = Arc::clone(&self.state);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or_default();

            let answer = state.lock().record_request(&Request::from_parts(head, ()), &body);
            let Some(answer) = answer else { return pending().await };
            let (code, answer) = answer.map_or_else(
                |(code, reason)| {
                    let refusal = json!({
                        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
                        "code": code, "reason": reason, "message": reason,
                    });
                    (code, refusal)
                },
                |answer| (200, answer),
            );

            let body = match answer {
                Value::String(text) => text.into_bytes(),
                object => serde_json::to_vec(&object)?,
            };
            let body = Body::from(body);
            Ok(Response::builder().status(code).body(body)?)
        }
        .boxed()
    }
}
