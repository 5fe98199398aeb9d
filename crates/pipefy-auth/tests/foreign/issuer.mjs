// An OpenID provider on loopback whose users agree at once (or deny, when told to). Prints its URL, ends with stdin.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.argv[2] + "/");
const { default: Provider } = await import(pathToFileURL(require.resolve("oidc-provider")).href);

const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "pipefy-cli",
        application_type: "native",
        token_endpoint_auth_method: "none",
        redirect_uris: ["http://127.0.0.1/callback"],
        response_types: ["code"],
        grant_types: ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
      },
    ],
    pkce: { required: () => true },
    features: {
      devInteractions: { enabled: false },
      deviceFlow: { enabled: true },
      revocation: { enabled: true },
    },
    issueRefreshToken: async (ctx, client) => client.grantTypeAllowed("refresh_token"),
    rotateRefreshToken: true,
    findAccount: async (ctx, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
    interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
    cookies: { keys: ["loopback only"] },
    ttl: { AccessToken: 3600, DeviceCode: 60, Interaction: 60, Grant: 3600, Session: 3600, IdToken: 300, RefreshToken: 3600 },
  });

  let deny = false;
  const interact = async (request, response) => {
    if (deny) {
      deny = false;
      const refusal = { error: "access_denied", error_description: "the user said no" };
      return provider.interactionFinished(request, response, refusal);
    }
    const { prompt, params, session } = await provider.interactionDetails(request, response);
    if (prompt.name === "login") {
      return provider.interactionFinished(request, response, { login: { accountId: "u1" } });
    }
    const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    grant.addOIDCScope("openid profile email offline_access");
    const consent = { grantId: await grant.save() };
    return provider.interactionFinished(request, response, { consent }, { mergeWithLastSubmission: true });
  };

  const callback = provider.callback();
  server.on("request", (request, response) => {
    if (request.url === "/deny-next") {
      deny = true;
      response.end();
    } else if (request.url.startsWith("/interaction/")) {
      interact(request, response).catch((error) => {
        response.statusCode = 500;
        response.end(String(error));
      });
    } else {
      callback(request, response);
    }
  });
  console.log(issuer);
});

process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
setTimeout(() => process.exit(1), 120_000).unref();
