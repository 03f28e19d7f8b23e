//! One task over HTTP, from its sending to its end.

use std::pin::pin;
use std::time::Duration;

use serde_json::json;
use toolbus_tools::id::ID_BYTES_MAX;
use toolbus_wire::clock::unix_now;
use toolbus_wire::envelope::new_id;
use toolbus_wire::message::a2a::{AgentErrorCode, AgentTaskState};

use super::Inner;
use super::client::{AgentClient, Asked, HttpAgentError};
use super::sent::{SentRow, SentState};
use crate::Error;
use crate::asked::AskedRow;
use crate::caller::tell_progress;
use crate::config::ms;
use crate::event::TaskChange;
use crate::protocol::{
    Answered, ErrorKind, Interface, Method, RemoteState, RemoteTask, read_answered, read_task,
    send_params,
};

/// How often it is tried to send a task that was not sent for sure.
const SEND_ATTEMPTS_MAX: u32 = 4;
/// Until it is tried again, the first time.
const SEND_BACKOFF: Duration = Duration::from_millis(500);
/// Between two questions how a task is going: at first, and at most.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
const POLL_BACKOFF_MAX: Duration = Duration::from_secs(5);
/// How long an agent has to say how a task is going.
const POLL_TIMEOUT: Duration = Duration::from_secs(15);
/// How often an agent may say something else than how the task is going.
const NONSENSE_MAX: u32 = 5;
/// How often the end of a task is written down, where the store fails.
const RECORD_ATTEMPTS_MAX: u32 = 5;
const STORE_BACKOFF: Duration = Duration::from_secs(1);

/// What is known of a task that is asked after.
struct Polled {
    interface: Interface,
    remote_id: String,
    wait: Duration,
    nonsense: u32,
    /// Whether the agent was asked to give it up.
    is_cancel_sent: bool,
    last_state: Option<AgentTaskState>,
    last_remark: String,
}

/// What becomes of a task next.
enum Next {
    /// It is asked after.
    Poll(Interface, String),
    /// It is over.
    End(TaskChange),
    /// Another process has it, or will have it.
    Leave,
}

impl Inner {
    /// Sends a task and asks after it, until it is over or this process stops.
    pub(super) async fn drive(&self, row: SentRow) {
        if let Err(error) = self.try_drive(&row).await {
            tracing::warn!(
                error = error.as_dyn(),
                task = row.id,
                "a task over HTTP waits until the lease of this process is over"
            );
        }
    }

    async fn try_drive(&self, row: &SentRow) -> Result<(), Error> {
        let Some(asked) = self.asked.rows().find(&row.id).await? else {
            return self.sent.forget(&row.id).await;
        };
        let Some(client) = self.agents.get(&asked.target.to_ascii_lowercase()) else {
            let gone = "the agent is not in the settings any more".to_owned();
            return self.end(row, &failed(gone, false)).await;
        };

        let next = match &row.state {
            SentState::New => self.send(row, &asked, client).await?,
            // Whoever sent it was lost before it knew what became of that.
            SentState::Sending => Next::End(unknown_outcome()),
            SentState::Sent { interface, remote_id } => {
                Next::Poll(interface.clone(), remote_id.clone())
            }
        };
        let next = match next {
            Next::Poll(interface, remote_id) => {
                self.poll(row, client, Polled::new(interface, remote_id)).await?
            }
            next => next,
        };
        match next {
            Next::End(change) => self.end(row, &change).await,
            _ => Ok(()),
        }
    }

    async fn send(
        &self,
        row: &SentRow,
        asked: &AskedRow,
        client: &AgentClient,
    ) -> Result<Next, Error> {
        let mut backoff = SEND_BACKOFF;
        for attempt in 1.. {
            let left_ms = asked.deadline_ms.saturating_sub(ms(unix_now()));
            let is_open = self.asked.rows().find(&row.id).await?.is_some_and(|row| row.is_open);
            if !is_open || left_ms <= 0 {
                // Its time is over, which is told by whoever tells that.
                self.sent.forget(&row.id).await?;
                return Ok(Next::Leave);
            }
            if self.stop.is_cancelled() {
                return Ok(Next::Leave);
            }
            let timeout = Duration::from_millis(left_ms.unsigned_abs());
            let error = match self.send_once(row, asked, client, timeout).await? {
                Ok(next) => return Ok(next),
                Err(error) => error,
            };

            tracing::debug!(task = row.id, %error, "a task was not sent over HTTP");
            if matches!(error, HttpAgentError::Timeout) && ms(unix_now()) >= asked.deadline_ms {
                self.sent.forget(&row.id).await?;
                return Ok(Next::Leave);
            }
            if !error.is_not_sent() {
                let outcome = format!("{}: {}", describe(&error), UNKNOWN_OUTCOME);
                return Ok(Next::End(failed(outcome, false)));
            }
            client.forget_interface();
            if !error.is_passing() || attempt >= SEND_ATTEMPTS_MAX {
                let is_retryable = error.is_passing();
                return Ok(Next::End(failed_by(&error, is_retryable)));
            }
            if !self.sent.mark(&row.id, &SentState::New).await? {
                return Ok(Next::Leave);
            }
            self.keep_while(&row.id, tokio::time::sleep(backoff)).await;
            backoff *= 2;
        }
        Ok(Next::Leave)
    }

    async fn send_once(
        &self,
        row: &SentRow,
        asked: &AskedRow,
        client: &AgentClient,
        timeout: Duration,
    ) -> Result<Result<Next, HttpAgentError>, Error> {
        let interface = match self.keep_while(&row.id, client.interface()).await {
            Ok(interface) => interface,
            // Nothing was sent yet, whatever it is.
            Err(error @ (HttpAgentError::Timeout | HttpAgentError::Broken(_))) => {
                return Ok(Ok(Next::End(failed_by(&error, true))));
            }
            Err(error @ (HttpAgentError::TooLarge(_) | HttpAgentError::Answer)) => {
                return Ok(Ok(Next::End(failed_by(&error, false))));
            }
            Err(error @ HttpAgentError::Status(_)) => {
                return Ok(Ok(Next::End(failed_by(&error, false))));
            }
            Err(error) => return Ok(Err(error)),
        };
        if !self.sent.mark(&row.id, &SentState::Sending).await? {
            return Ok(Ok(Next::Leave));
        }

        let params = send_params(interface.version, &row.id, &asked.skill, &row.message);
        let (method, lineage) = (Method::Send, row.lineage);
        let asking = Asked { id: &new_id(), method, params, lineage, timeout };
        let answer = match self.keep_while(&row.id, client.call(&interface, &asking)).await {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(error)),
        };
        Ok(match read_answered(answer, &row.id) {
            None => Err(HttpAgentError::Answer),
            Some(Answered::Message(result)) => Ok(Next::End(TaskChange::of_result(&result))),
            Some(Answered::Task(task)) if !is_id(&task.id) => Err(HttpAgentError::Answer),
            Some(Answered::Task(task)) => {
                let remote_id = task.id.clone();
                match end_of(task, &row.id) {
                    Ok(change) => Ok(Next::End(change)),
                    Err(_) => {
                        let sent = SentState::Sent {
                            interface: interface.clone(),
                            remote_id: remote_id.clone(),
                        };
                        match self.mark_sent(&row.id, &sent).await? {
                            true => Ok(Next::Poll(interface, remote_id)),
                            false => Ok(Next::Leave),
                        }
                    }
                }
            }
        })
    }

    /// Notes that the agent has a task, again where the store fails: nobody else knows its id.
    async fn mark_sent(&self, id: &str, sent: &SentState) -> Result<bool, Error> {
        for _ in 1..RECORD_ATTEMPTS_MAX {
            match self.sent.mark(id, sent).await {
                Ok(is_ours) => return Ok(is_ours),
                Err(error) => {
                    tracing::warn!(error = error.as_dyn(), "could not keep an agent's task");
                }
            }
            tokio::time::sleep(STORE_BACKOFF).await;
        }
        self.sent.mark(id, sent).await
    }

    async fn poll(
        &self,
        row: &SentRow,
        client: &AgentClient,
        mut polled: Polled,
    ) -> Result<Next, Error> {
        loop {
            let woken = self.asked.http_woken();
            let pause = async {
                // Every arm only waits.
                tokio::select! {
                    () = tokio::time::sleep(polled.wait) => {}
                    () = woken => {}
                    () = self.stop.cancelled() => {}
                }
            };
            pause.await;
            if self.stop.is_cancelled() || !self.sent.renew(&row.id).await? {
                return Ok(Next::Leave);
            }
            let asked = match self.asked.rows().find(&row.id).await? {
                Some(asked) if asked.is_open => asked,
                _ => {
                    // Its time is over: whatever the agent does is for nobody.
                    let given_up = self.ask(row, client, &polled, Method::Cancel);
                    let _ = self.keep_while(&row.id, given_up).await;
                    self.sent.forget(&row.id).await?;
                    return Ok(Next::Leave);
                }
            };

            if let Some(change) = self.cancel(row, client, &mut polled, &asked).await? {
                return Ok(Next::End(change));
            }
            let answer = self.ask(row, client, &polled, Method::Get);
            match self.keep_while(&row.id, answer).await {
                Ok(task) => match end_of(task, &row.id) {
                    Ok(change) => return Ok(Next::End(change)),
                    Err(task) => {
                        polled.nonsense = 0;
                        self.tell_progress(&asked, &mut polled, *task).await;
                    }
                },
                Err(error) => {
                    tracing::debug!(task = row.id, %error, "an agent does not say how a task goes");
                    if let Some(change) = polled.end_by(&error) {
                        return Ok(Next::End(change));
                    }
                }
            }
            polled.wait = (polled.wait * 3 / 2).min(POLL_BACKOFF_MAX);
        }
    }

    /// Asks the agent to give a task up, once for each wish. Its end, where that is one.
    async fn cancel(
        &self,
        row: &SentRow,
        client: &AgentClient,
        polled: &mut Polled,
        asked: &AskedRow,
    ) -> Result<Option<TaskChange>, Error> {
        if asked.cancel_ms.is_none() || polled.is_cancel_sent {
            polled.is_cancel_sent = asked.cancel_ms.is_some();
            return Ok(None);
        }
        let answer = self.ask(row, client, polled, Method::Cancel);
        let error = match self.keep_while(&row.id, answer).await {
            Ok(task) => {
                polled.is_cancel_sent = true;
                polled.wait = POLL_INTERVAL;
                return Ok(end_of(task, &row.id).ok());
            }
            Err(error) => error,
        };

        // One that cannot be reached is asked again.
        if let HttpAgentError::Rpc { code, message } = error {
            polled.is_cancel_sent = true;
            let not_found = code == ErrorKind::TaskNotFound.code();
            let code = match not_found {
                true => AgentErrorCode::TaskNotFound,
                false => AgentErrorCode::TaskNotCancelable,
            };
            let code = code.as_str().to_owned();
            let refused = TaskChange::NotCancelled { code, message };
            self.asked.rows().refuse_cancel(&row.id, &asked.target, &refused).await?;
            self.asked.wake();
        }
        Ok(None)
    }

    /// Asks for the task, or for its end.
    async fn ask(
        &self,
        row: &SentRow,
        client: &AgentClient,
        polled: &Polled,
        method: Method,
    ) -> Result<RemoteTask, HttpAgentError> {
        let params = json!({"id": polled.remote_id});
        let (lineage, timeout) = (row.lineage, POLL_TIMEOUT);
        let asking = Asked { id: &new_id(), method, params, lineage, timeout };
        let answer = client.call(&polled.interface, &asking).await?;
        // An answer about another task is none.
        let task = read_task(answer).filter(|task| task.id == polled.remote_id);
        task.ok_or(HttpAgentError::Answer)
    }

    async fn tell_progress(&self, asked: &AskedRow, polled: &mut Polled, task: RemoteTask) {
        let change = TaskChange::of_status(AgentTaskState::Working, task.into_remark().as_ref());
        let TaskChange::Progress { text, .. } = &change else { return };
        let is_first = polled.last_state.replace(AgentTaskState::Working).is_none();
        if is_first || *text != polled.last_remark {
            polled.last_remark.clone_from(text);
            polled.wait = POLL_INTERVAL;
            tell_progress(&self.asked, asked, change).await;
        }
    }

    /// Writes down how a task ended, and forgets what was sent.
    async fn end(&self, row: &SentRow, change: &TaskChange) -> Result<(), Error> {
        for attempt in 1.. {
            match self.asked.end(&row.id, None, change).await {
                Ok(_) => break,
                Err(error) if attempt >= RECORD_ATTEMPTS_MAX => return Err(error),
                Err(error) => {
                    tracing::warn!(error = error.as_dyn(), "could not keep the answer of an agent");
                    self.keep_while(&row.id, tokio::time::sleep(STORE_BACKOFF)).await;
                }
            }
        }
        self.asked.wake();
        self.sent.forget(&row.id).await
    }

    /// Waits for something, and keeps a task to this process meanwhile.
    async fn keep_while<T>(&self, id: &str, work: impl Future<Output = T>) -> T {
        let third = Duration::from_millis(self.sent.lease_ms.unsigned_abs() / 3);
        let mut work = pin!(work);
        loop {
            // Every arm only waits; the work goes on through them.
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(third) => {}
            }
            if let Err(error) = self.sent.renew(id).await {
                tracing::debug!(error = error.as_dyn(), "could not renew the lease of a task");
            }
        }
    }
}

impl Polled {
    fn new(interface: Interface, remote_id: String) -> Self {
        Self {
            interface,
            remote_id,
            wait: POLL_INTERVAL,
            nonsense: 0,
            is_cancel_sent: false,
            last_state: None,
            last_remark: String::new(),
        }
    }

    /// The end of a task that an error means; what passes is waited for until its time is over.
    fn end_by(&mut self, error: &HttpAgentError) -> Option<TaskChange> {
        let is_end = match error {
            HttpAgentError::Answer | HttpAgentError::TooLarge(_) => {
                self.nonsense += 1;
                self.nonsense >= NONSENSE_MAX
            }
            HttpAgentError::Rpc { code, .. } => {
                *code != ErrorKind::Busy.code() && *code != ErrorKind::Internal.code()
            }
            HttpAgentError::Status(401 | 403 | 404 | 410)
            | HttpAgentError::Redirect
            | HttpAgentError::PrivateAddress
            | HttpAgentError::OtherHost(_)
            | HttpAgentError::Url(_)
            | HttpAgentError::Interface(_)
            | HttpAgentError::Header(_) => true,
            _ => false,
        };
        is_end.then(|| failed_by(error, false))
    }
}

const UNKNOWN_OUTCOME: &str = "it is not known whether the agent works on the task";

fn unknown_outcome() -> TaskChange {
    let what = format!("the process that sent the task was lost: {UNKNOWN_OUTCOME}");
    failed(what, false)
}

fn failed(message: String, is_retryable: bool) -> TaskChange {
    let code = AgentErrorCode::ExecutionFailed.as_str().to_owned();
    TaskChange::Failed { code, message, is_retryable }
}

fn failed_by(error: &HttpAgentError, is_retryable: bool) -> TaskChange {
    let code = match error {
        HttpAgentError::Rpc { code, .. } if *code == ErrorKind::TaskNotFound.code() => {
            AgentErrorCode::TaskNotFound
        }
        HttpAgentError::Rpc { code: -32602 | -32600 | -32005, .. } => {
            AgentErrorCode::InvalidRequest
        }
        _ => AgentErrorCode::ExecutionFailed,
    };
    let code = code.as_str().to_owned();
    TaskChange::Failed { code, message: describe(error), is_retryable }
}

fn describe(error: &HttpAgentError) -> String {
    error.to_string()
}

fn is_id(text: &str) -> bool {
    (1..=ID_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// How a task ended, or the task where it goes on.
fn end_of(task: RemoteTask, task_id: &str) -> Result<TaskChange, Box<RemoteTask>> {
    match task.state() {
        RemoteState::UnderWay => Err(Box::new(task)),
        RemoteState::Ended(state) => Ok(TaskChange::of_result(&task.into_result(state, task_id))),
        RemoteState::WantsCredentials => {
            Ok(failed("the agent wants credentials that nobody here has".to_owned(), false))
        }
    }
}
