//! Runs a wisp: its steps in order, each once, through the invoker.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout};
use toolbus_bus::Progress;
use toolbus_memory::Path;
use toolbus_tools::call::{InnerCall, InnerCalls};
use toolbus_tools::id::ToolName;
use toolbus_tools::{CallError, Scope};
use toolbus_wire::Execution;
use toolbus_wire::message::toolbus::ToolProgress;

use crate::agent_task::{AgentTask, task_id_of};
use crate::definition::{AllowedTool, MCP_TOOL, OnFailure, Step, Wisp, Work};
use crate::gateway::{ToolRequest, request_of};
use crate::ids::WispId;
use crate::kept::{Journal, Kept, Known, OUTPUT};
use crate::ports::{AgentEnd, CompleteError, CompletionRequest};
use crate::prompt::{build_prompt, describe_input};
use crate::report::{Category, StepFailure, StepReport, WispReport};
use crate::template::{Filler, Results};
use crate::texts;
use crate::tool::WispsDeps;
use crate::whole::read_whole;

/// What a wisp runs with.
pub(crate) struct Runner<'a> {
    pub(crate) deps: &'a WispsDeps,
    pub(crate) calls: &'a InnerCalls,
    /// The scope of all wisps of the call.
    pub(crate) scope: &'a Scope,
    pub(crate) kept: &'a Kept<'a>,
    pub(crate) progress: &'a Progress,
}

/// A wisp that is to run.
pub(crate) struct PlannedWisp<'a> {
    pub(crate) wisp: &'a Wisp,
    pub(crate) id: WispId,
    /// Where the outputs of steps go that name a key, by the steps' ids.
    pub(crate) output_paths: HashMap<String, Path>,
}

/// A wisp that runs.
struct Run<'a> {
    plan: &'a PlannedWisp<'a>,
    scope: Arc<Scope>,
    journal: Journal,
    /// What the steps that have succeeded gave.
    results: Vec<Option<String>>,
    reports: Vec<StepReport>,
}

impl Results for Run<'_> {
    fn result(&self, step: &str) -> Option<&str> {
        let at = self.plan.wisp.steps.iter().position(|other| other.id == step)?;
        self.results[at].as_deref()
    }

    fn output_key(&self, step: &str) -> String {
        let named = self.plan.output_paths.get(step);
        named.map_or_else(|| self.plan.id.key(step, OUTPUT), Path::to_string)
    }
}

impl Runner<'_> {
    /// Runs a wisp to its end, or until its scope is cancelled.
    pub(crate) async fn run(&self, plan: PlannedWisp<'_>) -> WispReport {
        let began = Instant::now();
        let wisp = plan.wisp;
        let journal = match self.kept.open_journal(&plan.id).await {
            Ok(journal) => journal,
            Err(error) => {
                warn(&error, "could not read what is kept of a wisp");
                let failure = keeping_failure(error, "nothing of it was run");
                let failure = Some((None, failure));
                return WispReport { failure, ..WispReport::stopped(plan.id, &wisp.description) };
            }
        };

        let mut run = Run {
            plan: &plan,
            scope: Arc::new(self.scope_of(wisp)),
            journal,
            results: vec![None; wisp.steps.len()],
            reports: Vec::new(),
        };
        let failure = self.run_steps(&mut run).await;
        let Run { reports: steps, results, .. } = run;
        if failure.is_none() {
            self.shorten(&steps).await;
        }

        let output = results.into_iter().rev().flatten().next().map(|output| {
            let (beginning, more) = texts::beginning(&output, self.deps.config.preview_chars_max);
            (beginning.to_owned(), more)
        });
        let description = wisp.description.clone();
        WispReport { id: plan.id, description, steps, took: began.elapsed(), output, failure }
    }

    /// Runs the steps, and says at which one the wisp failed.
    async fn run_steps(&self, run: &mut Run<'_>) -> Option<(Option<String>, StepFailure)> {
        let wisp = run.plan.wisp;
        let mut at = 0;
        while let Some(step) = wisp.steps.get(at) {
            if run.scope.cancelled.is_cancelled() {
                return Some((Some(step.id.clone()), StepFailure::stopped()));
            }
            self.report_progress(run, step);

            let began = Instant::now();
            let ended = self.run_step(run, step).await;
            let (result, end) = match ended {
                Ok((result, key)) => (Some(result), Ok(key)),
                Err(failure) => (None, Err(failure)),
            };
            let failure = end.as_ref().err().cloned();
            run.results[at] = result;
            run.reports.push(StepReport { id: step.id.clone(), took: began.elapsed(), end });

            at = match (failure, step.on_failure) {
                (None, _) => at + 1,
                (Some(_), OnFailure::SkipTo(later)) if !run.scope.cancelled.is_cancelled() => later,
                (Some(failure), _) => return Some((Some(step.id.clone()), failure)),
            };
        }
        None
    }

    /// Runs a step, or takes what it gave before, and keeps its output. Gives the key of that,
    /// where it could be kept.
    async fn run_step(
        &self,
        run: &Run<'_>,
        step: &Step,
    ) -> Result<(String, Option<String>), StepFailure> {
        let id = &run.plan.id;
        let key = id.key(&step.id, OUTPUT);
        let result = match run.journal.find(&step.id) {
            Some(Known::Succeeded(result)) => return Ok((result.clone(), Some(key))),
            Some(Known::Failed(failure)) => return Err(failure.clone()),
            Some(Known::Begun) => {
                let text = "an earlier run has begun this step, and nobody knows whether it was \
                            done. Look before you do it again";
                return Err(StepFailure::new(Category::External, text));
            }
            Some(Known::Waiting { task_id }) => self.await_agent(run, step, task_id).await?,
            None => self.do_work(run, step).await?,
        };

        let kept = self.kept.keep_output(id, &step.id, &result).await;
        if let Err(error) = &kept {
            warn(error, "could not keep the output of a step");
        }
        if let Some(path) = run.plan.output_paths.get(&step.id) {
            let kept = self.kept.keep_output_to(path, &result).await;
            kept.map_err(|error| {
                warn(&error, "could not keep the output of a step under its key");
                keeping_failure(error, "the step was done, but its output is not at `output_to`")
            })?;
        }
        Ok((result, kept.is_ok().then_some(key)))
    }

    async fn do_work(&self, run: &Run<'_>, step: &Step) -> Result<String, StepFailure> {
        let config = &self.deps.config;
        let mut filler = Filler::new(run, config.rendered_bytes_max);
        let mut input = match &step.input {
            Some(reference) => Some(filler.resolve(reference)?),
            None => None,
        };
        // What becomes part of a text is bounded for whoever reads it.
        if let (Work::Agent { .. } | Work::Complete { .. }, Some(text), Some(reference)) =
            (&step.work, &input, &step.input)
        {
            let keys = self.keep_input(run, step, text).await?;
            input = Some(describe_input(&reference.step, text, config.input_chars_max, &keys));
        }

        if let Work::Complete { prompt } = &step.work {
            let prompt = filler.fill_text(prompt)?;
            let source = step.input.as_ref().map(|reference| reference.step.as_str());
            let steps = run.plan.wisp.steps.iter().zip(&run.results);
            let earlier = steps
                .filter(|(earlier, _)| Some(earlier.id.as_str()) != source)
                .filter_map(|(earlier, result)| Some((earlier.id.as_str(), result.as_deref()?)));
            let prompt = build_prompt(&prompt, input.as_deref(), earlier, config.prior_chars_max);
            return self.complete(run, step, &prompt).await;
        }
        match request_of(step, &mut filler, input.as_deref())? {
            Some(request) => self.call_tool(run, step, request).await,
            None => Err(StepFailure::new(Category::Structural, "the step does nothing")),
        }
    }

    /// Calls the tool of a step.
    async fn call_tool(
        &self,
        run: &Run<'_>,
        step: &Step,
        request: ToolRequest,
    ) -> Result<String, StepFailure> {
        let id = &run.plan.id;
        let failed = |error: CallError| StepFailure::from(&error);
        let call_id = id.call(&step.id).map_err(failed)?;
        let ToolRequest { tool, arguments } = request;
        let name = ToolName::parse(tool);
        let name =
            name.map_err(|error| StepFailure::new(Category::Structural, error.to_string()))?;

        let is_write = self.calls.may_change(tool, &arguments);
        if is_write {
            let noted = self.kept.note(id, &step.id, &Known::Begun).await;
            noted.map_err(|error| keeping_failure(error, "the step was not run"))?;
        }
        let execution = step.timeout.filter(|_| !matches!(step.work, Work::Agent { .. }));
        let arguments = Value::Object(arguments);
        let call = InnerCall { id: call_id, tool: name, arguments, execution };
        let outcome = Box::pin(self.calls.make(&run.scope, call)).await;

        let output = match outcome {
            Ok(output) => output,
            Err(error) => {
                if is_write {
                    self.note_failure(run, step, &error).await;
                }
                return Err(StepFailure::from(&error));
            }
        };
        let (artifacts, max) = (self.deps.artifacts.as_ref(), self.deps.config.result_bytes_max);
        let text = read_whole(&output, artifacts, &run.scope, max).await;
        if output.is_error {
            let failure = StepFailure::new(Category::of_text(&text), text);
            if is_write {
                self.note(run, step, &Known::Failed(failure.clone())).await;
            }
            return Err(failure);
        }
        if !matches!(step.work, Work::Agent { .. }) {
            return Ok(text);
        }
        let Some(task_id) = task_id_of(&text) else {
            let text = format!("the task has no id that could be waited for: {text}");
            return Err(StepFailure::new(Category::External, text));
        };
        let task_id = task_id.to_owned();
        self.note(run, step, &Known::Waiting { task_id: task_id.clone() }).await;
        self.await_agent(run, step, &task_id).await
    }

    /// Waits for the end of a task of another agent. It is given up where the time is over or the
    /// call is cancelled.
    async fn await_agent(
        &self,
        run: &Run<'_>,
        step: &Step,
        task_id: &str,
    ) -> Result<String, StepFailure> {
        let Some(agents) = &self.deps.agents else {
            let text = "this agent cannot wait for other agents";
            return Err(StepFailure::new(Category::Structural, text));
        };
        let task = AgentTask {
            agents: Arc::clone(agents),
            scope: Arc::clone(&run.scope),
            task_id: task_id.to_owned(),
            tasks: self.deps.tasks.clone(),
            has_ended: false,
        };
        let limit = step.timeout.unwrap_or(self.deps.config.agent_timeout);

        match self.within(run, limit, task.wait()).await? {
            AgentEnd::Completed(text) => {
                Ok(texts::cut(Cow::Owned(text), self.deps.config.result_bytes_max))
            }
            AgentEnd::InputRequired(question) => {
                let text = format!("the agent asks back: {question}");
                Err(StepFailure::new(Category::Judgment, text))
            }
            AgentEnd::Failed(message) => {
                let failure = StepFailure::new(Category::of_text(&message), message);
                self.note(run, step, &Known::Failed(failure.clone())).await;
                Err(failure)
            }
        }
    }

    /// Asks the model, and counts what that took.
    async fn complete(
        &self,
        run: &Run<'_>,
        step: &Step,
        prompt: &str,
    ) -> Result<String, StepFailure> {
        let Some(model) = &self.deps.complete else {
            let text = "this agent has no model for Llm steps";
            return Err(StepFailure::new(Category::Structural, text));
        };
        let budget = &run.scope.budget;
        let spent = |exceeded: toolbus_tools::budget::Exceeded| {
            StepFailure::new(Category::Structural, exceeded.to_string())
        };
        // Nothing is used yet: it says whether anything may be.
        budget.add_usage(Default::default()).map_err(spent)?;

        let request = CompletionRequest { scope: &run.scope, prompt };
        let limit = step.timeout.unwrap_or(self.deps.config.timeout);
        let answer = self.within(run, limit, model.complete(request)).await?;
        let answer = answer.map_err(|error| {
            let category = match &error {
                CompleteError::Refused(_) => Category::Judgment,
                CompleteError::Failed(_) => Category::External,
            };
            StepFailure::new(category, error.to_string())
        })?;

        budget.add_usage(answer.usage).map_err(spent)?;
        if answer.text.trim().is_empty() {
            return Err(StepFailure::new(Category::Judgment, "the model gave no answer"));
        }
        if answer.is_cut_off {
            let text = format!("the answer of the model was cut off: {}", answer.text);
            return Err(StepFailure::new(Category::Judgment, text));
        }
        Ok(texts::cut(Cow::Owned(answer.text), self.deps.config.result_bytes_max))
    }

    /// Waits for something that is no call, at most for so long and until the scope is cancelled.
    async fn within<T>(
        &self,
        run: &Run<'_>,
        limit: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, StepFailure> {
        tokio::select! {
            biased;
            ended = timeout(limit, work) => ended.map_err(|_| {
                let text = format!("it timed out after {} s", limit.as_secs());
                StepFailure::new(Category::External, text)
            }),
            () = run.scope.cancelled.cancelled() => Err(StepFailure::stopped()),
        }
    }

    /// Keeps an input that is too long for a text, and gives the keys of its chunks.
    async fn keep_input(
        &self,
        run: &Run<'_>,
        step: &Step,
        text: &str,
    ) -> Result<Vec<String>, StepFailure> {
        if texts::beginning(text, self.deps.config.input_chars_max).1 == 0 {
            return Ok(Vec::new());
        }
        let kept = self.kept.keep_chunks(&run.plan.id, &step.id, text).await;
        kept.map_err(|error| {
            warn(&error, "could not keep the input of a step");
            keeping_failure(error, "the input of the step is too long to be given as it is")
        })
    }

    /// Writes down how a call that may have changed something failed, as far as that is known.
    async fn note_failure(&self, run: &Run<'_>, step: &Step, error: &CallError) {
        match error.execution {
            Execution::NotStarted => {
                let taken_back = self.kept.take_back(&run.plan.id, &step.id).await;
                if let Err(error) = taken_back {
                    warn(&error, "a step that was not run stands as begun");
                }
            }
            Execution::Started => {
                self.note(run, step, &Known::Failed(StepFailure::from(error))).await;
            }
            // It stands as begun.
            _ => {}
        }
    }

    async fn note(&self, run: &Run<'_>, step: &Step, known: &Known) {
        if let Err(error) = self.kept.note(&run.plan.id, &step.id, known).await {
            warn(&error, "could not write down how a step is going");
        }
    }

    /// Keeps outputs for a shorter time: whoever made the call has the result.
    async fn shorten(&self, steps: &[StepReport]) {
        let keys: Vec<_> =
            steps.iter().filter_map(|step| step.end.as_ref().ok()?.clone()).collect();
        if let Err(error) = self.kept.shorten(&keys, self.deps.config.succeeded_ttl).await {
            warn(&error, "outputs of a wisp are kept for longer than need be");
        }
    }

    /// The scope of a wisp's calls: it sees the tools that its gateways call, and no others.
    fn scope_of(&self, wisp: &Wisp) -> Scope {
        let tools = self.calls.tools();
        let gateways = wisp.steps.iter().filter_map(|step| step.work.gateway_tool());
        let entries = gateways.clone().filter_map(|tool| tools.find(tool));
        let mut seen: Vec<String> =
            entries.map(|entry| entry.subject().id.as_str().to_owned()).collect();
        match &wisp.tools {
            Some(allowed) => seen.extend(allowed.iter().filter_map(|tool| match tool {
                AllowedTool::Mcp(pattern) => Some(pattern.clone()),
                AllowedTool::Gateway(_) => None,
            })),
            None if gateways.clone().any(|tool| tool == MCP_TOOL) => seen.push("mcp:*".to_owned()),
            None => {}
        }
        let view = self.scope.view.only(seen);
        self.scope.clone().with_view(view)
    }

    fn report_progress(&self, run: &Run<'_>, step: &Step) {
        self.progress.send(ToolProgress {
            message: Some(format!("{}: step {}", run.plan.id, step.id)),
            ..ToolProgress::default()
        });
    }
}

/// Why a step failed whose state could not be kept.
fn keeping_failure(error: toolbus_memory::Error, what: &str) -> StepFailure {
    let error = CallError::from(error);
    StepFailure::new(Category::External, format!("{what}: {}", error.message))
}

fn warn(error: &toolbus_memory::Error, what: &'static str) {
    tracing::warn!(error = error as &dyn std::error::Error, "{what}");
}
