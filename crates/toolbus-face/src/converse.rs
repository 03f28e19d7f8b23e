//! One request that may ask its client something: in the way of the client's era.
//!
//! A client of the older era is asked by requests of ours while it waits. One of the newer era gets
//! the questions as the result, and its call is kept until it comes back with the answers.

use futures_util::future::BoxFuture;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolResponse, ErrorData, GetPromptResponse, InputRequiredResult, InputResponses,
    ReadResourceResponse,
};
use rmcp::service::RequestContext;
use toolbus_wire::message::toolbus::{AskError, AskErrorCode};

use crate::era;
use crate::handler::Handler;
use crate::kept::Identity;
use crate::news::News;
use crate::questions::{Questions, kinds};
use crate::talk::{Ended, Means, Reply, Talk, Turn};

/// What a client is answered.
pub(crate) enum Answer {
    Complete(Reply),
    InputRequired(InputRequiredResult),
}

impl Handler {
    /// Begins a call. `brought` is what the client answers before it is asked.
    pub(crate) async fn begin(
        &self,
        request: Identity,
        brought: Option<InputResponses>,
        context: &RequestContext<RoleServer>,
        begin: impl FnOnce(Means) -> BoxFuture<'static, Ended>,
    ) -> Result<Answer, ErrorData> {
        let news = News::of(context, self.log().threshold(context));
        let client = context.client_capabilities().unwrap_or_default();
        if era::is_newer(context) && !kinds(&client).is_empty() {
            let brought = brought.unwrap_or_default();
            let talk = Talk::begin(self.kept(), client, brought, news.progress(), begin);
            return self.attend(talk, request, news, context).await;
        }
        let questions = Questions::of(context);
        let call = begin(Means {
            cancelled: context.ct.clone(),
            progress: news.progress(),
            asker: questions.asker(),
        });
        news.tell_during(questions.answer_during(call)).await.map(Answer::Complete)
    }

    /// Goes on with the call that the client was asked by.
    pub(crate) async fn go_on(
        &self,
        request: Identity,
        state: &str,
        responses: Option<InputResponses>,
        context: &RequestContext<RoleServer>,
    ) -> Result<Answer, ErrorData> {
        let mut talk = self.kept().take(state, &request)?;
        let client = context.client_capabilities().unwrap_or_default();
        talk.answer(responses.unwrap_or_default(), client);
        let news = News::of(context, self.log().threshold(context));
        talk.line.lead_to(news.progress());
        self.attend(talk, request, news, context).await
    }

    /// Waits for the end of the call, or for what it asks. A client that gives the request up
    /// gives the call up.
    async fn attend(
        &self,
        mut talk: Talk,
        request: Identity,
        news: News,
        context: &RequestContext<RoleServer>,
    ) -> Result<Answer, ErrorData> {
        let progress = news.progress();
        let attended = async {
            loop {
                let turn = tokio::select! {
                    biased;
                    turn = talk.next() => turn,
                    () = context.ct.cancelled() => {
                        return Err(ErrorData::internal_error("the request was cancelled", None));
                    }
                };
                let questions = match turn {
                    Turn::Ended(ended) => return ended.map(Answer::Complete),
                    Turn::Asks(questions) => questions,
                };
                talk.pause();
                talk = match self.kept().put(talk, request.clone()) {
                    Ok(state) => {
                        let result = InputRequiredResult::new(Some(questions), Some(state));
                        return Ok(Answer::InputRequired(result));
                    }
                    Err(back) => *back,
                };
                let text = "too many clients are away to answer questions";
                talk.refuse(&AskError::new(AskErrorCode::Busy, text));
                talk.line.lead_to(progress.clone());
            }
        };
        news.tell_during(attended).await
    }
}

impl Answer {
    pub(crate) fn of_tool(self) -> Result<CallToolResponse, ErrorData> {
        match self {
            Self::InputRequired(result) => Ok(result.into()),
            Self::Complete(Reply::Tool(result)) => Ok(result.into()),
            Self::Complete(_) => Err(mixed_up()),
        }
    }

    pub(crate) fn of_prompt(self) -> Result<GetPromptResponse, ErrorData> {
        match self {
            Self::InputRequired(result) => Ok(result.into()),
            Self::Complete(Reply::Prompt(result)) => Ok(result.into()),
            Self::Complete(_) => Err(mixed_up()),
        }
    }

    pub(crate) fn of_resource(self) -> Result<ReadResourceResponse, ErrorData> {
        match self {
            Self::InputRequired(result) => Ok(result.into()),
            Self::Complete(Reply::Resource(result)) => Ok(result.into()),
            Self::Complete(_) => Err(mixed_up()),
        }
    }
}

/// A state is bound to the method of its request, so this cannot be reached from outside.
fn mixed_up() -> ErrorData {
    ErrorData::internal_error("the call has ended as one of another method would", None)
}
