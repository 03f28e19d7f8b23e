//! One model behind one address.

use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use reqwest::{Response, redirect};
use tokio::time::{Instant, timeout_at};
use toolbus_tools::tokens;
use tracing::Instrument as _;
use url::Url;

use super::answer::Answer;
use super::anthropic::{self, AnthropicRequest, AnthropicStream};
use super::chat::{self, ChatFlavour, ChatRequest, ChatStream};
use super::key::{ApiKey, KeyEraser, KeySource};
use super::refusal;
use super::retry_after::read_retry_after;
use super::sse::{EVENT_BYTES_MAX, EventTooLarge, SseEvent, SseParser};
use super::stream::{AnswerStream, Progress};
use crate::completion::{Completion, TokenUsage};
use crate::dialect::{Dialect, LoweredTools};
use crate::error::{ErrorKind, ModelError, TimedPhase};
use crate::json_text::ANSWER_BYTES_MAX;
use crate::metrics::{Recorder, chat_span, record_usage};
use crate::model::{Model, OnEvent};
use crate::request::ModelRequest;
use crate::settings::{ReasoningEffort, TokenPrices};

/// Largest body of an error that is read, in bytes.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// Largest request, in bytes: what no API takes is not sent.
const REQUEST_BYTES_MAX: usize = 128 << 20;
/// How long after the end of an answer its usage is waited for, and the end of the stream.
const LAST_EVENT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an idle connection is kept for the next request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest headers of a response over HTTP/2, in bytes.
const HEADERS_BYTES_MAX: u32 = 32 << 10;
/// Who asks, for OpenRouter's lists of applications.
const REFERER: &str = "https://github.com/toolbus/toolbus";

/// A model behind an API.
#[derive(Debug)]
pub(crate) struct ApiModel {
    pub(crate) http: HttpClients,
    pub(crate) protocol: Protocol,
    /// Where requests go.
    pub(crate) url: Url,
    pub(crate) model: String,
    pub(crate) key: KeySource,
    pub(crate) output_tokens_max: Option<u32>,
    pub(crate) effort: Option<ReasoningEffort>,
    pub(crate) prices: Option<TokenPrices>,
    /// From the request to the first event, and between two.
    pub(crate) idle_timeout: Duration,
    /// Of the whole answer.
    pub(crate) timeout: Duration,
    pub(crate) recorder: Recorder,
}

/// How an API is talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// OpenAI's chat completions.
    Chat(ChatFlavour),
    /// Anthropic's messages.
    Anthropic,
}

/// The HTTP clients of models: one through the proxies of the environment, one without for servers
/// on this machine. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct HttpClients {
    proxied: reqwest::Client,
    direct: reqwest::Client,
}

/// What one answer is read with.
struct Reading<'a> {
    eraser: &'a KeyEraser,
    idle_timeout: Duration,
    deadline: Instant,
}

impl HttpClients {
    /// Builds both clients.
    ///
    /// # Errors
    /// When the machine's certificates cannot be read.
    pub(crate) fn new(connect_timeout: Duration) -> Result<Self, reqwest::Error> {
        // reqwest panics without a process-wide provider. One that is installed already stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            reqwest::Client::builder()
                // Another host must not get the key.
                .redirect(redirect::Policy::none())
                .referer(false)
                .connect_timeout(connect_timeout)
                .pool_idle_timeout(IDLE_TIMEOUT)
                .http2_max_header_list_size(HEADERS_BYTES_MAX)
        };
        Ok(Self { proxied: builder().build()?, direct: builder().no_proxy().build()? })
    }

    pub(super) fn client_for(&self, url: &Url) -> &reqwest::Client {
        let is_local = match url.host() {
            Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        if is_local { &self.direct } else { &self.proxied }
    }
}

impl Protocol {
    fn dialect(self) -> Dialect {
        match self {
            Self::Chat(_) => chat::DIALECT,
            Self::Anthropic => anthropic::DIALECT,
        }
    }

    /// Whose API it is, as OpenTelemetry names it.
    pub(crate) fn provider(self) -> &'static str {
        match self {
            Self::Chat(ChatFlavour::OpenRouter) => "openrouter",
            Self::Chat(ChatFlavour::OpenAi | ChatFlavour::Compatible) => "openai",
            Self::Anthropic => "anthropic",
        }
    }

    fn stream(self, answer: Answer<'_>) -> AnswerStream<'_> {
        match self {
            Self::Chat(flavour) => AnswerStream::Chat(ChatStream::new(answer, flavour)),
            Self::Anthropic => AnswerStream::Anthropic(AnthropicStream::new(answer)),
        }
    }

    pub(super) fn headers(self, key: Option<&ApiKey>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let agent = concat!("toolbus/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));

        match self {
            Self::Chat(flavour) => {
                headers.extend(key.map(|key| (AUTHORIZATION, key.header("Bearer "))));
                if flavour == ChatFlavour::OpenRouter {
                    let referer = HeaderName::from_static("http-referer");
                    headers.insert(referer, HeaderValue::from_static(REFERER));
                    let title = HeaderName::from_static("x-title");
                    headers.insert(title, HeaderValue::from_static("Toolbus"));
                }
            }
            Self::Anthropic => {
                let name = HeaderName::from_static("x-api-key");
                headers.extend(key.map(|key| (name, key.header(""))));
                let version = HeaderName::from_static("anthropic-version");
                headers.insert(version, HeaderValue::from_static(anthropic::VERSION));
            }
        }
        headers
    }
}

impl Model for ApiModel {
    fn name(&self) -> &str {
        &self.model
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        on_event: OnEvent<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        let span = chat_span(&self.model, self.protocol.provider());
        let began = Instant::now();
        Box::pin(async move {
            let result = self.ask(request, on_event).instrument(span).await;
            self.recorder.record(began.elapsed(), &result);
            result
        })
    }
}

impl ApiModel {
    async fn ask(
        &self,
        request: &ModelRequest,
        on_event: OnEvent<'_>,
    ) -> Result<Completion, ModelError> {
        let key = self.key.load().await?;
        let eraser = KeyEraser::of(key.as_ref());
        let reading = Reading {
            eraser: &eraser,
            idle_timeout: self.idle_timeout,
            deadline: Instant::now() + self.timeout,
        };

        let tools = request.tools.lowered(self.protocol.dialect());
        let body = self.write_body(request, tools)?;
        let sent = body.len();
        let response = self.send(body, key.as_ref(), &reading).await?;

        let answer = Answer::new(&self.model, tools, on_event);
        let stream = self.protocol.stream(answer);
        let result = match is_event_stream(&response) {
            true => reading.read_events(response, stream).await,
            false => reading.read_whole(response, stream).await,
        };
        match result {
            Ok(mut completion) => {
                self.count(&mut completion, sent);
                record_usage(&completion);
                Ok(completion)
            }
            Err(mut error) => {
                error.kind = eraser.erase(error.kind);
                if let Some(partial) = &mut error.partial {
                    self.count(partial, sent);
                }
                Err(error)
            }
        }
    }

    fn write_body(
        &self,
        request: &ModelRequest,
        tools: &LoweredTools,
    ) -> Result<Vec<u8>, ErrorKind> {
        let written = match self.protocol {
            Protocol::Chat(flavour) => chat::write_body(&ChatRequest {
                model: &self.model,
                flavour,
                request,
                tools,
                output_tokens_max: self.output_tokens_max,
                effort: self.effort,
            }),
            Protocol::Anthropic => anthropic::write_body(&AnthropicRequest {
                model: &self.model,
                request,
                tools,
                output_tokens_max: self.output_tokens_max.unwrap_or(anthropic::OUTPUT_TOKENS),
                effort: self.effort,
            }),
        };

        let refused = |message: String| ErrorKind::Refused { status: 0, message };
        let body = written.map_err(|error| refused(error.to_string()))?;
        if body.len() > REQUEST_BYTES_MAX {
            let message = format!("it has more than {REQUEST_BYTES_MAX} bytes");
            return Err(ErrorKind::ContextTooLong { message });
        }
        Ok(body)
    }

    /// Sends a request, and returns its response where that is an answer.
    async fn send(
        &self,
        body: Vec<u8>,
        key: Option<&ApiKey>,
        reading: &Reading<'_>,
    ) -> Result<Response, ErrorKind> {
        let request = self.http.client_for(&self.url).post(self.url.clone());
        let sending = request.headers(self.protocol.headers(key)).body(body).send();
        let sent = timeout_at(reading.next_deadline(), sending).await;
        let response = sent
            .map_err(|_| reading.timed_out())?
            .map_err(|error| reading.eraser.erase(unreachable_kind(&error)))?;

        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let retry_after = read_retry_after(response.headers(), SystemTime::now());
        let body = reading.read_error(response).await;
        let text = String::from_utf8_lossy(&body);
        let said = reading.eraser.erase_text(&text);
        let kind = refusal::of_response(status.as_u16(), said.as_bytes(), retry_after);
        Err(reading.eraser.erase(kind))
    }

    /// Completes the count of an answer: by lengths where its API has not counted, and its cost by
    /// the prices where that has not said it.
    fn count(&self, completion: &mut Completion, sent: usize) {
        let usage = &mut completion.usage;
        if usage.input == 0 && usage.output == 0 {
            let written = serde_json::to_vec(&completion.message).map_or(0, |text| text.len());
            let (input, output) = (tokens::estimate(sent), tokens::estimate(written));
            *usage = TokenUsage { input, output, is_estimated: true, ..*usage };
        }
        if let (None, Some(prices)) = (usage.cost_micro_usd, &self.prices) {
            usage.cost_micro_usd = Some(prices.cost_of(usage));
        }
    }
}

impl Reading<'_> {
    async fn read_events(
        &self,
        mut response: Response,
        mut stream: AnswerStream<'_>,
    ) -> Result<Completion, ModelError> {
        let mut parser = SseParser::default();
        let mut left = ANSWER_BYTES_MAX;
        let mut stopped_at = None;
        loop {
            match self.feed_events(&mut parser, &mut stream) {
                Ok(Progress::More) => {}
                Ok(Progress::Done) => return stream.finish(Progress::Done),
                Err(kind) => return Err(stream.break_off(kind)),
            }

            // Nothing is missing then but the usage, and a server may forget to hang up.
            let mut deadline = self.next_deadline();
            if stream.has_stopped() {
                let stopped = *stopped_at.get_or_insert_with(Instant::now);
                deadline = deadline.min(stopped + LAST_EVENT_TIMEOUT);
            }
            let chunk = match timeout_at(deadline, response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => break,
                Ok(Err(_)) | Err(_) if stream.has_stopped() => break,
                Ok(Err(error)) => return Err(stream.break_off(broken(&error))),
                Err(_) => return Err(stream.break_off(self.timed_out())),
            };
            let Some(rest) = left.checked_sub(chunk.len()) else {
                return Err(stream.break_off(too_large(ANSWER_BYTES_MAX)));
            };
            left = rest;
            parser.push(&chunk);
        }

        let mut progress = Progress::More;
        if let Some(event) = parser.end() {
            match self.feed(&mut stream, event) {
                Ok(last) => progress = last,
                // Half an event behind the end of an answer is not missed.
                Err(_) if stream.has_stopped() => {}
                Err(kind) => return Err(stream.break_off(kind)),
            }
        }
        stream.finish(progress)
    }

    fn feed_events(
        &self,
        parser: &mut SseParser,
        stream: &mut AnswerStream<'_>,
    ) -> Result<Progress, ErrorKind> {
        let next = |parser: &mut SseParser| {
            parser.next().map_err(|EventTooLarge| ErrorKind::TooLarge {
                limit: format!("an event of more than {EVENT_BYTES_MAX} bytes"),
            })
        };
        while let Some(event) = next(parser)? {
            if self.feed(stream, event)? == Progress::Done {
                return Ok(Progress::Done);
            }
        }
        Ok(Progress::More)
    }

    fn feed(
        &self,
        stream: &mut AnswerStream<'_>,
        mut event: SseEvent,
    ) -> Result<Progress, ErrorKind> {
        if event.data.contains("\"error\"") {
            event.data = self.eraser.erase_text(&event.data).into_owned();
        }
        stream.feed(&event)
    }

    /// Reads the answer of a server that does not stream, as if it were one event.
    async fn read_whole(
        &self,
        mut response: Response,
        mut stream: AnswerStream<'_>,
    ) -> Result<Completion, ModelError> {
        let mut body = Vec::new();
        loop {
            match timeout_at(self.next_deadline(), response.chunk()).await {
                Ok(Ok(Some(chunk))) if body.len() + chunk.len() > EVENT_BYTES_MAX => {
                    return Err(stream.break_off(too_large(EVENT_BYTES_MAX)));
                }
                Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
                Ok(Ok(None)) => break,
                Ok(Err(error)) => return Err(stream.break_off(broken(&error))),
                Err(_) => return Err(stream.break_off(self.timed_out())),
            }
        }
        let data = String::from_utf8_lossy(&body).into_owned();
        let event = SseEvent { name: String::new(), data };
        match self.feed(&mut stream, event) {
            Ok(progress) => stream.finish(progress),
            Err(kind) => Err(stream.break_off(kind)),
        }
    }

    /// Reads what an API says in the place of an answer, as far as that can be had.
    async fn read_error(&self, mut response: Response) -> Vec<u8> {
        let deadline = self.next_deadline().min(Instant::now() + LAST_EVENT_TIMEOUT);
        let mut body = Vec::new();
        while let Ok(Ok(Some(chunk))) = timeout_at(deadline, response.chunk()).await {
            let room = ERROR_BYTES_MAX - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == ERROR_BYTES_MAX {
                break;
            }
        }
        body
    }

    fn next_deadline(&self) -> Instant {
        self.deadline.min(Instant::now() + self.idle_timeout)
    }

    fn timed_out(&self) -> ErrorKind {
        let phase = match Instant::now() >= self.deadline {
            true => TimedPhase::WholeAnswer,
            false => TimedPhase::NextEvent,
        };
        ErrorKind::TimedOut { phase }
    }
}

fn is_event_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    // Servers that stream and do not say so are older than those that do not stream.
    !kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("application/json"))
}

fn too_large(bytes_max: usize) -> ErrorKind {
    ErrorKind::TooLarge { limit: format!("more than {bytes_max} bytes") }
}

fn broken(error: &reqwest::Error) -> ErrorKind {
    ErrorKind::BrokenStream { problem: root_cause(error) }
}

/// Why there is no response.
pub(super) fn unreachable_kind(error: &reqwest::Error) -> ErrorKind {
    if error.is_timeout() && error.is_connect() {
        return ErrorKind::TimedOut { phase: TimedPhase::Connecting };
    }
    ErrorKind::Unreachable { reason: root_cause(error) }
}

/// The text of the root cause of an error, bounded: reqwest's own errors say less, and have the
/// address.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    // One without a cause may have the address itself.
    if std::ptr::addr_eq(cause, error) {
        return "the connection failed".to_owned();
    }
    refusal::bounded(&cause.to_string())
}
