//! Tools from Rust functions: types say what goes in and what comes out.
//!
//! A tool made here is an ordinary tool with an ordinary executor: what happens to its calls is the
//! invoker's affair.

mod arguments;
mod output;
mod schema;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toolbus_tools::call::{Invocation, Output};
use toolbus_tools::registry::Offer;
use toolbus_tools::tool::Risk;
use toolbus_tools::{Annotations, CallError, Executor, Tool};

use crate::tool_context::ToolContext;
use crate::tool_failure::ToolFailure;
use arguments::read_arguments;
use output::output_of;
use schema::{schema_of_arguments, schema_of_output};

/// Who provides such a tool where nothing is said.
const SOURCE_DEFAULT: &str = "local";

/// A tool that runs a Rust function in this process; see [`tool`].
///
/// Where nothing is said it may have side effects that cannot be undone, and has a minute.
#[must_use = "a tool is offered by `ToolbusBuilder::tool`"]
pub struct TypedTool {
    tool: Tool,
    executor: Arc<dyn Executor>,
}

/// The arguments of a tool that takes none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize, JsonSchema)]
pub struct NoArguments {}

/// Makes a tool of a function.
///
/// The schema of its arguments is that of the type `A`, which has to be a JSON object. The caller's
/// arguments are checked against it and read as an `A`; where they do not fit, the call ends as
/// `invalid_arguments` with the member that is wrong, and the function is not run. One that need
/// not be given may be null as well, which is the same; the schema says its type alone.
///
/// A result that is a JSON string is the tool's text. Any other is its structured value, and as
/// JSON its text; its schema is the tool's output schema where it is one of an object. `()` and
/// `None` are a result without text.
///
/// The function's future is dropped when the call's time is over, and a moment after the call was
/// cancelled, so what it starts must end with it. A panic ends the call as `execution_failed`.
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::Deserialize;
/// use toolbus::{Toolbus, tool};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Add {
///     /// The first number.
///     a: i64,
///     /// The second number.
///     b: i64,
/// }
///
/// let add = tool("add", "Adds two numbers.", |args: Add, _| async move { Ok(args.a + args.b) });
/// let toolbus = Toolbus::builder().tool(add.read_only());
/// ```
pub fn tool<A, R, F, Fut>(
    name: impl Into<String>,
    description: impl Into<String>,
    run: F,
) -> TypedTool
where
    A: DeserializeOwned + JsonSchema + 'static,
    R: Serialize + JsonSchema + 'static,
    F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolFailure>> + Send + 'static,
{
    let mut made = make_tool::<A, _, _, _>(name, description, run, output_of);
    made.tool.output_schema = schema_of_output::<R>();
    made
}

/// Makes a tool of a function that puts its output together itself: parts such as pictures, a text
/// beside the structured value, or a failure in the tool's own words ([`Output::error`]). For the
/// rest it is like [`tool`].
pub fn tool_with_output<A, F, Fut>(
    name: impl Into<String>,
    description: impl Into<String>,
    run: F,
) -> TypedTool
where
    A: DeserializeOwned + JsonSchema + 'static,
    F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Output, ToolFailure>> + Send + 'static,
{
    make_tool::<A, _, _, _>(name, description, run, Ok)
}

fn make_tool<A, R, F, Fut>(
    name: impl Into<String>,
    description: impl Into<String>,
    run: F,
    to_output: fn(R) -> Result<Output, CallError>,
) -> TypedTool
where
    A: DeserializeOwned + JsonSchema + 'static,
    R: 'static,
    F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolFailure>> + Send + 'static,
{
    let run = Arc::new(run);
    let executor = move |call: Invocation| {
        let run = Arc::clone(&run);
        async move {
            let (arguments, context) = ToolContext::of(call);
            // Before the first await: arguments need not be sent between threads.
            let work = run(read_arguments(arguments)?, context);
            to_output(work.await?)
        }
    };

    let tool = Tool::new(name, description, SOURCE_DEFAULT);
    let tool = tool.with_parameters(schema_of_arguments::<A>());
    TypedTool { tool, executor: Arc::new(executor) }
}

impl TypedTool {
    /// The same tool, changing nothing when it runs: it may run twice, and its risk is low.
    pub fn read_only(self) -> Self {
        self.with(Tool::read_only)
    }

    /// The same tool, for which running twice is the same as once.
    pub fn idempotent(self) -> Self {
        self.with(|tool| {
            let annotations = Annotations { idempotent: true, ..tool.annotations };
            Tool { annotations, ..tool }
        })
    }

    /// The same tool with this risk, which policies look at. By default it is high.
    pub fn risk(self, risk: Risk) -> Self {
        self.with(|tool| tool.with_risk(risk))
    }

    /// The same tool, which models are not shown until they search for it.
    pub fn deferred(self) -> Self {
        self.with(Tool::deferred)
    }

    /// The same tool; a call may take this long when its caller does not say. By default it is a
    /// minute.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|tool| tool.with_timeout(timeout))
    }

    /// The same tool, called this before people.
    pub fn title(self, title: impl Into<String>) -> Self {
        self.with(|tool| Tool { title: Some(title.into()), ..tool })
    }

    /// The same tool with one more name that it answers to.
    pub fn alias(self, alias: impl Into<String>) -> Self {
        self.with(|tool| tool.with_alias(alias))
    }

    /// The same tool of this group, which the guide of that name explains.
    pub fn group(self, group: impl Into<Cow<'static, str>>) -> Self {
        self.with(|tool| tool.in_group(group))
    }

    /// The same tool, provided by this source: policies and views know it as `source/name`. By
    /// default it is `local/name`.
    pub fn source(self, source: impl Into<Cow<'static, str>>) -> Self {
        self.with(|tool| Tool { source: source.into(), ..tool })
    }

    /// The tool as callers see it.
    #[must_use]
    pub fn definition(&self) -> &Tool {
        &self.tool
    }

    fn with(self, change: impl FnOnce(Tool) -> Tool) -> Self {
        Self { tool: change(self.tool), ..self }
    }
}

impl From<TypedTool> for Offer {
    fn from(typed: TypedTool) -> Self {
        Self::with_shared(typed.tool, typed.executor)
    }
}

impl fmt::Debug for TypedTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedTool").field("tool", &self.tool).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
