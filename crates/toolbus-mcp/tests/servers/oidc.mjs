// An MCP server that asks for OAuth, beside an authorization server that others wrote, in one:
//
//   node oidc.mjs LIBRARY
//
// It prints its port. The authorization server is `oidc-provider` with its own rules: PKCE, resource
// indicators, clients that register themselves, refresh tokens for one use. The one person there is
// logs in by opening the page. The MCP server takes a token that is for it, and for its tool `admin`
// one of that scope. GET /log tells what was asked of it and of the token endpoint.

import http from "node:http";
import { pathToFileURL } from "node:url";

const { default: Provider } = await import(pathToFileURL(process.argv[2]).href);
const log = [];
let provider;
const server = http.createServer((request, response) => answer(request, response).catch((error) => {
  response.writeHead(500).end(String(error));
}));
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const base = `http://127.0.0.1:${server.address().port}`;
const resource = `${base}/mcp`;

provider = new Provider(`${base}/login`, {
  clients: [{
    client_id: "service", client_secret: "s3cret-of-the-service-77", redirect_uris: [],
    response_types: [], grant_types: ["client_credentials"],
    token_endpoint_auth_method: "client_secret_basic", scope: "tools admin",
  }],
  cookies: { keys: ["of-a-test"] },
  scopes: ["tools", "admin"],
  pkce: { required: () => true },
  issueRefreshToken: async () => true,
  rotateRefreshToken: true,
  findAccount: async (_, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  // Whoever has logged in grants what is asked for.
  loadExistingGrant: async (context) => {
    const { client, session, params } = context.oidc;
    const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
    grant.addOIDCScope(params.scope);
    grant.addResourceScope(resource, params.scope);
    await grant.save();
    return grant;
  },
  ttl: { AccessToken: 3600, ClientCredentials: 3600, Grant: 3600, Interaction: 600, Session: 3600,
    RefreshToken: 3600, AuthorizationCode: 60 },
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: async (_, indicator) => {
        if (indicator !== resource) throw new Error("invalid_target");
        return { scope: "tools admin", audience: resource, accessTokenFormat: "opaque" };
      },
    },
  },
});
const login = provider.callback();

async function answer(request, response) {
  const url = new URL(request.url, base);
  if (url.pathname === "/log") return send(response, 200, log);
  if (url.pathname === "/expire") {
    // As if the tokens that were given were at their end.
    expired = Date.now();
    return send(response, 200, {});
  }
  if (url.pathname === "/.well-known/oauth-protected-resource/mcp") {
    return send(response, 200, { resource, authorization_servers: [`${base}/login`] });
  }
  // Where the issuer's metadata are by RFC 8414, which the library leaves to whoever mounts it.
  if (url.pathname === "/.well-known/openid-configuration/login") {
    request.url = "/.well-known/openid-configuration";
  } else if (url.pathname.startsWith("/login/")) {
    request.url = request.url.slice("/login".length);
  }
  if (url.pathname.startsWith("/interaction/")) {
    const result = { login: { accountId: "somebody" }, consent: {} };
    return provider.interactionFinished(request, response, result);
  }
  if (url.pathname === "/mcp") return speak(request, response);
  if (url.pathname.endsWith("/token")) log.push({ path: "/token" });
  request.originalUrl = url.pathname + url.search;
  return login(request, response);
}

let expired = 0;

async function known(request) {
  const token = (request.headers.authorization ?? "").replace(/^Bearer /, "");
  const kinds = [provider.AccessToken, provider.ClientCredentials];
  for (const kind of kinds) {
    const found = token && await kind.find(token);
    const audiences = found && [found.aud].flat();
    if (found && audiences.includes(resource) && found.iat * 1000 + 999 > expired) return found;
  }
}

async function speak(request, response) {
  if (request.method !== "POST") return send(response, 405, {});
  let body = "";
  for await (const part of request) body += part;
  const { id, method, params } = JSON.parse(body);
  const token = await known(request);
  log.push({ path: "/mcp", method, token: Boolean(token) });
  const metadata = `resource_metadata="${base}/.well-known/oauth-protected-resource/mcp"`;
  if (!token) {
    const challenge = `Bearer ${metadata}, scope="tools"`;
    return send(response, 401, {}, { "WWW-Authenticate": challenge });
  }
  const scopes = (token.scope ?? "").split(" ");
  if (params?.name === "admin" && !scopes.includes("admin")) {
    const challenge = `Bearer error="insufficient_scope", scope="admin", ${metadata}`;
    return send(response, 403, {}, { "WWW-Authenticate": challenge });
  }
  if (id === undefined) return send(response, 202, "");
  const tools = ["echo", "admin"].map((name) => ({ name, inputSchema: { type: "object" } }));
  const results = {
    "initialize": { protocolVersion: "2025-11-25", capabilities: { tools: {} },
      serverInfo: { name: "guarded", version: "1" } },
    "tools/list": { tools },
    "tools/call": { content: [{ type: "text", text: "here" }] },
  };
  const result = results[method];
  const error = { code: -32601, message: "Method not found" };
  return send(response, 200, { jsonrpc: "2.0", id, ...(result ? { result } : { error }) });
}

function send(response, status, body, headers = {}) {
  const text = body === "" ? "" : JSON.stringify(body);
  response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(text);
}

console.log(server.address().port);
