//! How many requests a caller may make: by the minute and by the month, counted in the store.
//!
//! Each request is one small write, so the counts are exact however many processes share the store.
//! A count belongs to one minute or month by its number: a clock that goes back counts on in an
//! earlier one, and locks nobody out. A request that is refused is not counted.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_policy::months::month_of;
use toolbus_policy::owner_text;
use toolbus_store::sqlx;
use toolbus_store::{Error, LazyStore, Transaction};
use toolbus_tools::Principal;

use super::api_error::ApiErrorCode;

const MINUTE_MS: i64 = 60_000;
/// How often a count is tried that others keep from being written.
const ATTEMPTS_MAX: usize = 3;

/// How many requests there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Requests in each minute.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub per_minute: u32,
    /// Requests in each month of the calendar, in UTC.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub per_month: u32,
}

impl Plan {
    /// The plan `free`.
    pub const FREE: Self = Self { per_minute: 10, per_month: 1_000 };
    /// The plan `pro`.
    pub const PRO: Self = Self { per_minute: 100, per_month: 100_000 };
}

impl Default for Plan {
    fn default() -> Self {
        Self::FREE
    }
}

/// What is left to a caller, as the headers of an answer tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    /// When it begins anew, in seconds of Unix time.
    pub(crate) reset_s: i64,
}

/// A request too many.
#[derive(Debug)]
pub(crate) struct Exceeded {
    pub(crate) code: ApiErrorCode,
    pub(crate) message: String,
    pub(crate) wait: Duration,
    pub(crate) standing: Standing,
}

/// The counts of a store.
#[derive(Clone)]
pub(crate) struct Counts {
    store: LazyStore,
}

/// One of the two spans that are counted.
#[derive(Debug, Clone, Copy)]
struct Span {
    name: &'static str,
    number: i64,
    calls_max: u32,
    end_ms: i64,
}

impl Standing {
    /// That of a caller who has asked for nothing yet.
    pub(crate) fn untouched(plan: Plan, now_ms: i64) -> Self {
        Span::minute(plan, now_ms).standing(0)
    }
}

impl Counts {
    pub(crate) fn new(store: LazyStore) -> Self {
        Self { store }
    }

    /// Counts a request.
    pub(crate) async fn charge(
        &self,
        principal: &Principal,
        plan: Plan,
    ) -> Result<Result<Standing, Exceeded>, Error> {
        let counted = owner_text(principal);
        let store = self.store.open().await?;
        let mut attempts = 1;
        loop {
            let counted = counted.clone();
            let charged =
                store.write(move |transaction| Box::pin(charge(transaction, counted, plan))).await;
            match charged {
                // It may be counted.
                Err(Error::OutcomeUnknown(_)) => return charged,
                // Two processes may each wait for the other's rows: the database ends one of them.
                Err(_) if attempts < ATTEMPTS_MAX => attempts += 1,
                charged => return charged,
            }
        }
    }
}

async fn charge(
    transaction: &mut Transaction,
    counted: String,
    plan: Plan,
) -> Result<Result<Standing, Exceeded>, Error> {
    let now_ms = transaction.now_ms().await?;
    let (month, minute) = (Span::month(plan, now_ms), Span::minute(plan, now_ms));

    let Some(of_month) = month.add(transaction, &counted).await? else {
        return Ok(Err(month.exceeded(now_ms)));
    };
    let Some(of_minute) = minute.add(transaction, &counted).await? else {
        month.take_back(transaction, &counted).await?;
        return Ok(Err(minute.exceeded(now_ms)));
    };

    let (of_month, of_minute) = (month.standing(of_month), minute.standing(of_minute));
    let is_month_nearer = of_month.remaining < of_minute.remaining;
    Ok(Ok(if is_month_nearer { of_month } else { of_minute }))
}

impl Span {
    fn minute(plan: Plan, now_ms: i64) -> Self {
        let number = now_ms.div_euclid(MINUTE_MS);
        let end_ms = (number + 1) * MINUTE_MS;
        Self { name: "minute", number, calls_max: plan.per_minute, end_ms }
    }

    fn month(plan: Plan, now_ms: i64) -> Self {
        let since_epoch = Duration::from_millis(u64::try_from(now_ms).unwrap_or_default());
        let number = i64::try_from(month_of(since_epoch)).unwrap_or(i64::MAX);
        let end_ms = end_of_month(now_ms).unwrap_or(now_ms);
        Self { name: "month", number, calls_max: plan.per_month, end_ms }
    }

    /// Counts one, and gives how many there are then. `None`: there is no room.
    async fn add(self, transaction: &mut Transaction, counted: &str) -> Result<Option<u32>, Error> {
        let calls: Option<i64> = sqlx::query_scalar(
            "INSERT INTO http_counts (counted, span, number, calls) VALUES ($1, $2, $3, 1)
             ON CONFLICT (counted, span, number)
             DO UPDATE SET calls = http_counts.calls + 1 WHERE http_counts.calls < $4
             RETURNING calls",
        )
        .bind(counted)
        .bind(self.name)
        .bind(self.number)
        .bind(i64::from(self.calls_max))
        .fetch_optional(transaction.connection())
        .await?;

        if calls == Some(1) {
            sqlx::query("DELETE FROM http_counts WHERE counted = $1 AND span = $2 AND number < $3")
                .bind(counted)
                .bind(self.name)
                .bind(self.number)
                .execute(transaction.connection())
                .await?;
        }
        Ok(calls.map(|calls| u32::try_from(calls).unwrap_or(u32::MAX)))
    }

    async fn take_back(self, transaction: &mut Transaction, counted: &str) -> Result<(), Error> {
        sqlx::query(
            "UPDATE http_counts SET calls = calls - 1
             WHERE counted = $1 AND span = $2 AND number = $3",
        )
        .bind(counted)
        .bind(self.name)
        .bind(self.number)
        .execute(transaction.connection())
        .await?;
        Ok(())
    }

    fn standing(self, calls: u32) -> Standing {
        Standing {
            limit: self.calls_max,
            remaining: self.calls_max.saturating_sub(calls),
            reset_s: self.end_ms / 1_000,
        }
    }

    fn exceeded(self, now_ms: i64) -> Exceeded {
        let wait = u64::try_from(self.end_ms - now_ms).unwrap_or_default();
        let code = match self.name {
            "month" => ApiErrorCode::QuotaExceeded,
            _ => ApiErrorCode::RateLimited,
        };
        let message =
            format!("{} requests in a {} are the limit of this plan", self.calls_max, self.name);
        let standing = self.standing(self.calls_max);
        Exceeded { code, message, wait: Duration::from_millis(wait), standing }
    }
}

/// When the month of a moment ends.
fn end_of_month(now_ms: i64) -> Option<i64> {
    let now = Timestamp::from_millisecond(now_ms).ok()?.to_zoned(TimeZone::UTC);
    let first_of_next = now.date().last_of_month().tomorrow().ok()?;
    let end = first_of_next.to_zoned(TimeZone::UTC).ok()?;
    Some(end.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests;
