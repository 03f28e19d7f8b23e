//! Rounds of input: how a request asks its client something, by the client's protocol version.
//!
//! A client of the older era is asked by requests of ours while it waits. One of the newer era gets
//! the questions as the result, and its call is suspended until it comes back with the answers.

use futures_util::future::BoxFuture;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolResponse, ErrorData, GetPromptResponse, GetPromptResult, InputRequiredResult,
    InputResponses, ReadResourceResponse, ReadResourceResult,
};
use rmcp::service::RequestContext;
use toolbus_wire::json::RawJson;
use toolbus_wire::message::toolbus::{AskError, AskErrorCode};

use crate::handler::Handler;
use crate::outcome;
use crate::pending_call::{CallOutcome, ClientLinks, NewCall, PendingCall, PendingCallEvent};
use crate::progress_relay::ProgressRelay;
use crate::protocol_version;
use crate::questions::{Questions, question_kinds};
use crate::suspended_calls::RequestIdentity;
use crate::written_results::ResultSlot;

/// What a client is answered.
pub(crate) enum RequestAnswer {
    Complete(RawJson),
    InputRequired(InputRequiredResult),
}

impl Handler {
    /// Begins a call. `early_answers` is what the client answers before it is asked.
    pub(crate) async fn begin_call(
        &self,
        request: RequestIdentity,
        early_answers: Option<InputResponses>,
        context: &RequestContext<RoleServer>,
        new: NewCall<impl FnOnce(ClientLinks) -> BoxFuture<'static, CallOutcome>>,
    ) -> Result<RequestAnswer, ErrorData> {
        let relay = ProgressRelay::of(context, self.log().threshold(context));
        let client = context.client_capabilities().unwrap_or_default();
        if protocol_version::is_stateless(context) && !question_kinds(&client).is_empty() {
            let early_answers = early_answers.unwrap_or_default();
            let call = PendingCall::begin(
                self.suspended_calls(),
                client,
                early_answers,
                relay.progress(),
                new,
            );
            return Box::pin(self.await_event(call, request, relay, context)).await;
        }

        let questions = Questions::of(context);
        let call = (new.begin)(ClientLinks {
            cancelled: context.ct.clone(),
            progress: relay.progress(),
            asker: questions.asker(),
        });
        relay.relay_during(questions.answer_during(call)).await.map(RequestAnswer::Complete)
    }

    /// Goes on with the call that the client was asked by.
    pub(crate) async fn resume_call(
        &self,
        request: RequestIdentity,
        state: &str,
        responses: Option<InputResponses>,
        context: &RequestContext<RoleServer>,
    ) -> Result<RequestAnswer, ErrorData> {
        let mut call = self.suspended_calls().resume(state, &request)?;
        // Those that come back go before new ones. A client that gives up gives the call up.
        match context.ct.run_until_cancelled(call.slot.resume()).await {
            Some(Ok(())) => {}
            Some(Err(closed)) => return Err(ErrorData::internal_error(closed.to_string(), None)),
            None => return Err(cancelled_error()),
        }

        let client = context.client_capabilities().unwrap_or_default();
        call.take_answers(responses.unwrap_or_default(), client);

        let relay = ProgressRelay::of(context, self.log().threshold(context));
        call.progress.redirect_to(relay.progress());
        Box::pin(self.await_event(call, request, relay, context)).await
    }

    /// Waits for the end of the call, or for what it asks. A client that gives the request up
    /// gives the call up.
    async fn await_event(
        &self,
        mut call: PendingCall,
        request: RequestIdentity,
        relay: ProgressRelay,
        context: &RequestContext<RoleServer>,
    ) -> Result<RequestAnswer, ErrorData> {
        let progress = relay.progress();
        let waiting = async {
            loop {
                let event = tokio::select! {
                    biased;
                    event = call.next_event() => event,
                    () = context.ct.cancelled() => {
                        return Err(cancelled_error());
                    }
                };
                let questions = match event {
                    PendingCallEvent::Finished(ended) => return ended.map(RequestAnswer::Complete),
                    PendingCallEvent::NeedsInput(questions) => questions,
                };

                call.disconnect_progress();
                call = match self.suspended_calls().suspend(call, request.clone()) {
                    Ok(state) => {
                        let result = InputRequiredResult::new(Some(questions), Some(state));
                        return Ok(RequestAnswer::InputRequired(result));
                    }
                    Err(back) => *back,
                };

                let text = "too many clients are away to answer questions";
                call.refuse_questions(&AskError::new(AskErrorCode::Busy, text));
                call.progress.redirect_to(progress.clone());
            }
        };
        relay.relay_during(waiting).await
    }
}

fn cancelled_error() -> ErrorData {
    ErrorData::internal_error("the request was cancelled", None)
}

impl RequestAnswer {
    /// The answer to a call of a tool. A result goes into the slot, and what is answered stands in
    /// for it.
    pub(crate) fn into_tool_response(self, slot: &ResultSlot) -> CallToolResponse {
        match self {
            Self::InputRequired(result) => result.into(),
            Self::Complete(result) => outcome::tool_stand_in(result, slot).into(),
        }
    }

    /// The same for a prompt.
    pub(crate) fn into_prompt_response(self, slot: &ResultSlot) -> GetPromptResponse {
        match self {
            Self::InputRequired(result) => result.into(),
            Self::Complete(result) => {
                let mut stand_in = GetPromptResult::new(Vec::new());
                stand_in.meta = Some(slot.keep(result));
                stand_in.into()
            }
        }
    }

    /// The same for a resource.
    pub(crate) fn into_resource_response(self, slot: &ResultSlot) -> ReadResourceResponse {
        match self {
            Self::InputRequired(result) => result.into(),
            Self::Complete(result) => {
                let mut stand_in = ReadResourceResult::new(Vec::new());
                stand_in.meta = Some(slot.keep(result));
                stand_in.into()
            }
        }
    }
}
