//! The parsers of this crate as targets of a fuzzer.

use serde_json::{Map, Value};
use toolbus_json::Limits;
use toolbus_tools::CallError;

use crate::WispsConfig;
use crate::check::{CheckContext, check};
use crate::lenient::coerce;
use crate::template::{Filler, Piece, Results, parse};

/// Arguments of an input.
const LIMITS: Limits = Limits::of_bytes(64 << 10);
/// Most bytes of a text that is filled in.
const FILLED_BYTES_MAX: usize = 10_000;

/// The result of the step `a`. There is no other step.
struct ResultOfA<'a>(&'a str);

impl Results for ResultOfA<'_> {
    fn result(&self, step: &str) -> Option<&str> {
        (step == "a").then_some(self.0)
    }

    fn output_key(&self, step: &str) -> String {
        format!("wisp/{step}/output")
    }
}

/// Fills the result of the step `a`, which is the first line, into the text that follows. What
/// comes of it is bounded, and the pieces of the text are no more than all of it.
pub fn step_template(bytes: &[u8]) {
    let input = String::from_utf8_lossy(bytes);
    let (result, text) = input.split_once('\n').unwrap_or(("", &*input));
    if let Ok(pieces) = parse(text) {
        let texts = pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.len(),
            Piece::Reference(_) => 0,
        });
        assert!(texts.sum::<usize>() <= text.len());
    }

    let results = ResultOfA(result);
    if let Ok(filled) = Filler::new(&results, FILLED_BYTES_MAX).fill_text(text) {
        assert!(filled.len() <= FILLED_BYTES_MAX);
    }
    let _ = Filler::new(&results, FILLED_BYTES_MAX).fill_value(&Value::from(text));
}

/// Reads the arguments of a call: definitions of wisps. There are no more of them than may be, or a
/// text says why there are none.
pub fn wisp_definitions(bytes: &[u8]) {
    let arguments = toolbus_json::from_slice::<Map<String, Value>>(bytes, &LIMITS);
    let Ok(mut arguments) = arguments else { return };
    let config = WispsConfig::default();
    coerce(&mut arguments, &config);

    let of = CheckContext { config: &config, has_model: true, has_agents: true };
    match check(of, arguments.get("definitions").unwrap_or(&Value::Null)) {
        Ok(wisps) => assert!(wisps.len() <= config.wisps_max),
        Err(rejected) => assert!(!CallError::from(rejected).message.is_empty()),
    }
}
