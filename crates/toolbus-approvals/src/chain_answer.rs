//! Answers for chains: a yes to calls that the program has yet to make.
//!
//! It holds for one tool within one chain, for calls whose arguments fit a pattern, and so many of
//! them. Each takes one away by a conditional update, so there are never more, however many come at
//! once; whatever is beyond asks again.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolbus_store::sqlx::{self, AssertSqlSafe, Row as _};
use toolbus_store::{Store, Transaction};
use toolbus_tools::canonical::{canonical_text, sha256_hex};
use toolbus_wire::envelope::new_id;

use crate::Error;
use crate::answers::later;
use crate::approval::Approval;
use crate::binding::{Binding, BoundPrincipal};

/// Most calls that one answer is for.
pub const CHAIN_CALLS_MAX: u32 = 10_000;
/// Longest pattern, in bytes of JSON.
const PATTERN_BYTES_MAX: usize = 16 << 10;
/// How long an answer holds: longer than any chain runs.
const CHAIN_ANSWER_TTL: Duration = Duration::from_secs(2 * 60 * 60);
/// Answers that are looked at for one call.
const ANSWERS_MAX: i64 = 100;

/// A yes to calls that a chain has yet to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForChain {
    /// How many more calls may run, beside the one that is asked for.
    pub calls: u32,
    /// What their arguments are: an object whose members they have, too. In a text, `*` stands for
    /// any characters; in objects further below, too, members that are not named are free.
    #[serde(default)]
    pub arguments: Value,
}

impl ForChain {
    /// Checks that the answer can be given to this question.
    pub(crate) fn check(&self, asked: &Binding) -> Result<(), Error> {
        if asked.chain.is_none() {
            return Err(Error::NoChain);
        }
        let bytes = self.arguments.to_string().len();
        if bytes > PATTERN_BYTES_MAX {
            return Err(Error::TooLarge { bytes, limit: PATTERN_BYTES_MAX });
        }
        let is_pattern = self.arguments.is_object() || self.arguments.is_null();
        let is_bounded = (1..=CHAIN_CALLS_MAX).contains(&self.calls);
        if !is_pattern || !is_bounded || !arguments_fit(&self.arguments, &asked.arguments) {
            return Err(Error::WrongPattern { calls_max: CHAIN_CALLS_MAX });
        }
        Ok(())
    }
}

/// Whether arguments fit a pattern. Where there is none, all do.
fn arguments_fit(pattern: &Value, arguments: &Value) -> bool {
    pattern.is_null() || fits(pattern, arguments)
}

fn fits(pattern: &Value, value: &Value) -> bool {
    match (pattern, value) {
        (Value::Object(pattern), Value::Object(value)) => pattern
            .iter()
            .all(|(name, pattern)| value.get(name).is_some_and(|value| fits(pattern, value))),
        (Value::Array(pattern), Value::Array(value)) => {
            pattern.len() == value.len()
                && pattern.iter().zip(value).all(|(pattern, value)| fits(pattern, value))
        }
        (Value::String(pattern), Value::String(value)) => text_fits(pattern, value),
        (pattern, value) => pattern == value,
    }
}

/// Whether a text fits a pattern in which `*` stands for any characters.
fn text_fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = parts.next_back() else { return rest.is_empty() };

    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// What an answer holds for, beside its pattern: the tool, as it is defined, in this chain.
fn digest(binding: &Binding) -> Option<String> {
    let chain = binding.chain.as_ref()?;
    let holds_for = json!({
        "chain": chain,
        "subject": binding.subject,
        "definition": binding.definition,
        "principal": binding.principal,
        "session": binding.session,
        "rule": binding.rule,
    });
    Some(sha256_hex(&canonical_text(&holds_for)))
}

/// Writes an answer down.
pub(crate) async fn insert_in(
    transaction: &mut Transaction,
    asked: &Approval,
    answer: &ForChain,
    by: &BoundPrincipal,
) -> Result<(), toolbus_store::Error> {
    let Some(digest) = digest(&asked.binding) else { return Ok(()) };
    let now = transaction.now_ms().await?;

    sqlx::query(
        "INSERT INTO approvals_chains
             (id, digest, arguments, calls_left, approval, made_by, made_ms, expires_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(new_id())
    .bind(digest)
    .bind(answer.arguments.to_string())
    .bind(i64::from(answer.calls))
    .bind(&*asked.id)
    .bind(by.to_string())
    .bind(now)
    .bind(later(now, CHAIN_ANSWER_TTL))
    .execute(transaction.connection())
    .await?;
    Ok(())
}

/// Takes one call from an answer that is for it. Gives the answer's id, where there is one.
pub(crate) async fn take(store: &Store, binding: &Binding) -> Result<Option<String>, Error> {
    let Some(digest) = digest(binding) else { return Ok(None) };
    let now = store.location().now_ms_sql();
    let text = format!(
        "SELECT id, arguments FROM approvals_chains
         WHERE digest = $1 AND calls_left > 0 AND expires_ms > {now} ORDER BY made_ms, id LIMIT $2"
    );
    let answers = sqlx::query(AssertSqlSafe(text)).bind(digest).bind(ANSWERS_MAX);
    let answers = answers.fetch_all(store.readers()).await?;

    for answer in answers {
        let (id, pattern): (String, String) = (answer.try_get("id")?, answer.try_get("arguments")?);
        // One that cannot be read is for nothing.
        let is_for_it = toolbus_json::from_trusted(&pattern)
            .is_ok_and(|pattern: Value| arguments_fit(&pattern, &binding.arguments));
        if is_for_it && take_from(store, id.clone()).await? {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

async fn take_from(store: &Store, id: String) -> Result<bool, Error> {
    let taken = store.write(move |transaction| {
        Box::pin(async move {
            let take = sqlx::query(
                "UPDATE approvals_chains SET calls_left = calls_left - 1
                 WHERE id = $1 AND calls_left > 0",
            );
            let taken = take.bind(id).execute(transaction.connection()).await?;
            Ok(taken.rows_affected() > 0)
        })
    });
    Ok(taken.await?)
}

#[cfg(test)]
mod tests;
