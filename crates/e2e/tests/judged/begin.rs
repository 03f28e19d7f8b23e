//! Calls that begin work which outlives them, directly or in a program.

use std::sync::Arc;

use serde_json::{Value, json};
use toolbus_tools::Door;
use toolbus_tools::scope::DoorSet;

use super::calls::{ToolCall, any_tool_call, probes};
use super::chains::{Order, write_program};
use super::draws::Draws;
use super::ledger::{self, CheckedCall};
use super::world::World;

/// Who begins work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beginner {
    /// The doors that it came in by.
    doors: &'static [Door],
    /// Whether it does so in a program.
    is_program: bool,
}

/// Work that was begun.
pub(crate) struct BegunWork {
    /// The calls that this took.
    pub(crate) calls: Vec<CheckedCall>,
    /// The id of the call that has begun it.
    pub(crate) id: String,
    /// The doors of that call.
    pub(crate) doors: DoorSet,
}

pub(crate) const BEGINNERS: [Beginner; 4] = [
    Beginner { doors: &[Door::Mcp], is_program: false },
    Beginner { doors: &[Door::Bus, Door::Turn], is_program: false },
    Beginner { doors: &[Door::Embedded], is_program: false },
    Beginner { doors: &[Door::Mcp], is_program: true },
];

impl Beginner {
    /// Begins work by a call of this tool.
    pub(crate) async fn begin(self, world: &World, tool: &str, arguments: Value) -> BegunWork {
        let scope = Arc::new(world.scope(self.doors));
        let (called, given) = match self.is_program {
            true => {
                let code = write_program(&[(tool.to_owned(), arguments)], Order::OneByOne);
                ("tool_chain", json!({"code": code}))
            }
            false => (tool, arguments),
        };
        let output = world.toolbus.call(&scope, called, given).await.unwrap();
        assert!(!output.is_error, "{}", output.to_text());

        let calls = ledger::check(&world.parts.ledger.take(), scope.doors);
        let calls = calls.unwrap_or_else(|what| panic!("{what}"));
        let beginning = calls.iter().find(|call| call.tool == tool).unwrap();
        assert_eq!(beginning.refused_by, None, "{beginning:?}");
        let doors = match self.is_program {
            true => scope.doors.union(DoorSet::of(&[Door::Chain])),
            false => scope.doors,
        };
        BegunWork { id: beginning.id.clone(), calls, doors }
    }
}

/// Calls of a turn: the probes first, and so many that are generated.
pub(crate) fn draw_calls(draws: &mut Draws, generated: usize) -> Vec<ToolCall> {
    let mut calls: Vec<_> = probes().into_iter().map(|(_, call)| call).collect();
    calls.extend(draws.draw(&proptest::collection::vec(any_tool_call(), generated)));
    calls
}
