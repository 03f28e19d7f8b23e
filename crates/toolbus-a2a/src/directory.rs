//! The directory: the agents that an agent knows.
//!
//! It is filled by what agents say of themselves, and by the settings. It is in memory, since every
//! process hears every announcement, and in the store, so that it is not empty after a restart.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use toolbus_bus::Envelope;
use toolbus_search::{Ability, Service, ServiceKind};
use toolbus_store::LazyStore;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_tools::ForeignText;
use toolbus_wire::clock::unix_now;
use toolbus_wire::message::a2a::{AgentCard, AgentSkill};
use toolbus_wire::name::AgentName;
use toolbus_wire::{json, message};

use crate::config::ms;
use crate::{A2aConfig, Error};

/// Largest card that is read, in bytes.
pub const CARD_BYTES_MAX: usize = 256 << 10;
/// Most skills that are kept of a card. Those beyond are left out.
pub const SKILLS_MAX: usize = 64;
/// Longest description that is kept, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 4 << 10;
/// Longest name, tag or other word that is kept, in bytes.
const WORD_BYTES_MAX: usize = 256;
/// Most tags and most examples that are kept of a skill.
const WORDS_MAX: usize = 16;
/// How old what is written of an agent may be that announces itself unchanged, in milliseconds.
const REWRITE_INTERVAL_MS: i64 = 60_000;

/// The agents that an agent knows. Clones are the same.
#[derive(Clone)]
pub struct Directory(Arc<Inner>);

struct Inner {
    store: LazyStore,
    agent: AgentName,
    config: Arc<A2aConfig>,
    /// By their names in lower case.
    agents: Mutex<BTreeMap<String, Entry>>,
    /// Since when announcements are heard.
    heard_since: OnceLock<Instant>,
    /// Counts what was heard that was new.
    changes: watch::Sender<u64>,
    /// Names in lower case that nobody on the bus has: those of agents that are asked over HTTP.
    claimed: Mutex<HashSet<String>>,
}

struct Entry {
    card: AgentCard,
    /// `None`: it has not announced itself, or has gone.
    seen_ms: Option<i64>,
    written_ms: i64,
    /// What the settings say of it.
    well_known: Option<AgentCard>,
}

/// An agent in the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownAgent {
    /// What it says of itself.
    pub card: AgentCard,
    /// When it announced itself last, in milliseconds of Unix time. `None`: never, or it has gone.
    pub seen_ms: Option<i64>,
    /// Whether the settings name it.
    pub is_well_known: bool,
}

/// Why a card is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CardError {
    /// The message is another.
    #[error("unknown message type '{0}'")]
    Type(String),
    /// It is too large.
    #[error("a card of {0} bytes is over the limit of {CARD_BYTES_MAX}")]
    TooLarge(usize),
    /// It cannot be read.
    #[error(transparent)]
    Body(#[from] json::Error),
    /// Nobody could be asked under that name.
    #[error("the agent's name cannot be used")]
    Name(#[from] toolbus_wire::name::Error),
    /// Another agent says that one has gone.
    #[error("'{source_name}' says that '{name}' has gone")]
    NotItsOwn {
        /// Who says so.
        source_name: String,
        /// Of whom.
        name: String,
    },
    /// There are as many agents as there may be.
    #[error("the directory is full")]
    Full,
}

/// What is to be written.
enum Change {
    Nothing,
    Put { id: String, seen_ms: i64, card: String },
    Remove { id: String },
}

impl Directory {
    /// The directory of this agent, with those of the settings in it. The store knows
    /// [`MIGRATIONS`](crate::MIGRATIONS).
    #[must_use]
    pub fn new(store: LazyStore, agent: AgentName, config: Arc<A2aConfig>) -> Self {
        let mut agents = BTreeMap::new();
        for card in config.well_known.iter().take(config.agents_max) {
            match check_card(card.clone()) {
                Ok(card) => {
                    let (written_ms, well_known) = (0, Some(card.clone()));
                    let entry = Entry { card, seen_ms: None, written_ms, well_known };
                    agents.insert(entry.card.agent_name.to_ascii_lowercase(), entry);
                }
                Err(error) => {
                    tracing::warn!(name = card.agent_name, %error, "a well-known agent is left out");
                }
            }
        }
        let (agents, claimed) = (Mutex::new(agents), Mutex::default());
        let (heard_since, changes) = (OnceLock::new(), watch::Sender::default());
        Self(Arc::new(Inner { store, agent, config, agents, heard_since, changes, claimed }))
    }

    /// Reads what was known before, and forgets what is too old.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn load(&self) -> Result<(), Error> {
        let Inner { store, agent, config, agents, claimed, .. } = &*self.0;
        if !store.may_hold_something() {
            return Ok(());
        }
        let oldest_ms = now_ms().saturating_sub(ms(config.seen_ttl));
        let (name, opened) = (agent.to_string(), store.open().await?);
        opened
            .write(move |transaction| {
                Box::pin(async move {
                    sqlx::query("DELETE FROM a2a_agents WHERE agent = $1 AND seen_ms < $2")
                        .bind(name)
                        .bind(oldest_ms)
                        .execute(transaction.connection())
                        .await?;
                    Ok(())
                })
            })
            .await?;

        let rows = sqlx::query(
            "SELECT id, seen_ms, card FROM a2a_agents WHERE agent = $1
             ORDER BY seen_ms DESC LIMIT $2",
        )
        .bind(agent.as_str())
        .bind(i64::try_from(config.agents_max).unwrap_or(i64::MAX))
        .fetch_all(opened.readers())
        .await?;
        let mut agents = agents.lock();
        for row in rows {
            let (id, seen_ms): (String, i64) = (row.try_get("id")?, row.try_get("seen_ms")?);
            // Rows of older releases hold cards that were not cleaned.
            let card = toolbus_json::from_trusted::<AgentCard>(row.try_get("card")?);
            let Some(card) = card.ok().and_then(|card| check_card(card).ok()) else { continue };
            if claimed.lock().contains(&id) {
                continue;
            }
            let is_full = agents.len() >= config.agents_max;
            match agents.get_mut(&id) {
                // What was heard since counts.
                Some(entry) if entry.seen_ms.is_some() => {}
                Some(entry) => {
                    (entry.card, entry.seen_ms, entry.written_ms) = (card, Some(seen_ms), seen_ms);
                }
                None if is_full => {}
                None => {
                    let seen = (Some(seen_ms), seen_ms);
                    let (seen_ms, written_ms) = seen;
                    agents.insert(id, Entry { card, seen_ms, written_ms, well_known: None });
                }
            }
        }
        self.0.changes.send_modify(|changes| *changes += 1);
        Ok(())
    }

    /// Takes an announcement, and says whether it is of an agent that was not known.
    ///
    /// # Errors
    /// When it is none, or is not taken. That it cannot be written is logged: it is known all the
    /// same, and comes again.
    pub async fn hear(&self, envelope: &Envelope) -> Result<bool, CardError> {
        if !message::is::<AgentCard>(envelope) {
            return Err(CardError::Type(cut(envelope.message_type.clone(), WORD_BYTES_MAX)));
        }
        if envelope.body.len() > CARD_BYTES_MAX {
            return Err(CardError::TooLarge(envelope.body.len()));
        }
        let card = check_card(message::read(envelope)?)?;
        let name = &card.agent_name;
        if name.eq_ignore_ascii_case(self.0.agent.as_str()) {
            return Ok(false);
        }
        if self.0.claimed.lock().contains(&name.to_ascii_lowercase()) {
            tracing::debug!(
                name,
                "an agent on the bus has the name of one that is asked over HTTP"
            );
            return Ok(false);
        }
        let is_new =
            !card.is_deregistering && self.find(name).is_none_or(|it| it.seen_ms.is_none());

        let change = if card.is_deregistering {
            // An announcement may be made for an agent that is started by need. That one has gone
            // is its own to say.
            if !envelope.source.eq_ignore_ascii_case(name) {
                let source_name = cut(envelope.source.clone(), WORD_BYTES_MAX);
                return Err(CardError::NotItsOwn { source_name, name: name.clone() });
            }
            self.remove(name)
        } else {
            self.put(card)?
        };
        if !matches!(change, Change::Nothing) {
            self.0.changes.send_modify(|changes| *changes += 1);
        }
        if let Err(error) = self.write(change).await {
            tracing::warn!(error = error.as_dyn(), "could not keep what an agent says of itself");
        }
        Ok(is_new)
    }

    /// Keeps names, in lower case, for agents that are asked over HTTP.
    pub(crate) fn claim_names(&self, names: HashSet<String>) {
        self.0.agents.lock().retain(|id, _| !names.contains(id));
        *self.0.claimed.lock() = names;
    }

    /// Takes the card of an agent that is asked over HTTP. It stays, and is not written down: it is
    /// read again after a restart.
    ///
    /// # Errors
    /// When it is not taken.
    pub(crate) fn put_over_http(&self, card: AgentCard) -> Result<(), CardError> {
        let card = check_card(card)?;
        let id = card.agent_name.to_ascii_lowercase();
        let mut agents = self.0.agents.lock();
        if agents.len() >= self.0.config.agents_max && !agents.contains_key(&id) {
            return Err(CardError::Full);
        }
        let well_known = Some(card.clone());
        let entry = Entry { card, seen_ms: Some(now_ms()), written_ms: 0, well_known };
        agents.insert(id, entry);
        Ok(())
    }

    fn put(&self, card: AgentCard) -> Result<Change, CardError> {
        let now_ms = now_ms();
        let id = card.agent_name.to_ascii_lowercase();
        let mut agents = self.0.agents.lock();
        if agents.len() >= self.0.config.agents_max && !agents.contains_key(&id) {
            let oldest_ms = now_ms.saturating_sub(ms(self.0.config.seen_ttl));
            agents.retain(|_, entry| entry.is_known_since(oldest_ms));
            if agents.len() >= self.0.config.agents_max {
                return Err(CardError::Full);
            }
        }

        let entry = agents.entry(id.clone()).or_insert_with(|| {
            let card = AgentCard::default();
            Entry { card, seen_ms: None, written_ms: 0, well_known: None }
        });
        entry.seen_ms = Some(now_ms);
        let is_written = now_ms.saturating_sub(entry.written_ms) < REWRITE_INTERVAL_MS;
        if is_written && entry.card == card {
            return Ok(Change::Nothing);
        }
        (entry.written_ms, entry.card) = (now_ms, card);
        let card = serde_json::to_string(&entry.card).unwrap_or_default();
        Ok(Change::Put { id, seen_ms: now_ms, card })
    }

    fn remove(&self, name: &str) -> Change {
        let id = name.to_ascii_lowercase();
        let mut agents = self.0.agents.lock();
        let Some(entry) = agents.get_mut(&id) else { return Change::Nothing };
        match &entry.well_known {
            Some(card) => (entry.card, entry.seen_ms, entry.written_ms) = (card.clone(), None, 0),
            None => drop(agents.remove(&id)),
        }
        Change::Remove { id }
    }

    async fn write(&self, change: Change) -> Result<(), Error> {
        let agent = self.0.agent.to_string();
        if let Change::Nothing = change {
            return Ok(());
        }

        let store = self.0.store.open().await?;
        let written = store.write(move |transaction| {
            Box::pin(async move {
                let query = match change {
                    Change::Nothing => return Ok(()),
                    Change::Put { id, seen_ms, card } => sqlx::query(
                        "INSERT INTO a2a_agents (agent, id, seen_ms, card)
                         VALUES ($1, $2, $3, $4)
                         ON CONFLICT (agent, id) DO UPDATE SET seen_ms = $3, card = $4",
                    )
                    .bind(agent)
                    .bind(id)
                    .bind(seen_ms)
                    .bind(card),
                    Change::Remove { id } => {
                        sqlx::query("DELETE FROM a2a_agents WHERE agent = $1 AND id = $2")
                            .bind(agent)
                            .bind(id)
                    }
                };
                query.execute(transaction.connection()).await?;
                Ok(())
            })
        });
        Ok(written.await?)
    }

    /// Is told when an agent says something new of itself, or goes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Notes that announcements are heard from now on, and that agents were asked for theirs.
    pub(crate) fn begin_to_hear(&self) {
        let _ = self.0.heard_since.set(Instant::now());
    }

    /// Waits, in the first second, until agents have had the time to announce themselves.
    pub(crate) async fn until_settled(&self) {
        if let Some(since) = self.0.heard_since.get() {
            tokio::time::sleep_until(*since + self.0.config.settle_grace).await;
        }
    }

    /// The agents that are known, by name; those with this skill, by its id or name.
    #[must_use]
    pub fn list(&self, skill: Option<&str>) -> Vec<KnownAgent> {
        let oldest_ms = now_ms().saturating_sub(ms(self.0.config.seen_ttl));
        let agents = self.0.agents.lock();
        let known = agents.values().filter(|entry| entry.is_known_since(oldest_ms));
        let skilled = known.filter(|entry| skill.is_none_or(|skill| has_skill(&entry.card, skill)));
        skilled.map(Entry::to_agent).collect()
    }

    /// The agent of this name, without regard to case.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<KnownAgent> {
        let oldest_ms = now_ms().saturating_sub(ms(self.0.config.seen_ttl));
        let agents = self.0.agents.lock();
        let entry = agents.get(&name.trim().to_ascii_lowercase())?;
        entry.is_known_since(oldest_ms).then(|| entry.to_agent())
    }

    /// Counts the agents that are known. `None`: the directory is gone.
    pub(crate) fn counter(&self) -> impl Fn() -> Option<usize> + Send + Sync + use<> {
        let inner = Arc::downgrade(&self.0);
        move || inner.upgrade().map(|inner| Self(inner).count())
    }

    fn count(&self) -> usize {
        let oldest_ms = now_ms().saturating_sub(ms(self.0.config.seen_ttl));
        let agents = self.0.agents.lock();
        agents.values().filter(|entry| entry.is_known_since(oldest_ms)).count()
    }

    /// The agents as services, for `search_known_services`.
    #[must_use]
    pub fn services(&self) -> Vec<Service> {
        self.list(None).into_iter().map(|known| service_of(known.card)).collect()
    }
}

impl Entry {
    fn is_known_since(&self, oldest_ms: i64) -> bool {
        self.well_known.is_some() || self.seen_ms.is_some_and(|seen| seen >= oldest_ms)
    }

    fn to_agent(&self) -> KnownAgent {
        KnownAgent {
            card: self.card.clone(),
            seen_ms: self.seen_ms,
            is_well_known: self.well_known.is_some(),
        }
    }
}

/// Whether an agent can be asked for a skill, by its id or name.
pub(crate) fn has_skill(card: &AgentCard, skill: &str) -> bool {
    let same = |text: &str| text.to_lowercase() == skill.trim().to_lowercase();
    let mut skills = card.skills.iter().flatten();
    skills.any(|known| same(&known.id) || same(&known.name))
}

/// An agent as a service that can be searched for.
#[must_use]
pub fn service_of(card: AgentCard) -> Service {
    let ability = |skill: AgentSkill| Ability {
        id: skill.id,
        name: Some(skill.name),
        description: skill.description,
        tags: skill.tags.unwrap_or_default(),
        examples: skill.examples.unwrap_or_default(),
    };
    Service {
        description: card.description,
        abilities: card.skills.into_iter().flatten().map(ability).collect(),
        ..Service::new(ServiceKind::Agent, card.agent_name)
    }
}

/// Prepares a card for storage: the agent must be addressable, and its text is bounded and cleaned
/// for models.
fn check_card(card: AgentCard) -> Result<AgentCard, CardError> {
    AgentName::parse(&card.agent_name)?;
    let word = |text: String| ForeignText::line(&text, WORD_BYTES_MAX).into_string();
    let words = |texts: Vec<String>| texts.into_iter().take(WORDS_MAX).map(word).collect();
    let about = |text: String| ForeignText::new(&text, DESCRIPTION_BYTES_MAX).into_string();

    let skill = |skill: AgentSkill| AgentSkill {
        id: word(skill.id),
        name: word(skill.name),
        description: skill.description.map(about),
        tags: skill.tags.map(words),
        examples: skill.examples.map(words),
    };

    Ok(AgentCard {
        description: card.description.map(about),
        version: card.version.map(word),
        skills: card.skills.map(|skills| skills.into_iter().take(SKILLS_MAX).map(skill).collect()),
        url: card.url.map(|url| ForeignText::line(&url, DESCRIPTION_BYTES_MAX).into_string()),
        protocol_version: card.protocol_version.map(word),
        auth_header_name: card.auth_header_name.map(word),
        // Nothing here calls an agent otherwise than over the bus.
        auth_header_value_base64: None,
        ..card
    })
}

/// A text in as many bytes.
fn cut(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}

fn now_ms() -> i64 {
    ms(unix_now())
}
