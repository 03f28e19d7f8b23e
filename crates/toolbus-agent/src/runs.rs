//! What runs have spent: one account for all work of a run, whichever process does it.
//!
//! A run goes on after the turn that it began with: in its subagents, in tasks of other agents, and
//! in the turns that notices of these begin. In a process, all of that shares one account. A row
//! keeps what was spent, so that later work and other processes begin where the run is. The row is
//! written when a model has answered and at the end of each turn. Two processes that work for a run
//! at the same time learn what the other spends from its next turn on.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_store::{Error as StoreError, LazyStore, Transaction};
use toolbus_tools::budget::{TurnUsage, Usage};
use toolbus_tools::{Budget, Lineage, Scope};

/// Time that a run is remembered after its row was last written.
const RUN_TTL_MS: i64 = 30 * 24 * 3_600 * 1_000;
/// How often a process forgets runs that are older than that.
const FORGET_INTERVAL: Duration = Duration::from_secs(3_600);
/// Accounts that a process remembers without work under way; what is beyond that is read from rows.
const IDLE_ACCOUNTS_MAX: usize = 1_000;

/// The runs that an agent works for. Clones are the same.
#[derive(Clone)]
pub(crate) struct Runs {
    store: LazyStore,
    accounts: Arc<Mutex<HashMap<String, RunAccount>>>,
    /// When old runs were forgotten last.
    forgot: Arc<Mutex<Option<Instant>>>,
}

/// The account of a run in this process.
struct RunAccount {
    account: Budget,
    /// The part that is in the row, and that was spent before there was work here.
    written: Usage,
    /// Turns that are under way.
    turns: usize,
}

/// Work for a run that is under way, for as long as this lives.
pub(crate) struct RunWork {
    runs: Runs,
    run: String,
}

impl Runs {
    pub(crate) fn new(store: LazyStore) -> Self {
        Self { store, accounts: Arc::default(), forgot: Arc::default() }
    }

    /// Notes that work for the run of a scope begins.
    pub(crate) fn begin(&self, scope: &Scope) -> RunWork {
        let run = scope.run.as_str().to_owned();
        let mut accounts = self.accounts.lock();
        if accounts.len() >= IDLE_ACCOUNTS_MAX {
            accounts.retain(|_, account| account.turns > 0);
        }
        let entry = accounts.entry(run.clone()).or_insert_with(|| {
            let account = scope.budget.run_account();
            RunAccount { written: account.usage(), account, turns: 0 }
        });
        entry.turns += 1;
        drop(accounts);
        RunWork { runs: self.clone(), run }
    }

    /// The account of the run of a lineage: the one that work in this process spends of, or else
    /// one with what rows and the lineage say was spent.
    pub(crate) async fn account(&self, lineage: &Lineage) -> Result<Budget, StoreError> {
        let known = |runs: &HashMap<String, RunAccount>| {
            runs.get(lineage.run()).map(|known| known.account.clone())
        };
        if let Some(account) = known(&self.accounts.lock()) {
            return Ok(account);
        }
        let Some(state) = lineage.run_account() else { return Ok(Budget::unlimited()) };

        let row =
            sqlx::query("SELECT calls, turns, tokens, micro_usd FROM agent_runs WHERE run = $1")
                .bind(lineage.run())
                .fetch_optional(self.store.open().await?.readers())
                .await?;
        let written = row.as_ref().map(read_usage).transpose()?.unwrap_or_default();
        let mut state = *state;
        state.spent = most_of(written, state.spent);
        let account = Budget::unlimited().restore(&state);

        // Whoever was first with the same question has the account that all share.
        let mut accounts = self.accounts.lock();
        let entry = accounts.entry(lineage.run().to_owned());
        let new = || RunAccount { written: state.spent, account, turns: 0 };
        Ok(entry.or_insert_with(new).account.clone())
    }

    /// Counts a turn that a notice begins, and returns false if the run has had its last one.
    pub(crate) async fn count_notice_turn(&self, run: &str, max: u32) -> Result<bool, StoreError> {
        let run = run.to_owned();

        let counted = self.store.open().await?.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let rows = sqlx::query(
                    "INSERT INTO agent_runs
                     (run, notice_turns, calls, turns, tokens, micro_usd, changed_ms)
                     VALUES ($1, 1, 0, 0, 0, 0, $2)
                     ON CONFLICT (run) DO UPDATE SET
                         notice_turns = agent_runs.notice_turns + 1, changed_ms = $2
                     WHERE agent_runs.notice_turns < $3",
                )
                .bind(run)
                .bind(now)
                .bind(i64::from(max))
                .execute(transaction.connection())
                .await?;
                Ok(rows.rows_affected() > 0)
            })
        });
        counted.await
    }

    async fn write(&self, run: &str) -> Result<(), StoreError> {
        let (spent, more) = {
            let mut accounts = self.accounts.lock();
            let Some(entry) = accounts.get_mut(run) else { return Ok(()) };
            let spent = entry.account.usage();
            let more = spent.since(std::mem::replace(&mut entry.written, spent));
            (spent, more)
        };
        if more == Usage::default() {
            return Ok(());
        }

        let (id, forgets) = (run.to_owned(), self.is_time_to_forget());
        let written = self.store.open().await?.write(move |transaction| {
            Box::pin(async move {
                if forgets {
                    forget(transaction).await?;
                }
                add_usage(transaction, &id, spent, more).await
            })
        });

        written.await.inspect_err(|_| {
            // It is written the next time.
            if let Some(entry) = self.accounts.lock().get_mut(run) {
                entry.written = entry.written.since(more);
            }
        })
    }

    /// Whether the caller must delete old runs now.
    fn is_time_to_forget(&self) -> bool {
        let mut forgot = self.forgot.lock();
        let is_due = forgot.is_none_or(|forgot| forgot.elapsed() >= FORGET_INTERVAL);
        if is_due {
            *forgot = Some(Instant::now());
        }
        is_due
    }
}

impl RunWork {
    /// Writes down what was spent so far, and returns false if the store fails.
    pub(crate) async fn keep(&self) -> bool {
        let written = self.runs.write(&self.run).await;
        if let Err(error) = &written {
            let error = error as &dyn std::error::Error;
            tracing::warn!(error, run = self.run, "what a run has spent is not written down");
        }
        written.is_ok()
    }

    /// Ends the work, and writes down what was spent.
    pub(crate) async fn end(self) {
        if !self.keep().await {
            return;
        }
        let mut accounts = self.runs.accounts.lock();
        if accounts.get(&self.run).is_some_and(|entry| entry.turns == 1) {
            accounts.remove(&self.run);
        }
    }
}

impl Drop for RunWork {
    fn drop(&mut self) {
        if let Some(entry) = self.runs.accounts.lock().get_mut(&self.run) {
            entry.turns = entry.turns.saturating_sub(1);
        }
    }
}

/// Deletes the rows of runs that were written last before [`RUN_TTL_MS`].
async fn forget(transaction: &mut Transaction) -> Result<(), StoreError> {
    let now = transaction.now_ms().await?;
    sqlx::query("DELETE FROM agent_runs WHERE changed_ms < $1")
        .bind(now.saturating_sub(RUN_TTL_MS))
        .execute(transaction.connection())
        .await?;
    Ok(())
}

/// Adds what a process has spent to the row of a run, which has never less than that process knows.
async fn add_usage(
    transaction: &mut Transaction,
    run: &str,
    spent: Usage,
    more: Usage,
) -> Result<(), StoreError> {
    let now = transaction.now_ms().await?;
    let number = |spent: u64| i64::try_from(spent).unwrap_or(i64::MAX);

    sqlx::query(
        "INSERT INTO agent_runs (run, notice_turns, calls, turns, tokens, micro_usd, changed_ms)
         VALUES ($1, 0, $2, $3, $4, $5, $6)
         ON CONFLICT (run) DO UPDATE SET changed_ms = $6,
             calls = CASE WHEN agent_runs.calls + $7 > $2 THEN agent_runs.calls + $7 ELSE $2 END,
             turns = CASE WHEN agent_runs.turns + $8 > $3 THEN agent_runs.turns + $8 ELSE $3 END,
             tokens =
                 CASE WHEN agent_runs.tokens + $9 > $4 THEN agent_runs.tokens + $9 ELSE $4 END,
             micro_usd = CASE WHEN agent_runs.micro_usd + $10 > $5
                 THEN agent_runs.micro_usd + $10 ELSE $5 END",
    )
    .bind(run.to_owned())
    .bind(number(spent.calls))
    .bind(number(spent.turns.turns))
    .bind(number(spent.turns.tokens))
    .bind(number(spent.turns.cost_micro_usd))
    .bind(now)
    .bind(number(more.calls))
    .bind(number(more.turns.turns))
    .bind(number(more.turns.tokens))
    .bind(number(more.turns.cost_micro_usd))
    .execute(transaction.connection())
    .await?;
    Ok(())
}

fn read_usage(row: &AnyRow) -> Result<Usage, sqlx::Error> {
    let number = |name| row.try_get::<i64, _>(name).map(|number| number.max(0).unsigned_abs());
    let turns = TurnUsage {
        turns: number("turns")?,
        tokens: number("tokens")?,
        cost_micro_usd: number("micro_usd")?,
    };
    Ok(Usage { calls: number("calls")?, turns })
}

/// The larger of each number.
fn most_of(one: Usage, other: Usage) -> Usage {
    let (turns, others) = (one.turns, other.turns);
    Usage {
        calls: one.calls.max(other.calls),
        turns: TurnUsage {
            turns: turns.turns.max(others.turns),
            tokens: turns.tokens.max(others.tokens),
            cost_micro_usd: turns.cost_micro_usd.max(others.cost_micro_usd),
        },
    }
}
