// The official TypeScript SDKs as clients of the built server: version 1, and version 2 in both eras of the protocol.
//
//   node typescript.mjs stdio PROGRAM | http URL | hosted URL
//
// Run by .ci/clients, from the folder where the packages are installed.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const installed = createRequire(`${process.cwd()}/`);
const load = (name) => import(pathToFileURL(installed.resolve(name)).href);
const first = {
  ...(await load("@modelcontextprotocol/sdk/client/index.js")),
  ...(await load("@modelcontextprotocol/sdk/client/stdio.js")),
  ...(await load("@modelcontextprotocol/sdk/client/streamableHttp.js")),
};
const second = { ...(await load("@modelcontextprotocol/client")), ...(await load("@modelcontextprotocol/client/stdio")) };
const kinds = [
  { name: "sdk 1", sdk: first, options: {}, version: undefined },
  { name: "client 2, with handshake", sdk: second, options: { versionNegotiation: { mode: "legacy" } }, version: "2025-11-25" },
  { name: "client 2, without handshake", sdk: second, options: { versionNegotiation: { mode: "auto" } }, version: "2026-07-28" },
];

const [mode, target] = process.argv.slice(2);

async function connect({ sdk, options, version }, bearer) {
  const client = new sdk.Client({ name: "proof", version: "1" }, options);
  const headers = bearer ? { Authorization: `Bearer ${bearer}` } : {};
  const transport =
    mode === "stdio"
      ? new sdk.StdioClientTransport({ command: target, args: ["--sandbox", "--sandbox-data", ":memory:"], stderr: "ignore" })
      : new sdk.StreamableHTTPClientTransport(new URL(target), { requestInit: { headers } });
  await client.connect(transport);
  assert.equal(client.getServerVersion().name, "pipefy");
  if (version) assert.equal(client.getNegotiatedProtocolVersion(), version);
  return {
    client,
    // What the tool answered, which comes as text and as structured content.
    call: async (name, args) => {
      const answer = await client.callTool({ name, arguments: args });
      assert.deepEqual(JSON.parse(answer.content[0].text), answer.structuredContent);
      return answer.structuredContent;
    },
    close: async () => {
      if (transport.sessionId) await transport.terminateSession();
      await client.close();
    },
  };
}

const pipes = (found) => found.organizations.flatMap((organization) => organization.pipes.map((pipe) => pipe.id));

// Lists, reads, previews, confirms, fails.
async function story({ client, call }) {
  const { tools } = await client.listTools();
  // A hosted server leaves out the few that need the caller's own machine.
  assert.ok(tools.length >= (mode === "hosted" ? 190 : 196), `${tools.length} tools`);
  const [pipe] = pipes(await call("search_pipes", {}));
  const cards = await call("get_cards", { pipe_id: pipe });
  const card_id = cards.data.cards.edges[0].node.id;
  const preview = await call("delete_card", { card_id });
  assert.equal(preview.requires_confirmation, true);
  const { confirmation_token } = preview;
  const done = await call("delete_card", { card_id, confirm: true, confirmation_token });
  assert.equal(done.success, true);
  const gone = await call("get_card", { card_id });
  assert.equal(gone.success, false);
  assert.ok(gone.error.code, JSON.stringify(gone));
  const unknown = await client.callTool({ name: "no_such_tool", arguments: {} });
  assert.equal(unknown.isError, true);
}

async function bearerOf(person) {
  const metadata = await (await fetch(new URL("/.well-known/oauth-protected-resource/mcp", target))).json();
  const sandbox = new URL(metadata.authorization_servers[0]).origin;
  const answer = await fetch(`${sandbox}/_sandbox/oidc/tokens`, { method: "POST", body: JSON.stringify({ person }) });
  assert.equal(answer.status, 200);
  return (await answer.json()).access_token;
}

// Two people at once: each sees what they may, and the same person after the other has asked.
async function people(kind) {
  await assert.rejects(connect(kind, "none"), /401|nauthorized|invalid_token/);
  const ana = await connect(kind, await bearerOf("ana.souza@aurora.example"));
  const bruno = await connect(kind, await bearerOf("bruno.lima@aurora.example"));
  for (let round = 0; round < 3; round += 1) {
    const [one, two] = (await Promise.all([ana.call("search_pipes", {}), bruno.call("search_pipes", {})])).map(pipes);
    const hidden = one.filter((pipe) => !two.includes(pipe));
    assert.ok(two.length > 0 && two.every((pipe) => one.includes(pipe)) && hidden.length > 0, `${one} and ${two}`);
    const [shown, refused] = await Promise.all([ana, bruno].map(({ call }) => call("get_pipe", { pipe_id: hidden[0] })));
    assert.ok(!shown.error, JSON.stringify(shown));
    assert.equal(refused.success, false);
  }
  await story(ana);
  await Promise.all([ana.close(), bruno.close()]);
}

for (const kind of kinds) {
  if (mode === "hosted") {
    await people(kind);
  } else {
    const connected = await connect(kind);
    await story(connected);
    await connected.close();
  }
  console.log(`TypeScript, ${kind.name}: ok`);
}
