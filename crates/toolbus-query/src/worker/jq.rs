//! What a jq filter makes of JSON values, by jaq.
//!
//! Left out of jaq's filters is what reads the host: `env`, and the filters of local time.

use std::rc::Rc;

use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::{Compiler, DataT, Lut, ValX, Vars, compile, data};
use jaq_json::Val;
use jaq_json::write::Pp;
use jaq_std::input::{self, HasInputs, Inputs, RcIter};

use super::bounded::{self, BoundedBytes, Pieces};
use super::text::{REPLACED_NOTE, lossy};
use super::value_stream::ValueStream;
use super::{Refusal, Task};
use crate::question::Jq;
use crate::{Answer, More};

/// Filters that read the environment or the files of the host.
const READS_HOST: [&str; 3] = ["env", "localtime", "strflocaltime"];
/// What is left of a filter where it stops making sense, in an error.
const REST_CHARS_MAX: usize = 20;
/// Filters of jq that jaq's libraries do not have.
const DEFINITIONS: &str = r#"
def toarray: if isarray then . else [.] end;
def IN(s): . as $x | any(s; . == $x);
def IN(src; s): any(src; IN(s));
def INDEX(stream; f): reduce stream as $row ({}; .[$row | f | tostring] = $row);
def INDEX(f): INDEX(.[]; f);
def leaf_paths: paths(scalars);
def trimstr($s): ltrimstr($s) | rtrimstr($s);
def ascii: [.] | implode;
def tostream: def from($p):
    if isarray or isobject then
      if length == 0 then [$p, .]
      else keys as $keys | ($keys[] as $k | .[$k] | from($p + [$k])), [$p + [$keys[-1]]] end
    else [$p, .] end;
  from([]);
def @csv: [.[] | if isstring then "\"" + ((. / "\"") | join("\"\"")) + "\""
  elif isarray or isobject then error("\(.) is not valid in a csv row")
  elif . == null then "" else tostring end] | join(",");
def @tsv: [.[] | if isstring then ((. / "\\") | join("\\\\")) | ((. / "\t") | join("\\t"))
    | ((. / "\n") | join("\\n")) | ((. / "\r") | join("\\r"))
  elif isarray or isobject then error("\(.) is not valid in a tsv row")
  elif . == null then "" else tostring end] | join("\t");
"#;

/// The kinds of data of filters here.
struct Kind;

impl DataT for Kind {
    type V<'a> = Val;
    type Data<'a> = Data<'a>;
}

#[derive(Clone)]
struct Data<'a> {
    lut: &'a Lut<Kind>,
    inputs: Inputs<'a, Val>,
}

impl<'a> data::HasLut<'a, Kind> for Data<'a> {
    fn lut(&self) -> &'a Lut<Kind> {
        self.lut
    }
}

impl<'a> HasInputs<'a, Val> for Data<'a> {
    fn inputs(&self) -> Inputs<'a, Val> {
        self.inputs
    }
}

type Filter = jaq_core::Filter<Kind>;
type Ctx<'a> = jaq_core::Ctx<'a, Kind>;

pub(super) fn answer(jq: &Jq, task: Task) -> Result<Answer, Refusal> {
    let filter = compile(&jq.filter)?;
    let mut outputs = Outputs::new(jq, task.answer_bytes);
    let mut inputs = JsonInputs { stream: ValueStream::new(task.source)?, failed: None };

    let mut slurped = None;
    if jq.slurp {
        let all: Vec<Val> = inputs.by_ref().filter_map(Result::ok).collect();
        if let Some(refusal) = inputs.failed.take() {
            return Err(refusal);
        }
        slurped = Some(Ok(Val::Arr(Rc::new(all))));
    }
    // Slurping has read them all.
    let inputs = std::cell::RefCell::new(inputs);
    let rest = std::iter::from_fn(|| slurped.take().or_else(|| inputs.borrow_mut().next()));
    let rest = RcIter::new(rest);
    run(&filter, &rest, &mut outputs);

    let failed = inputs.into_inner().failed;
    outputs.into_answer(failed)
}

/// Runs the filter on each value, or on `null` once, until there is no room for outputs.
fn run(filter: &Filter, values: Inputs<'_, Val>, outputs: &mut Outputs<'_>) {
    let data = Data { lut: &filter.lut, inputs: values };
    let ctx = Ctx::new(data, Vars::new([]));
    let mut null = outputs.jq.null_input.then_some(Val::Null);

    loop {
        let value = if outputs.jq.null_input {
            null.take()
        } else {
            (&mut &*values).next().and_then(Result::ok)
        };
        let Some(value) = value else { return };
        outputs.inputs += 1;
        for output in filter.id.run((ctx.clone(), value)) {
            if !outputs.take(output) {
                return;
            }
        }
    }
}

/// The values of the source. After the first one that cannot be read there are no more.
struct JsonInputs {
    stream: ValueStream,
    failed: Option<Refusal>,
}

impl Iterator for JsonInputs {
    type Item = Result<Val, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed.is_some() {
            return None;
        }
        match self.stream.next(|reader| reader.value()) {
            Ok(value) => Ok(value).transpose(),
            Err(refusal) => {
                let message = match &refusal {
                    Refusal::Invalid(message) | Refusal::Failed(message) => message.clone(),
                    Refusal::OutOfMemory => "out of memory".to_owned(),
                };
                self.failed = Some(refusal);
                Some(Err(message))
            }
        }
    }
}

/// What the filter has put out so far.
struct Outputs<'a> {
    jq: &'a Jq,
    pieces: Pieces,
    answer_bytes: usize,
    /// How many there were, those that were skipped too.
    seen: u64,
    /// How many values the filter was run on.
    inputs: u64,
    has_more: bool,
    any_replaced: bool,
    errors: u64,
    first_error: Option<String>,
}

impl<'a> Outputs<'a> {
    fn new(jq: &'a Jq, answer_bytes: usize) -> Self {
        Self {
            jq,
            pieces: Pieces::new(answer_bytes),
            answer_bytes,
            seen: 0,
            inputs: 0,
            has_more: false,
            any_replaced: false,
            errors: 0,
            first_error: None,
        }
    }

    /// Takes an output; whether there may be others.
    fn take(&mut self, output: ValX<'_, Val>) -> bool {
        let output = match output {
            Ok(output) => output,
            Err(exception) => return self.take_exception(exception),
        };

        self.seen += 1;
        if self.seen <= self.jq.skip {
            return true;
        }
        let line = self.line(&output);
        self.has_more = !self.pieces.push(&line);
        !self.has_more
    }

    /// As with jq, an error ends what is made of one value and not of the others.
    fn take_exception(&mut self, exception: jaq_core::Exn<'_, Val>) -> bool {
        let Ok(error) = exception.get_err() else {
            // The filter wants no more.
            return false;
        };
        self.errors += 1;
        let input = self.inputs;
        self.first_error
            .get_or_insert_with(|| format!("value {input}: {}", bounded::message(error)));
        true
    }

    /// An output as a line, no longer than what can be shown.
    fn line(&mut self, output: &Val) -> String {
        let mut bytes = BoundedBytes::new(self.answer_bytes + 1);
        let written = match output {
            Val::TStr(text) if self.jq.raw => std::io::Write::write_all(&mut bytes, text),
            _ => jaq_json::write::write(&mut bytes, &Pp::default(), 0, output),
        };
        // Fails when it is too long to be shown as a whole.
        let _ = written;
        let (text, replaced) = lossy(&bytes.bytes);
        self.any_replaced |= replaced;
        format!("{text}\n")
    }

    fn into_answer(self, failed: Option<Refusal>) -> Result<Answer, Refusal> {
        let count = self.pieces.count();
        if let (0, Some(error)) = (count, &self.first_error) {
            return Err(Refusal::Invalid(error.clone()));
        }

        let skip = self.jq.skip + count;
        let more = self.has_more.then(|| More {
            hint: format!("{count} outputs are shown; narrow the filter, or skip {skip}"),
            skip: Some(skip),
            ..More::default()
        });
        let mut answer = self.pieces.into_answer(more);
        if self.any_replaced {
            answer.notes.push(REPLACED_NOTE.to_owned());
        }
        if let Some(error) = self.first_error {
            answer.notes.push(format!("{} values failed, the first one is {error}", self.errors));
        }
        match failed {
            Some(refusal) if count == 0 => return Err(refusal),
            Some(Refusal::Invalid(message)) => answer.notes.push(message),
            Some(refusal) => return Err(refusal),
            None => {}
        }
        Ok(answer)
    }
}

fn compile(filter: &str) -> Result<Filter, Refusal> {
    let own = load::parse(DEFINITIONS, |parser| parser.defs()).unwrap_or_default();
    let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs()).chain(own);
    let native = jaq_core::native::run::<Kind>;
    let inputs = input::funs::<Kind>().into_vec().into_iter().map(native);
    let functions = jaq_core::funs::<Kind>()
        .chain(jaq_std::funs::<Kind>())
        .chain(jaq_json::funs::<Kind>())
        .chain(inputs)
        .filter(|(name, ..)| !READS_HOST.contains(name));

    let arena = Arena::default();
    let modules = Loader::new(definitions)
        .load(&arena, File { code: filter, path: () })
        .map_err(|errors| explain_load(filter, &errors))?;
    Compiler::default()
        .with_funs(functions)
        .compile(modules)
        .map_err(|errors| explain_compile(filter, &errors))
}

/// What is wrong with the text of a filter, and where.
fn explain_load(filter: &str, errors: &load::Errors<&str, ()>) -> Refusal {
    let first = errors.iter().find_map(|(_, error)| match error {
        load::Error::Io(errors) => errors.first().map(|(part, what)| (what.clone(), *part)),
        load::Error::Lex(errors) => errors
            .first()
            .map(|(expected, part)| (format!("expected {}", expected.as_str()), *part)),
        load::Error::Parse(errors) => errors
            .first()
            .map(|(expected, part)| (format!("expected {}", expected.as_str()), *part)),
    });
    explain(filter, first)
}

fn explain_compile(filter: &str, errors: &compile::Errors<&str, ()>) -> Refusal {
    let first = errors.iter().find_map(|(_, errors)| {
        let (part, undefined) = errors.first()?;
        let arity = match undefined {
            compile::Undefined::Filter(arity) => format!("/{arity}"),
            _ => String::new(),
        };
        Some((format!("there is no {} {part}{arity}", undefined.as_str()), *part))
    });
    explain(filter, first)
}

fn explain(filter: &str, first: Option<(String, &str)>) -> Refusal {
    let Some((what, part)) = first else {
        return Refusal::Invalid("the filter cannot be read".to_owned());
    };
    let start = load::span(filter, part).start;
    let Some(before) = filter.get(..start) else {
        return Refusal::Invalid(format!("the filter: {what}"));
    };

    let place = before.chars().count() + 1;
    let rest: String = filter[start..].chars().take(REST_CHARS_MAX).collect();
    let rest = if rest.is_empty() { "the end".to_owned() } else { format!("`{rest}`") };
    Refusal::Invalid(format!("the filter, character {place}: {what} at {rest}"))
}

/// Compiles a filter.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(filter: &str) {
    let _ = compile(filter);
}
