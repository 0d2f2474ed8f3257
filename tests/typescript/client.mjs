// Routes a request and reports it with the public TypeScript client, over one protocol, and
// prints what came of it as JSON: node client.mjs PROTOCOL URL DESCRIPTORS
import { readFileSync } from "node:fs";
import { createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { createClient, ConnectError, Code } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";

const [protocol, baseUrl, descriptors] = process.argv.slice(2);
const transports = {
  connect: () => createConnectTransport({ baseUrl, httpVersion: "1.1" }),
  json: () => createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: false }),
  grpc: () => createGrpcTransport({ baseUrl }),
  "grpc-web": () => createGrpcWebTransport({ baseUrl, httpVersion: "1.1" }),
};
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(descriptors)));
const client = createClient(registry.getService("warmroute.v1.RoutingService"), transports[protocol]());

const body = new TextEncoder().encode(JSON.stringify({ model: "m", messages: [{ role: "user", content: "Say hello." }] }));
const decision = await client.route({
  prompt: { content: { case: "original", value: { path: "/v1/chat/completions", body } } },
});
const report = await client.report({
  decisionId: decision.decisionId,
  outcome: 2,
  status: 200,
  usage: { promptTokens: 14, cachedTokens: 0, outputTokens: 9 },
});
let code = "";
try {
  await client.route({ prompt: { model: "unknown", content: { case: "text", value: "x" } } });
} catch (err) {
  code = Code[ConnectError.from(err).code];
}
console.log(JSON.stringify({ backend: decision.target.backend, reason: decision.reason, accepted: report.accepted, code }));
process.exit(0); // a kept HTTP/2 connection would hold the process
