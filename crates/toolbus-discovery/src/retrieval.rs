//! Retrieval: from a query to the tools for it.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use toolbus_policy::principal_text;
use toolbus_tools::Scope;
use toolbus_tools::id::ToolId;
use toolbus_wire::envelope::new_id;

use crate::cache::{CacheKey, CachedAnswer};
use crate::catalogue::{Catalogue, CatalogueTool};
use crate::discovery::Inner;
use crate::events::{QueryEvent, timestamp};
use crate::learned::Learned;
use crate::query_text::normalise;
use crate::ranking::{self, Boosts, Score};
use crate::recorder::{proven_owner, session_text};
use crate::request::{
    FactorScores, LIMIT_MAX, QUERY_CHARS_MAX, RetrieveError, RetrieveRequest, Retrieved,
    RetrievedTool,
};
use crate::statistics::Statistics;

/// Candidates that the index is asked for, and that are ranked.
const CANDIDATES_MAX: usize = 50;
/// Servers that are recommended at most.
const RECOMMENDED_MAX: usize = 5;
/// Longest name of a server or of a source that is taken, in characters.
const NAME_CHARS_MAX: usize = 200;
/// A tool is fast of which half of the calls take less, in milliseconds.
const FAST_MS_MAX: f64 = 500.0;
/// A tool is asynchronous of which half of the calls take longer, in milliseconds.
const ASYNCHRONOUS_MS_MIN: f64 = 10_000.0;
/// So many calls say whether a tool is fast.
const MEASURED_MIN: u64 = 5;

/// Who asks, and what holds for the answer.
struct Asking<'a> {
    scope: &'a Scope,
    request: &'a RetrieveRequest,
    query: String,
    owner: Option<Arc<str>>,
    previous_server: Option<String>,
    is_after_hours: bool,
    now_ms: i64,
    catalogue: Arc<Catalogue>,
    /// Which tools of the catalogue the caller may use.
    permitted: Vec<bool>,
    /// Which of them fit the filters, too.
    wanted: Vec<bool>,
}

/// A tool that was ranked.
struct RankedTool<'a> {
    tool: &'a CatalogueTool,
    score: Score,
}

impl Inner {
    /// The tools for a task; see [`Discovery::retrieve`](crate::Discovery::retrieve).
    pub(crate) async fn retrieve(
        &self,
        scope: &Scope,
        request: &RetrieveRequest,
    ) -> Result<Retrieved, RetrieveError> {
        let (retrieved, event) = self.find(scope, request).await?;
        if let Some(event) = event {
            self.recorder.record_query(event);
        }
        Ok(retrieved)
    }

    /// The same, with the event of the query, which nobody keeps yet.
    pub(crate) async fn find(
        &self,
        scope: &Scope,
        request: &RetrieveRequest,
    ) -> Result<(Retrieved, Option<QueryEvent>), RetrieveError> {
        let began = Instant::now();
        let query = check(request)
            .inspect_err(|_| self.metrics.record_query("invalid", began.elapsed()))?;

        let (asking, key) = self.ask(scope, request, query);
        let cached = self.cache.lock().find(&key);
        let (answer, result) = match cached {
            Some(cached) => (cached, "cached"),
            None => {
                let answer = self.answer(&asking).await;
                let result = match &answer.answer {
                    answer if answer.tools.is_empty() => "empty",
                    answer if answer.by_words_alone => "words",
                    _ => "ranked",
                };
                self.cache.lock().insert(key, answer.clone());
                (Arc::new(answer), result)
            }
        };

        let event = query_event(&asking, &answer);
        let took = began.elapsed();
        self.metrics.record_query(result, took);
        Ok((Retrieved { took, ..answer.answer.clone() }, event))
    }

    /// Finds out who asks, and all that the answer depends on.
    fn ask<'a>(
        &self,
        scope: &'a Scope,
        request: &'a RetrieveRequest,
        query: String,
    ) -> (Asking<'a>, CacheKey) {
        let catalogue = self.catalogue();
        let permitted = self.permitted(&catalogue, scope);
        let owner = proven_owner(scope);
        let mut learned = self.learned.write();
        let epochs = learned.epochs(owner.as_ref());
        let previous_server = owner.as_ref().and_then(|owner| {
            learned.previous_server(owner, session_text(scope)).map(str::to_owned)
        });
        drop(learned);

        let filter = &request.filter;
        let is_after_hours = self.config.is_after_hours();
        let key = CacheKey {
            owner: owner.clone(),
            permissions: self.cache.lock().fingerprint(&permitted),
            query: query.clone(),
            server: filter.server.clone(),
            category: filter.category,
            score_min: filter.score_min.map(f64::to_bits),
            limit: request.limit,
            has_factors: request.debug,
            previous_server: previous_server.clone(),
            is_after_hours,
            index_version: catalogue.version,
            epochs,
        };
        let fits = |tool: &CatalogueTool| {
            filter.server.as_deref().is_none_or(|server| *server == *tool.server)
                && filter.category.is_none_or(|category| category == tool.category)
        };
        let tools = catalogue.tools.iter().zip(&permitted);
        let wanted = tools.map(|(tool, permitted)| *permitted && fits(tool)).collect();
        let asking = Asking {
            scope,
            request,
            query,
            owner,
            previous_server,
            is_after_hours,
            now_ms: self.config.clock.now_ms(),
            permitted,
            wanted,
            catalogue,
        };
        (asking, key)
    }

    /// Which tools a caller may use: those that it sees, and that the policy does not deny. What
    /// the registry has no more, nobody may use.
    fn permitted(&self, catalogue: &Catalogue, scope: &Scope) -> Vec<bool> {
        let policy = &*self.deps.policy;
        let snapshot = self.deps.registry.snapshot();
        let is_current = catalogue.registry_revision == snapshot.revision();
        let is_there = |tool: &CatalogueTool| {
            is_current || {
                let now = snapshot.find(&tool.entry.tool.name);
                now.is_some_and(|now| now.id == tool.entry.id)
            }
        };
        let tools = catalogue.tools.iter();
        tools.map(|tool| is_there(tool) && tool.is_seen_by(scope, policy)).collect()
    }

    async fn answer(&self, asking: &Asking<'_>) -> CachedAnswer {
        let catalogue = &asking.catalogue;
        let allows = |id: &ToolId| catalogue.place(id).is_some_and(|place| asking.wanted[place]);
        let index = &self.deps.index;
        let found = match &self.splits {
            None => index.search(&asking.query, CANDIDATES_MAX, &allows).await,
            Some(splits) => {
                // As it was written: without its marks a task cannot be split.
                let steps = splits.split(&asking.request.query).await;
                index.search_steps(&steps, CANDIDATES_MAX, &allows).await
            }
        };

        let mut ranked = Vec::with_capacity(found.found.len());
        {
            let learned = self.learned.read();
            let weights = asking.weights(&learned);
            for candidate in found.found.iter().take(CANDIDATES_MAX) {
                // The index may know more than the catalogue, and what was withdrawn meanwhile.
                let Some(tool) = catalogue.find(&candidate.id).filter(|_| allows(&candidate.id))
                else {
                    continue;
                };
                let score = asking.score(tool, candidate.similarity, &learned, &weights);
                ranked.push(RankedTool { tool, score });
            }
        }
        ranked.sort_by(|one, other| {
            let by_score = other.score.product.total_cmp(&one.score.product);
            by_score
                .then_with(|| one.tool.name.cmp(&other.tool.name))
                .then_with(|| one.tool.server.cmp(&other.tool.server))
                .then_with(|| one.tool.id().cmp(other.tool.id()))
        });

        let retrieved = ranked.iter().map(|ranked| ranked.tool.id().to_string()).collect();
        let scores =
            ranked.iter().map(|ranked| (ranked.tool.id().to_string(), factors_json(&ranked.score)));
        let scores = Arc::new(serde_json::Value::Object(scores.collect()));
        let score_min = asking.request.filter.score_min.unwrap_or_default();
        let tools: Vec<_> = ranked
            .iter()
            .filter(|ranked| ranked.score.reported() >= score_min)
            .take(asking.request.limit)
            .map(|ranked| ranked.to_retrieved(asking.request.debug))
            .collect();

        let recommended_servers =
            if tools.is_empty() { self.recommend(asking) } else { Vec::new() };
        let answer = Retrieved {
            tools,
            took: std::time::Duration::ZERO,
            searched: found.searched,
            by_words_alone: found.by_words_alone,
            recommended_servers,
        };
        CachedAnswer { answer, retrieved, scores }
    }

    /// Known servers that may help and that the caller has no tool of: those whose words fit
    /// first, and else the first that are known.
    fn recommend(&self, asking: &Asking<'_>) -> Vec<String> {
        let tools = asking.catalogue.tools.iter().zip(&asking.permitted);
        let has = |server: &str| {
            tools.clone().any(|(tool, permitted)| *permitted && *tool.server == *server)
        };
        let known: Vec<_> =
            self.config.known_servers.iter().filter(|server| !has(&server.name)).collect();
        let texts: Vec<_> =
            known.iter().map(|server| format!("{} {}", server.name, server.summary)).collect();
        let fitting = toolbus_search::rank(&texts, &asking.query);

        let fitting: Vec<_> = fitting.iter().map(|ranked| known[ranked.document]).collect();
        let servers = if fitting.is_empty() { known } else { fitting };
        servers.iter().take(RECOMMENDED_MAX).map(|server| server.name.clone()).collect()
    }
}

/// The event of a query of somebody who is known.
fn query_event(asking: &Asking<'_>, answer: &CachedAnswer) -> Option<QueryEvent> {
    asking.owner.as_ref()?;
    let selected = answer.answer.tools.iter();
    Some(QueryEvent {
        id: new_id(),
        user_id: principal_text(&asking.scope.principal),
        query: without_controls(&asking.request.query, QUERY_CHARS_MAX),
        source: without_controls(&asking.request.source, NAME_CHARS_MAX),
        selected_tools: selected.map(|tool| tool.entry.id.to_string()).collect(),
        retrieved_tools: answer.retrieved.to_vec(),
        scores: serde_json::Value::clone(&answer.scores),
        created_at: timestamp(asking.now_ms),
    })
}

impl Asking<'_> {
    /// How much each tool is used that the caller may use, the least first. Nothing else may be
    /// seen in an answer, not even by its number.
    fn weights(&self, learned: &Learned) -> Vec<u64> {
        let tools = self.catalogue.tools.iter().zip(&self.permitted);
        let permitted = tools.filter(|(_, permitted)| **permitted);
        let mut weights: Vec<_> =
            permitted.map(|(tool, _)| learned.statistics(tool.id(), self.now_ms).weight).collect();
        weights.sort_unstable();
        weights
    }

    fn score(
        &self,
        tool: &CatalogueTool,
        similarity: f32,
        learned: &Learned,
        weights: &[u64],
    ) -> Score {
        let statistics = learned.statistics(tool.id(), self.now_ms);
        let history =
            self.owner.as_ref().map(|owner| learned.history(owner, tool.id(), self.now_ms));
        let percentile = percentile(weights, statistics.weight);
        Score::of(FactorScores {
            similarity: ranking::similarity(similarity),
            popularity: ranking::popularity(&statistics, percentile),
            user_history: ranking::user_history(&history.unwrap_or_default()),
            performance: ranking::performance(&statistics, tool.is_away()),
            boost: self.boosts(tool, &statistics).product(),
        })
    }

    fn boosts(&self, tool: &CatalogueTool, statistics: &Statistics) -> Boosts {
        let measured = statistics.p50_ms().filter(|_| statistics.runs() >= MEASURED_MIN);
        let is_slow = measured.is_some_and(|ms| ms >= ASYNCHRONOUS_MS_MIN);
        let is_fast = measured.is_some_and(|ms| ms < FAST_MS_MAX);
        Boosts {
            is_of_same_server: self.previous_server.as_deref() == Some(&*tool.server),
            is_certified: tool.is_certified,
            is_asynchronous_after_hours: self.is_after_hours && (tool.is_asynchronous || is_slow),
            is_fast_in_hours: !self.is_after_hours && is_fast,
        }
    }
}

impl RankedTool<'_> {
    fn to_retrieved(&self, has_factors: bool) -> RetrievedTool {
        RetrievedTool {
            entry: Arc::clone(&self.tool.entry),
            server: Arc::clone(&self.tool.server),
            category: self.tool.category,
            score: self.score.reported(),
            factors: has_factors.then_some(self.score.factors),
        }
    }
}

/// The place of a weight among all, from 0 to 1: those that are less, and half of those that are
/// the same.
pub(crate) fn percentile(weights: &[u64], weight: u64) -> f64 {
    if weights.is_empty() {
        return 0.0;
    }
    let less = weights.partition_point(|other| *other < weight);
    let same = weights[less..].partition_point(|other| *other == weight);
    (less as f64 + same as f64 / 2.0) / weights.len() as f64
}

fn factors_json(score: &Score) -> serde_json::Value {
    let mut json = json!(score.factors);
    json["score"] = json!(score.reported());
    json
}

/// Checks a request, and gives its query as it is searched for.
fn check(request: &RetrieveRequest) -> Result<String, RetrieveError> {
    let invalid = |field, problem: String| Err(RetrieveError::Invalid { field, problem });
    let chars = request.query.chars().count();
    if chars > QUERY_CHARS_MAX {
        let problem = format!("has {chars} characters, and may have {QUERY_CHARS_MAX}");
        return invalid("query", problem);
    }
    let query = normalise(&request.query);
    if query.is_empty() {
        return invalid("query", "has no words".to_owned());
    }

    if !(1..=LIMIT_MAX).contains(&request.limit) {
        return invalid("limit", format!("is not from 1 to {LIMIT_MAX}"));
    }
    if request.filter.score_min.is_some_and(|score| !(0.0..=1.0).contains(&score)) {
        return invalid("filter.score_min", "is not from 0 to 1".to_owned());
    }
    let server = request.filter.server.as_deref().unwrap_or_default();
    if server.chars().count() > NAME_CHARS_MAX {
        return invalid("filter.server", format!("has over {NAME_CHARS_MAX} characters"));
    }
    Ok(query)
}

/// The beginning of a text without control characters, which a store may not take.
fn without_controls(text: &str, chars_max: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(chars_max).collect()
}
