// Invokes endpoints with AWS's client for JavaScript and OpenAI's, and prints what came of it
// as JSON: node client.mjs '{"endpoint": NAME, "works": URL, "refuses": URL, "dies": URL, "keyed": URL}'
import { InvokeEndpointCommand, InvokeEndpointWithResponseStreamCommand, SageMakerRuntimeClient } from "@aws-sdk/client-sagemaker-runtime";
import OpenAI from "openai";

const { endpoint, works, refuses, dies, keyed } = JSON.parse(process.argv[2]);
const credentials = { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" };
const client = (url) => new SageMakerRuntimeClient({ region: "us-east-1", endpoint: url, credentials, maxAttempts: 1 });
const messages = [{ role: "user", content: "Say hello to the people in hall three." }];
const input = (more = {}) => ({
  EndpointName: endpoint,
  ContentType: "application/json",
  Body: JSON.stringify({ messages, max_tokens: 6 }),
  ...more,
});
const text = (bytes) => new TextDecoder().decode(bytes);

async function read(url) {
  const out = await client(url).send(new InvokeEndpointWithResponseStreamCommand(input()));
  const got = { type: out.ContentType, variant: out.InvokedProductionVariant, text: "", error: "", code: "" };
  try {
    for await (const event of out.Body) got.text += text(event.PayloadPart.Bytes);
  } catch (err) {
    got.error = err.name;
    got.code = err.ErrorCode ?? "";
  }
  return got;
}

async function failure(promise) {
  try {
    await promise;
    return {};
  } catch (err) {
    return { name: err.name, status: err.$metadata?.httpStatusCode ?? err.status, original: err.OriginalStatusCode ?? 0, said: err.OriginalMessage ?? err.error?.message ?? "" };
  }
}

const result = {};
async function invoke(url) {
  const out = await client(url).send(new InvokeEndpointCommand(input({ PrefixAwareId: "tenant", CustomAttributes: "trace = 1" })));
  return { variant: out.InvokedProductionVariant, choices: JSON.parse(text(out.Body)).choices.length };
}
result.invoked = await invoke(works);
result.keyed = await invoke(keyed);
result.streamed = await read(works);
result.broken = await read(dies);
result.refused = await failure(client(refuses).send(new InvokeEndpointCommand(input())));
result.tenant = await failure(client(works).send(new InvokeEndpointCommand(input({ PrefixAwareId: "x".repeat(65) }))));
result.unknown = await failure(client(works).send(new InvokeEndpointCommand(input({ EndpointName: "other" }))));

const openai = (url) => new OpenAI({ baseURL: `${url}/endpoints/${endpoint}/openai/v1`, apiKey: "any", maxRetries: 0 });
const chat = await openai(works).chat.completions.create({ model: "", messages, max_tokens: 6 });
result.chat = chat.choices.length;
result.chunks = 0;
for await (const chunk of await openai(works).chat.completions.create({ model: "m", messages, max_tokens: 6, stream: true })) {
  if (chunk.choices[0]?.finish_reason) result.chunks++;
}
result.openai = await failure(openai(works).chat.completions.create({ model: "other", messages }));
console.log(JSON.stringify(result));
process.exit(0); // kept connections would hold the process
