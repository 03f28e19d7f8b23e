//! Interception, seen with a transport that never sends and is scripted.

use std::collections::VecDeque;
use std::convert::Infallible;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
    ClientResult, EmptyObject, InitializeRequest, InitializeRequestParams, ProgressToken,
};
use serde_json::{Value, json};

use super::*;

/// Sends nothing, and receives what it was given.
struct Scripted(VecDeque<Value>);

impl Transport<RoleClient> for Scripted {
    type Error = Infallible;

    fn send(
        &mut self,
        _: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        std::future::pending()
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.0.pop_front().map(|message| serde_json::from_value(message).expect("a message"))
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

fn tap(
    messages: impl IntoIterator<Item = Value>,
) -> (InterceptedTransport<Scripted>, Arc<WireState>) {
    let wire = WireState::new("s", Eraser::default());
    (InterceptedTransport::new(Scripted(messages.into_iter().collect()), Arc::clone(&wire)), wire)
}

fn cancel(id: i64) -> TxJsonRpcMessage<RoleClient> {
    let params = CancelledNotificationParam::new(Some(RequestId::Number(id)), None);
    TxJsonRpcMessage::<RoleClient>::notification(CancelledNotification::new(params).into())
}

fn call(id: i64, tag: &CallTag) -> TxJsonRpcMessage<RoleClient> {
    let mut request = CallToolRequest::new(CallToolRequestParams::new("t"));
    request.extensions.insert(tag.clone());
    let mut request = ClientRequest::CallToolRequest(request);
    request.get_meta_mut().set_progress_token(ProgressToken(RequestId::Number(id + 100)));
    TxJsonRpcMessage::<RoleClient>::request(request, RequestId::Number(id))
}

#[test]
fn a_server_that_takes_no_word_of_cancelled_calls_is_stuck() {
    let (mut tap, wire) = tap([]);
    for id in 0..1_024 {
        drop(tap.send(cancel(id)));
    }
    assert!(!wire.stuck.is_cancelled());
    drop(tap.send(cancel(1_024)));
    assert!(wire.stuck.is_cancelled());
}

#[tokio::test]
async fn nothing_is_kept_of_a_call_that_is_settled() {
    let answer = |id| json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
    let (mut tap, wire) = tap([answer(json!(1)), answer(json!(1)), answer(json!("2"))]);
    let tag = CallTag::new(Progress::to(|_| {}), Asker::none(), RawJson::of(&json!({})));
    for id in 1..=3 {
        drop(tap.send(call(id, &tag)));
    }
    assert!(tag.is_handed_over());
    assert!(tap.receive().await.is_some(), "the first answer");
    assert!(tap.receive().await.is_some(), "the third, for the second one answers nobody");
    drop(tap.send(cancel(3)));
    assert!(wire.pending.lock().has_no_request());
}

fn ping(id: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

fn taken_back(id: i64) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

fn reply(id: i64) -> TxJsonRpcMessage<RoleClient> {
    let result = ClientResult::EmptyResult(EmptyObject {});
    TxJsonRpcMessage::<RoleClient>::response(result, RequestId::Number(id))
}

fn initialize() -> TxJsonRpcMessage<RoleClient> {
    let request = InitializeRequest::new(InitializeRequestParams::default());
    TxJsonRpcMessage::<RoleClient>::request(request.into(), RequestId::Number(0))
}

#[tokio::test]
async fn a_server_has_only_so_many_requests_at_a_time() {
    let messages = (0..100).map(ping).chain([ping(5), taken_back(5), ping(200)]);
    let (mut tap, wire) = tap(messages);
    drop(tap.send(initialize()));
    let mut taken = 0;
    while tap.receive().await.is_some() {
        taken += 1;
    }
    // What is taken back keeps its place until its handler has ended.
    assert_eq!(taken, 64);
    assert!(wire.ended.is_cancelled());
}

#[tokio::test]
async fn a_reply_keeps_its_place_until_it_was_sent() {
    let (mut tap, wire) = tap([ping(1), taken_back(1), ping(2), taken_back(2), ping(3)]);
    drop(tap.send(initialize()));
    assert!(tap.receive().await.is_some(), "the first ping");
    let sending = tap.send(reply(1));
    assert!(tap.receive().await.is_some(), "the second one");
    assert!(wire.server_requests.try_admit(&RequestId::Number(1)).is_err(), "on its way");
    drop(sending);

    // The second one is taken back before there is a reply, and none is sent.
    assert!(tap.receive().await.is_some(), "the third one");
    tap.send(reply(2)).await.unwrap();
    assert!(wire.server_requests.try_admit(&RequestId::Number(2)).is_ok());
}
