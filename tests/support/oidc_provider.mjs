// An OpenID provider for tests: oidc-provider on a port of this machine, which it prints. The argument is JSON:
// { port, keys, clients, people }. `people` maps an account to its claims. Its own pages ask for the name of the
// account and take any password.

import http from "node:http";
import { Provider } from "oidc-provider";

const { port, keys, clients, people } = JSON.parse(process.argv[2]);
const server = http.createServer();
await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(url, {
  clients,
  jwks: { keys },
  cookies: { keys: ["tests"] },
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name", "groups"] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...people[id] }) }),
});
server.on("request", provider.callback());
console.log(url);
