//! Reads the arguments, and forgives what models commonly do to them.

use serde_json::Value;
use toolbus_bus::Deadline;

use super::{Gate, Passage, Verdict};
use crate::call::{CallError, Time};

/// Refuses arguments that are not a JSON object, nor text that holds one.
pub struct ReadArguments;

impl Gate for ReadArguments {
    fn name(&self) -> &'static str {
        "arguments"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage<'_>) -> Verdict<'a> {
        Verdict::Now(read_into(passage))
    }
}

fn read_into(passage: &mut Passage<'_>) -> Result<(), CallError> {
    let mut arguments = passage.call.arguments.object()?;
    let registered = passage.tool()?;
    registered.executor.coerce(&mut arguments);
    if let Time::Default = passage.call.time {
        passage.deadline = Deadline::after(registered.budget(&arguments));
    }
    passage.arguments = Value::Object(arguments);
    Ok(())
}
