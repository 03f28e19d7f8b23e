-- State that commit 34f55748a90b wrote: its tables, which are never changed here, and a row or two
-- of each in the form of its statements.

-- Tables.
CREATE TABLE migrations (
             owner TEXT NOT NULL,
             version BIGINT NOT NULL,
             digest TEXT NOT NULL,
             PRIMARY KEY (owner, version)
         );
CREATE TABLE leases (
                  name TEXT PRIMARY KEY,
                  holder TEXT NOT NULL,
                  until_ms BIGINT NOT NULL,
                  token BIGINT NOT NULL
              );
INSERT INTO migrations (owner, version, digest) VALUES ('store', 1, '4213760ce91a572605108482fe170ad5f382b02bdadb10db0a7a59c37f428840');
CREATE TABLE a2a_agents (
                  agent TEXT NOT NULL,
                  id TEXT NOT NULL,
                  seen_ms BIGINT NOT NULL,
                  card TEXT NOT NULL,
                  PRIMARY KEY (agent, id)
              );
              CREATE TABLE a2a_asked (
                  id TEXT PRIMARY KEY,
                  agent TEXT NOT NULL,
                  owner TEXT NOT NULL,
                  session TEXT NOT NULL,
                  target TEXT NOT NULL,
                  skill TEXT NOT NULL,
                  holder TEXT NOT NULL,
                  state TEXT NOT NULL,
                  created_ms BIGINT NOT NULL,
                  deadline_ms BIGINT NOT NULL,
                  cancel_ms BIGINT,
                  ended_ms BIGINT,
                  event TEXT NOT NULL,
                  teller TEXT NOT NULL,
                  telling_until_ms BIGINT NOT NULL
              );
              CREATE INDEX a2a_asked_agent ON a2a_asked (agent);
              CREATE TABLE a2a_tasks (
                  agent TEXT NOT NULL,
                  caller TEXT NOT NULL,
                  id TEXT NOT NULL,
                  state TEXT NOT NULL,
                  holder TEXT NOT NULL,
                  lease_until_ms BIGINT NOT NULL,
                  begun BIGINT NOT NULL,
                  received_ms BIGINT NOT NULL,
                  deadline_ms BIGINT NOT NULL,
                  cancel_ms BIGINT,
                  ended_ms BIGINT,
                  answered_ms BIGINT,
                  reply_to TEXT NOT NULL,
                  depth BIGINT NOT NULL,
                  context TEXT,
                  request TEXT NOT NULL,
                  answer_type TEXT NOT NULL,
                  answer TEXT NOT NULL,
                  PRIMARY KEY (agent, caller, id)
              );
              CREATE INDEX a2a_tasks_open ON a2a_tasks (agent) WHERE answered_ms IS NULL;
              CREATE INDEX a2a_tasks_answered ON a2a_tasks (agent, answered_ms);
INSERT INTO migrations (owner, version, digest) VALUES ('a2a', 1, '44dfc6cf8b5b7ac81744de71c3c76c6e9243af293adc5c60dde0a3004e0d259d');
ALTER TABLE a2a_tasks ADD COLUMN message_id TEXT;
                  ALTER TABLE a2a_tasks ADD COLUMN end_state BIGINT;
                  CREATE TABLE a2a_sent (
                      id TEXT PRIMARY KEY,
                      agent TEXT NOT NULL,
                      state TEXT NOT NULL,
                      message TEXT NOT NULL,
                      depth BIGINT NOT NULL,
                      url TEXT NOT NULL,
                      version TEXT NOT NULL,
                      remote_id TEXT NOT NULL,
                      holder TEXT NOT NULL,
                      lease_until_ms BIGINT NOT NULL
                  );
                  CREATE INDEX a2a_sent_agent ON a2a_sent (agent);
INSERT INTO migrations (owner, version, digest) VALUES ('a2a', 2, '34cb4405779a24e6da0fc9a9b67943e149c99ea05e9aab1590265ad3b4500d57');
CREATE TABLE agent_sessions (
                  owner TEXT NOT NULL,
                  session TEXT NOT NULL,
                  title TEXT NOT NULL,
                  began_ms BIGINT NOT NULL,
                  changed_ms BIGINT NOT NULL,
                  events BIGINT NOT NULL,
                  PRIMARY KEY (owner, session)
              );
              CREATE INDEX agent_sessions_changed ON agent_sessions (owner, changed_ms);
              CREATE TABLE agent_events (
                  owner TEXT NOT NULL,
                  session TEXT NOT NULL,
                  number BIGINT NOT NULL,
                  event TEXT NOT NULL,
                  PRIMARY KEY (owner, session, number)
              );
INSERT INTO migrations (owner, version, digest) VALUES ('agent', 1, '302eb11a5c0344cfafb641e9724d93418cef126eb78438c3969f929b35dc5cc6');
ALTER TABLE agent_events ADD COLUMN at_ms BIGINT NOT NULL DEFAULT 0;
                  CREATE INDEX agent_sessions_session ON agent_sessions (session);
INSERT INTO migrations (owner, version, digest) VALUES ('agent', 2, 'd4266556e7fad63ce5b837cebb780219f2e381e09152938ce674e29a207af696');
CREATE TABLE approvals (
                  id TEXT PRIMARY KEY,
                  state TEXT NOT NULL,
                  call_key TEXT NOT NULL,
                  asked_digest TEXT NOT NULL,
                  digest TEXT NOT NULL,
                  binding TEXT NOT NULL,
                  asked_binding TEXT,
                  call_id TEXT NOT NULL,
                  tool TEXT NOT NULL,
                  subject TEXT NOT NULL,
                  risk TEXT NOT NULL,
                  door TEXT NOT NULL,
                  agent TEXT NOT NULL,
                  reason TEXT NOT NULL,
                  asked_ms BIGINT NOT NULL,
                  expires_ms BIGINT NOT NULL,
                  answered_ms BIGINT,
                  answered_by TEXT,
                  note TEXT,
                  ended_ms BIGINT,
                  held_by TEXT,
                  request TEXT
              );
              CREATE UNIQUE INDEX approvals_call ON approvals (call_key, asked_digest);
              CREATE INDEX approvals_overdue ON approvals (state, expires_ms)
                  WHERE ended_ms IS NULL;
              CREATE INDEX approvals_listed ON approvals (state, asked_ms);
              CREATE INDEX approvals_asked ON approvals (asked_ms);
              CREATE INDEX approvals_held ON approvals (held_by, state)
                  WHERE held_by IS NOT NULL;
              CREATE INDEX approvals_kept ON approvals (agent, state) WHERE request IS NOT NULL;
              CREATE INDEX approvals_not_kept ON approvals (state)
                  WHERE request IS NULL AND ended_ms IS NULL;
              CREATE INDEX approvals_ended ON approvals (ended_ms) WHERE ended_ms IS NOT NULL;
              CREATE TABLE approvals_remembered (
                  id TEXT PRIMARY KEY,
                  digest TEXT NOT NULL UNIQUE,
                  remember TEXT NOT NULL,
                  approval TEXT NOT NULL,
                  subject TEXT NOT NULL,
                  binding TEXT NOT NULL,
                  made_by TEXT NOT NULL,
                  made_ms BIGINT NOT NULL,
                  expires_ms BIGINT NOT NULL
              );
              CREATE TABLE approvals_hosts (
                  id TEXT PRIMARY KEY,
                  until_ms BIGINT NOT NULL
              );
INSERT INTO migrations (owner, version, digest) VALUES ('approvals', 1, 'cd6e29072e476be8afbf67668eaadcb08b678588c5795d987a6d72efe701f3e1');
CREATE TABLE approvals_chains (
                  id TEXT PRIMARY KEY,
                  digest TEXT NOT NULL,
                  arguments TEXT NOT NULL,
                  calls_left BIGINT NOT NULL,
                  approval TEXT NOT NULL,
                  made_by TEXT NOT NULL,
                  made_ms BIGINT NOT NULL,
                  expires_ms BIGINT NOT NULL
              );
              CREATE INDEX approvals_chains_for ON approvals_chains (digest, made_ms);
              CREATE INDEX approvals_chains_over ON approvals_chains (expires_ms);
INSERT INTO migrations (owner, version, digest) VALUES ('approvals', 2, '3a3e48c9fe3a34c568470ffd5949433b5cb10dab9e0bd7666e763b448bf280a2');
CREATE TABLE artifacts (
                  id TEXT PRIMARY KEY,
                  owner TEXT NOT NULL,
                  digest TEXT NOT NULL,
                  media_type TEXT NOT NULL,
                  bytes BIGINT NOT NULL,
                  tool TEXT NOT NULL,
                  call_id TEXT NOT NULL,
                  stored_ms BIGINT NOT NULL,
                  expires_ms BIGINT NOT NULL
              );
              CREATE INDEX artifacts_owned ON artifacts (owner, stored_ms);
              CREATE INDEX artifacts_expired ON artifacts (expires_ms);
              CREATE INDEX artifacts_same ON artifacts (digest);
              CREATE TABLE artifacts_objects (
                  digest TEXT PRIMARY KEY,
                  object TEXT NOT NULL,
                  bytes BIGINT NOT NULL
              );
              CREATE TABLE artifacts_pins (
                  artifact TEXT NOT NULL,
                  holder TEXT NOT NULL,
                  until_ms BIGINT NOT NULL,
                  PRIMARY KEY (artifact, holder)
              );
              CREATE TABLE artifacts_used (
                  owner TEXT PRIMARY KEY,
                  artifacts BIGINT NOT NULL,
                  bytes BIGINT NOT NULL
              );
INSERT INTO migrations (owner, version, digest) VALUES ('artifacts', 1, '89a0c20f01d9789b44007fa0c1863708aa5b287dbc3411ac3f15c6feaadbf6a0');
CREATE TABLE audit_calls (
                  began_ms BIGINT NOT NULL,
                  took_us BIGINT NOT NULL,
                  call_id TEXT NOT NULL,
                  parent TEXT,
                  run TEXT NOT NULL,
                  session TEXT,
                  agent TEXT NOT NULL,
                  door TEXT NOT NULL,
                  principal TEXT NOT NULL,
                  tool TEXT NOT NULL,
                  subject TEXT,
                  arguments TEXT,
                  status TEXT NOT NULL,
                  error TEXT,
                  refused_by TEXT,
                  execution TEXT NOT NULL
              );
              CREATE INDEX audit_calls_began ON audit_calls (began_ms);
INSERT INTO migrations (owner, version, digest) VALUES ('audit', 1, '3879a2de19384df1567d68e1665adce0b2684475d0396cd8ec8364ae17f61a66');
CREATE TABLE chains_journals (
                  journal TEXT NOT NULL,
                  digest TEXT NOT NULL,
                  repetition BIGINT NOT NULL,
                  owner TEXT NOT NULL,
                  began_ms BIGINT NOT NULL,
                  result TEXT,
                  PRIMARY KEY (journal, digest, repetition)
              );
              CREATE INDEX chains_journals_began ON chains_journals (began_ms);
INSERT INTO migrations (owner, version, digest) VALUES ('chains', 1, 'c55218a805b52dbc04c5a2ee0d036e4df216a45fc4863f5538147f8e526a2863');
CREATE TABLE discovery_tools (
                      tool TEXT NOT NULL,
                      period BIGINT NOT NULL,
                      successes BIGINT NOT NULL,
                      failures BIGINT NOT NULL,
                      timeouts BIGINT NOT NULL,
                      unavailable BIGINT NOT NULL,
                      weight BIGINT NOT NULL,
                      b00 BIGINT NOT NULL,
                      b01 BIGINT NOT NULL,
                      b02 BIGINT NOT NULL,
                      b03 BIGINT NOT NULL,
                      b04 BIGINT NOT NULL,
                      b05 BIGINT NOT NULL,
                      b06 BIGINT NOT NULL,
                      b07 BIGINT NOT NULL,
                      b08 BIGINT NOT NULL,
                      b09 BIGINT NOT NULL,
                      b10 BIGINT NOT NULL,
                      b11 BIGINT NOT NULL,
                      b12 BIGINT NOT NULL,
                      b13 BIGINT NOT NULL,
                      b14 BIGINT NOT NULL,
                      b15 BIGINT NOT NULL,
                      b16 BIGINT NOT NULL,
                      b17 BIGINT NOT NULL,
                      b18 BIGINT NOT NULL,
                      b19 BIGINT NOT NULL,
                      b20 BIGINT NOT NULL,
                      b21 BIGINT NOT NULL,
                      b22 BIGINT NOT NULL,
                      b23 BIGINT NOT NULL,
                      last_used_ms BIGINT NOT NULL,
                      updated_ms BIGINT NOT NULL,
                      PRIMARY KEY (tool, period)
              );
              CREATE INDEX discovery_tools_updated ON discovery_tools (updated_ms);
              CREATE TABLE discovery_uses (
                      principal TEXT NOT NULL,
                      tool TEXT NOT NULL,
                      period BIGINT NOT NULL,
                      successes BIGINT NOT NULL,
                      failures BIGINT NOT NULL,
                      last_used_ms BIGINT NOT NULL,
                      updated_ms BIGINT NOT NULL,
                      PRIMARY KEY (principal, tool, period)
              );
              CREATE INDEX discovery_uses_updated ON discovery_uses (updated_ms);
              CREATE TABLE discovery_pairs (
                      tool_before TEXT NOT NULL,
                      tool_after TEXT NOT NULL,
                      period BIGINT NOT NULL,
                      successes BIGINT NOT NULL,
                      failures BIGINT NOT NULL,
                      last_used_ms BIGINT NOT NULL,
                      updated_ms BIGINT NOT NULL,
                      PRIMARY KEY (tool_before, tool_after, period)
              );
              CREATE INDEX discovery_pairs_updated ON discovery_pairs (updated_ms);
              CREATE TABLE discovery_executions (
                      at_ms BIGINT NOT NULL,
                      event TEXT NOT NULL
              );
              CREATE INDEX discovery_executions_at ON discovery_executions (at_ms);
              CREATE TABLE discovery_queries (
                      at_ms BIGINT NOT NULL,
                      event TEXT NOT NULL
              );
              CREATE INDEX discovery_queries_at ON discovery_queries (at_ms);
INSERT INTO migrations (owner, version, digest) VALUES ('discovery', 1, 'bb4e1191bf8e7bb5ed3e207fa7f0765fe332cb28051610e7cecb81f89284912b');
CREATE TABLE http_keys (
                  id TEXT PRIMARY KEY,
                  name TEXT NOT NULL,
                  kind TEXT NOT NULL,
                  shown TEXT NOT NULL,
                  role TEXT NOT NULL,
                  plan TEXT NOT NULL,
                  lookup TEXT NOT NULL,
                  digest TEXT NOT NULL,
                  webhook_secret TEXT NOT NULL,
                  created_ms BIGINT NOT NULL,
                  expires_ms BIGINT,
                  revoked_ms BIGINT
              );
              CREATE INDEX http_keys_lookup ON http_keys (lookup);
              CREATE UNIQUE INDEX http_keys_name ON http_keys (name) WHERE revoked_ms IS NULL;
              CREATE TABLE http_counts (
                  counted TEXT NOT NULL,
                  span TEXT NOT NULL,
                  number BIGINT NOT NULL,
                  calls BIGINT NOT NULL,
                  PRIMARY KEY (counted, span, number)
              );
              CREATE TABLE http_jobs (
                  id TEXT PRIMARY KEY,
                  agent TEXT NOT NULL,
                  owner TEXT NOT NULL,
                  tool TEXT NOT NULL,
                  arguments TEXT NOT NULL,
                  timeout_ms BIGINT NOT NULL,
                  state TEXT NOT NULL,
                  created_ms BIGINT NOT NULL,
                  started_ms BIGINT,
                  ended_ms BIGINT,
                  holder TEXT,
                  lease_ms BIGINT,
                  outcome TEXT,
                  webhook_url TEXT,
                  webhook_state TEXT
              );
              CREATE INDEX http_jobs_open ON http_jobs (agent, state, created_ms)
                  WHERE ended_ms IS NULL;
              CREATE INDEX http_jobs_owner ON http_jobs (agent, owner);
              CREATE INDEX http_jobs_ended ON http_jobs (agent, ended_ms);
INSERT INTO migrations (owner, version, digest) VALUES ('http', 1, '898511efab71c6998c3b05dc2ea405e9d14b39a0220ba740d0862fc61319d788');
ALTER TABLE http_keys DROP COLUMN webhook_secret;
          ALTER TABLE http_keys ADD COLUMN has_secret BIGINT NOT NULL DEFAULT 0;
          CREATE INDEX http_keys_secret ON http_keys (has_secret) WHERE has_secret = 1;
          ALTER TABLE http_jobs ADD COLUMN webhook_due_ms BIGINT;
          ALTER TABLE http_jobs ADD COLUMN webhook_attempts BIGINT NOT NULL DEFAULT 0;
          CREATE INDEX http_jobs_webhook ON http_jobs (agent, webhook_due_ms)
              WHERE webhook_due_ms IS NOT NULL;
INSERT INTO migrations (owner, version, digest) VALUES ('http', 2, '92951100a191a8a8ef1989bfd3ea2eade62dbd57ea86f755cd0991d203d9e619');
CREATE TABLE memory_entries (
                  owner TEXT NOT NULL,
                  path TEXT NOT NULL,
                  namespace TEXT NOT NULL,
                  written_path TEXT NOT NULL,
                  bytes BIGINT NOT NULL,
                  category TEXT NOT NULL,
                  tags TEXT NOT NULL,
                  is_result BIGINT NOT NULL,
                  stored_ms BIGINT NOT NULL,
                  expires_ms BIGINT NOT NULL,
                  value BLOB NOT NULL,
                  PRIMARY KEY (owner, path)
              );
              CREATE INDEX memory_entries_listed ON memory_entries (owner, namespace);
              CREATE INDEX memory_entries_counted ON memory_entries (owner, expires_ms, bytes);
              CREATE INDEX memory_entries_expired ON memory_entries (expires_ms);
              CREATE TABLE memory_namespaces (
                  owner TEXT NOT NULL,
                  namespace TEXT NOT NULL,
                  written_ms BIGINT NOT NULL,
                  PRIMARY KEY (owner, namespace)
              );
              CREATE TABLE memory_items (
                  owner TEXT NOT NULL,
                  kind TEXT NOT NULL,
                  id TEXT NOT NULL,
                  name TEXT NOT NULL,
                  category TEXT NOT NULL,
                  tags TEXT NOT NULL,
                  summary TEXT NOT NULL,
                  stored_ms BIGINT NOT NULL,
                  content BLOB NOT NULL,
                  PRIMARY KEY (owner, kind, id)
              );
INSERT INTO migrations (owner, version, digest) VALUES ('memory', 1, '5fde512ba9a16f49069438c643142551345def4f9b70520b8b6f05c10af44150');
CREATE TABLE schedule_tasks (
                  agent TEXT NOT NULL,
                  owner TEXT NOT NULL,
                  id TEXT NOT NULL,
                  generation TEXT NOT NULL,
                  name TEXT NOT NULL,
                  principal TEXT NOT NULL,
                  cron TEXT NOT NULL,
                  zone TEXT NOT NULL,
                  run_once BIGINT NOT NULL,
                  missed TEXT NOT NULL,
                  missed_max BIGINT NOT NULL,
                  created_ms BIGINT NOT NULL,
                  last_fired_ms BIGINT,
                  next_ms BIGINT,
                  accounted_ms BIGINT,
                  description TEXT NOT NULL,
                  PRIMARY KEY (agent, owner, id)
              );
              CREATE UNIQUE INDEX schedule_tasks_generation ON schedule_tasks (generation);
              CREATE TABLE schedule_occurrences (
                  id TEXT PRIMARY KEY,
                  agent TEXT NOT NULL,
                  owner TEXT NOT NULL,
                  task TEXT NOT NULL,
                  generation TEXT NOT NULL,
                  name TEXT NOT NULL,
                  principal TEXT NOT NULL,
                  cause TEXT NOT NULL,
                  state TEXT NOT NULL,
                  reason TEXT NOT NULL,
                  due_ms BIGINT NOT NULL,
                  until_ms BIGINT NOT NULL,
                  fires BIGINT NOT NULL,
                  missed_before BIGINT NOT NULL,
                  attempts BIGINT NOT NULL,
                  retry_ms BIGINT NOT NULL,
                  fired_ms BIGINT NOT NULL,
                  started_ms BIGINT,
                  ended_ms BIGINT,
                  description TEXT NOT NULL
              );
              CREATE UNIQUE INDEX schedule_occurrences_once
                  ON schedule_occurrences (generation, due_ms, cause);
              CREATE INDEX schedule_occurrences_open ON schedule_occurrences (agent)
                  WHERE ended_ms IS NULL;
              CREATE INDEX schedule_occurrences_listed
                  ON schedule_occurrences (agent, owner, due_ms);
INSERT INTO migrations (owner, version, digest) VALUES ('schedule', 1, '3460a06a3e26d63df47c50e234956aa9e3201d52a46da9c888ecb6510805f016');
CREATE INDEX schedule_tasks_next ON schedule_tasks (agent, next_ms);
INSERT INTO migrations (owner, version, digest) VALUES ('schedule', 2, 'bf4381152b831f3ff66e0860f416b6560767428f235ccf3a33f9b8a695508543');
CREATE TABLE subagents (
                  id TEXT PRIMARY KEY,
                  agent TEXT NOT NULL,
                  owner TEXT NOT NULL,
                  session TEXT NOT NULL,
                  call TEXT NOT NULL,
                  description TEXT NOT NULL,
                  context TEXT NOT NULL,
                  priority BIGINT NOT NULL,
                  depth BIGINT NOT NULL,
                  state TEXT NOT NULL,
                  is_paused BIGINT NOT NULL,
                  holder TEXT NOT NULL,
                  lease_until_ms BIGINT NOT NULL,
                  begun BIGINT NOT NULL,
                  created_ms BIGINT NOT NULL,
                  deadline_ms BIGINT NOT NULL,
                  spent_calls BIGINT NOT NULL,
                  spent_turns BIGINT NOT NULL,
                  spent_tokens BIGINT NOT NULL,
                  spent_micro_usd BIGINT NOT NULL,
                  cancel_ms BIGINT,
                  ended_ms BIGINT,
                  told_ms BIGINT,
                  outcome TEXT NOT NULL,
                  teller TEXT NOT NULL,
                  telling_until_ms BIGINT NOT NULL
              );
              CREATE UNIQUE INDEX subagents_call ON subagents (agent, call);
              CREATE INDEX subagents_open ON subagents (agent) WHERE told_ms IS NULL;
              CREATE INDEX subagents_session ON subagents (agent, owner, session, state);
              CREATE INDEX subagents_told ON subagents (agent, told_ms);
              CREATE TABLE subagent_sessions (
                  agent TEXT NOT NULL,
                  owner TEXT NOT NULL,
                  session TEXT NOT NULL,
                  used_ms BIGINT NOT NULL,
                  PRIMARY KEY (agent, owner, session)
              );
              CREATE TABLE subagent_whiteboard (
                  agent TEXT NOT NULL,
                  owner TEXT NOT NULL,
                  session TEXT NOT NULL,
                  name TEXT NOT NULL,
                  value TEXT NOT NULL,
                  bytes BIGINT NOT NULL,
                  writer TEXT NOT NULL,
                  written_ms BIGINT NOT NULL,
                  PRIMARY KEY (agent, owner, session, name)
              );
              CREATE INDEX subagent_whiteboard_age ON subagent_whiteboard (agent, written_ms);
INSERT INTO migrations (owner, version, digest) VALUES ('subagents', 1, '789bcb2b06d712f1ca0d12711859d207336dc8eb11ebe7de45e9141d30c979e6');
CREATE TABLE vault_key (
                  id BIGINT PRIMARY KEY,
                  name TEXT NOT NULL
              );
              CREATE TABLE vault_credentials (
                  provider TEXT NOT NULL,
                  tool TEXT NOT NULL,
                  caller TEXT NOT NULL,
                  name TEXT NOT NULL,
                  sealed BLOB NOT NULL,
                  written_ms BIGINT NOT NULL,
                  PRIMARY KEY (provider, tool, caller, name)
              );
INSERT INTO migrations (owner, version, digest) VALUES ('vault', 1, '3aaa1db2a1b30391255056a91d32cfbc97f079916e86af066b5bc04a6dfb7222');
CREATE TABLE policy_months (
                  limit_name TEXT NOT NULL,
                  counted TEXT NOT NULL,
                  month BIGINT NOT NULL,
                  calls BIGINT NOT NULL,
                  PRIMARY KEY (limit_name, counted, month)
              );
INSERT INTO migrations (owner, version, digest) VALUES ('policy', 1, 'e8e1495ce277eaac6d95d47fdae036b4a2426c9c5e90ddb6d7b88a6133ec86b5');

-- Rows.
INSERT INTO leases (name, holder, until_ms, token)
    VALUES ('agent/RockBot/session', 'host-1', 1795800000000, 7);
INSERT INTO a2a_agents (agent, id, seen_ms, card)
    VALUES ('RockBot', 'Weather', 1795800000000, '{"name":"Weather"}');
INSERT INTO a2a_asked (id, agent, owner, session, target, skill, holder, state, created_ms, deadline_ms, event, teller, telling_until_ms)
    VALUES ('task-1', 'RockBot', 'local:ann', 'cli', 'Weather', 'forecast', 'host-1', 'asked', 1795800000000, 1795800600000, '', '', 0);
INSERT INTO a2a_sent (id, agent, state, message, depth, url, version, remote_id, holder, lease_until_ms)
    VALUES ('task-2', 'RockBot', 'new', '{}', 1, 'https://weather.example', '1.0', '', '', 0);
INSERT INTO a2a_tasks (agent, caller, id, state, holder, lease_until_ms, begun, received_ms, deadline_ms, reply_to, depth, request, answer_type, answer)
    VALUES ('RockBot', 'Weather', 'task-3', 'working', 'host-1', 1795800000000, 1, 1795800000000, 1795800600000, 'agent.response.Weather', 1, '{}', '', '');
INSERT INTO agent_sessions (owner, session, title, began_ms, changed_ms, events)
    VALUES ('RockBot
local:ann', 'cli', 'Hello', 1795800000000, 1795800000000, 1);
INSERT INTO agent_sessions (owner, session, title, began_ms, changed_ms, events)
    VALUES ('RockBot
token:http/ci', 'build', 'Build', 1795800000000, 1795800000000, 1);
INSERT INTO agent_events (owner, session, number, event, at_ms)
    VALUES ('RockBot
local:ann', 'cli', 0, '{"event":"said","text":"Hello"}', 1795800000000);
INSERT INTO agent_events (owner, session, number, event, at_ms)
    VALUES ('RockBot
token:http/ci', 'build', 0, '{"event":"said","text":"Build","id":"b1"}', 1795800000000);
INSERT INTO approvals (id, state, call_key, asked_digest, digest, binding, call_id, tool, subject, risk, door, agent, reason, asked_ms, expires_ms, held_by)
    VALUES ('appr-1', 'pending', 'call-1', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', '{"version":1,"subject":"mcp:files/delete","definition":null,"arguments":{"path":"/a"},"artifacts":[],"principal":{"name":"ann","proof":"local"},"session":"cli","rule":"deletions"}', 'call-1', 'mcp_invoke_tool', 'mcp:files/delete', 'high', 'cli', 'RockBot', 'deletes', 1795800000000, 1795886400000, 'host-1');
INSERT INTO approvals_remembered (id, digest, remember, approval, subject, binding, made_by, made_ms, expires_ms)
    VALUES ('rem-1', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', 'tool', 'appr-0', 'mcp:files/write', '{"version":1}', 'local:ann', 1795800000000, 1795886400000);
INSERT INTO approvals_chains (id, digest, arguments, calls_left, approval, made_by, made_ms, expires_ms)
    VALUES ('chain-1', 'cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc', '{}', 3, 'appr-0', 'local:ann', 1795800000000, 1795886400000);
INSERT INTO approvals_hosts (id, until_ms)
    VALUES ('host-1', 1795800000000);
INSERT INTO artifacts (id, owner, digest, media_type, bytes, tool, call_id, stored_ms, expires_ms)
    VALUES ('art-1', 'RockBot
local:ann
cli', 'dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd', 'text/plain', 5, 'mcp:files/read', 'call-0', 1795800000000, 1795886400000);
INSERT INTO artifacts_objects (digest, object, bytes)
    VALUES ('dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd', 'dd/dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd', 5);
INSERT INTO artifacts_pins (artifact, holder, until_ms)
    VALUES ('art-1', 'call-1', 1795800000000);
INSERT INTO artifacts_used (owner, artifacts, bytes)
    VALUES ('RockBot
local:ann', 1, 5);
INSERT INTO audit_calls (began_ms, took_us, call_id, run, session, agent, door, principal, tool, subject, arguments, status, execution)
    VALUES (1795800000000, 1200, 'call-0', 'run-1', 'cli', 'RockBot', 'cli', 'local:ann', 'mcp_invoke_tool', 'mcp:files/read', 'eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee', 'ok', 'executed');
INSERT INTO chains_journals (journal, digest, repetition, owner, began_ms, result)
    VALUES ('chain_1', 'ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff', 1, 'RockBot
local:ann
cli', 1795800000000, '{"status":"ok","text":"done"}');
INSERT INTO discovery_executions (at_ms, event)
    VALUES (1795800000000, '{}');
INSERT INTO discovery_queries (at_ms, event)
    VALUES (1795800000000, '{}');
INSERT INTO discovery_pairs (tool_before, tool_after, period, successes, failures, last_used_ms, updated_ms)
    VALUES ('files/read', 'files/write', 20700, 2, 0, 1795800000000, 1795800000000);
INSERT INTO discovery_uses (principal, tool, period, successes, failures, last_used_ms, updated_ms)
    VALUES ('local:ann', 'files/read', 20700, 2, 0, 1795800000000, 1795800000000);
INSERT INTO http_counts (counted, span, number, calls)
    VALUES ('token:toolbus-keys/ci', 'month', 24311, 12);
INSERT INTO http_keys (id, name, kind, shown, role, plan, lookup, digest, has_secret, created_ms)
    VALUES ('key-1', 'ci', 'live', 'acx_live', 'executor', 'standard', '0123456789abcdef', '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef', 0, 1795800000000);
INSERT INTO http_jobs (id, agent, owner, tool, arguments, timeout_ms, state, created_ms)
    VALUES ('job-1', 'RockBot', 'token:toolbus-keys/ci', 'mcp:files/read', '{"path":"/a"}', 30000, 'queued', 1795800000000);
INSERT INTO http_jobs (id, agent, owner, tool, arguments, timeout_ms, state, created_ms, started_ms, ended_ms, outcome)
    VALUES ('job-2', 'RockBot', 'token:http/ci', 'mcp:files/read', '{}', 30000, 'completed', 1795800000000, 1795800000000, 1795800000000, '{"data":{}}');
INSERT INTO memory_namespaces (owner, namespace, written_ms)
    VALUES ('RockBot
local:ann', 'cli', 1795800000000);
INSERT INTO memory_items (owner, kind, id, name, category, tags, summary, stored_ms, content)
    VALUES ('RockBot
local:ann', 'memory', 'mem-1', '', 'facts', '[]', '', 1795800000000, X'546865206B657920697320756E6465722074686520706F742E');
INSERT INTO memory_entries (owner, path, namespace, written_path, bytes, category, tags, is_result, stored_ms, expires_ms, value)
    VALUES ('RockBot
token:http/ci', 'build/log', 'build', 'build/log', 2, '', '[]', 0, 1795800000000, 1795886400000, X'6F6B');
INSERT INTO policy_months (limit_name, counted, month, calls)
    VALUES ('calls', 'local:ann', 24311, 40);
INSERT INTO schedule_tasks (agent, owner, id, generation, name, principal, cron, zone, run_once, missed, missed_max, created_ms, next_ms, description)
    VALUES ('RockBot', 'local:ann', 'report', 'gen-1', 'report', '{"name":"ann","proof":"local"}', '0 7 * * *', 'Europe/Berlin', 0, 'skip', 1, 1795800000000, 1795803600000, 'Write the report');
INSERT INTO schedule_tasks (agent, owner, id, generation, name, principal, cron, zone, run_once, missed, missed_max, created_ms, next_ms, description)
    VALUES ('RockBot', 'token:http/ci', 'nightly', 'gen-2', 'nightly', '{"name":"ci","proof":{"token":"http"}}', '0 3 * * *', 'UTC', 0, 'skip', 1, 1795800000000, 1795803600000, 'Build at night');
INSERT INTO schedule_occurrences (id, agent, owner, task, generation, name, principal, cause, state, reason, due_ms, until_ms, fires, missed_before, attempts, retry_ms, fired_ms, description)
    VALUES ('occ-1', 'RockBot', 'local:ann', 'report', 'gen-1', 'report', '{"name":"ann","proof":"local"}', 'due', 'fired', '', 1795800000000, 1795800000000, 1, 0, 0, 0, 1795800000000, 'Write the report');
INSERT INTO subagents (id, agent, owner, session, call, description, context, priority, depth, state, is_paused, holder, lease_until_ms, begun, created_ms, deadline_ms, spent_calls, spent_turns, spent_tokens, spent_micro_usd, outcome, teller, telling_until_ms)
    VALUES ('0123456789ab', 'RockBot', 'local:ann', 'cli', 'call-2', 'Count files', '', 1, 1, 'running', 0, 'host-1', 1795800000000, 1, 1795800000000, 1795800600000, 0, 0, 0, 0, '', '', 0);
INSERT INTO subagent_sessions (agent, owner, session, used_ms)
    VALUES ('RockBot', 'local:ann', 'cli', 1795800000000);
INSERT INTO subagent_whiteboard (agent, owner, session, name, value, bytes, writer, written_ms)
    VALUES ('RockBot', 'local:ann', 'cli', 'plan', 'a b c', 5, '', 1795800000000);
INSERT INTO vault_key (id, name)
    VALUES (1, '0000000000000000');
INSERT INTO vault_credentials (provider, tool, caller, name, sealed, written_ms)
    VALUES ('mcp:files', '', '', 'token', X'000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F', 1795800000000);
INSERT INTO discovery_tools (tool, period, successes, failures, timeouts, unavailable, weight, last_used_ms, updated_ms, b00, b01, b02, b03, b04, b05, b06, b07, b08, b09, b10, b11, b12, b13, b14, b15, b16, b17, b18, b19, b20, b21, b22, b23)
    VALUES ('files/read', 20700, 2, 0, 0, 0, 2, 1795800000000, 1795800000000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
