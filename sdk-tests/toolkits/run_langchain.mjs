// Cases for the Google classes of LangChain for JavaScript and of the Vercel AI SDK, with bare ids.
// LangChain writes an id with a slash into the path without `models/`. Settings: see
// ../harness/harness.py.

import { KEY, MODEL, ROOT_URL, check, equal, load, main, test, versionOf } from '../harness/harness.mjs';

const { createGoogleGenerativeAI } = load('@ai-sdk/google');
const { generateText, streamText } = load('ai');
const { ChatGoogleGenerativeAI } = load('@langchain/google-genai');
const { HumanMessage, ToolMessage } = load('@langchain/core/messages');
const { tool } = load('@langchain/core/tools');
const { z } = load('zod');

globalThis.AI_SDK_LOG_WARNINGS = false;

const PATH = '/v1/models/{}:generateContent';
const PROMPT = '[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]';

const langchain = () => new ChatGoogleGenerativeAI({ model: MODEL, apiKey: KEY, baseUrl: ROOT_URL, maxRetries: 0 });
const bare = (version) => createGoogleGenerativeAI({ baseURL: `${ROOT_URL}/${version}`, apiKey: KEY })(MODEL);

test('langchain text', [PATH, 'scripted'], async () => {
  const answer = await langchain().invoke('Hello there, gateway');
  check(answer.text.includes('Hello there, gateway'), `answer is ${answer.text}`);
  check(answer.usage_metadata.output_tokens > 0, 'no usage');
});

test('langchain stream', [PATH, 'scripted'], async () => {
  let pieces = 0;
  for await (const piece of await langchain().stream('[[sim tokens=20]]')) pieces += piece.text ? 1 : 0;
  check(pieces >= 1, 'no pieces');
});

test('langchain tools', [PATH, 'scripted'], async () => {
  const weather = tool(async ({ city }) => `rain in ${city}`, {
    name: 'weather',
    description: 'The weather of a city.',
    schema: z.object({ city: z.string() }),
  });
  const able = langchain().bindTools([weather]);
  const asked = new HumanMessage(PROMPT);
  const answer = await able.invoke([asked]);
  equal(answer.tool_calls.map(({ args }) => args.city), ['Paris', 'Oslo'], 'calls');
  const results = answer.tool_calls.map(
    (call) => new ToolMessage({ content: `rain in ${call.args.city}`, tool_call_id: call.id, name: call.name }),
  );
  const last = await able.invoke([asked, answer, ...results]);
  check(last.text, 'no answer');
});

for (const version of ['v1beta', 'v1']) {
  test(`ai-sdk bare id ${version}`, [PATH, 'scripted'], async () => {
    const model = bare(version);
    const { text } = await generateText({ model, prompt: 'Hello there, gateway', maxRetries: 0 });
    check(text.includes('Hello there, gateway'), `answer is ${text}`);
    const streamed = await streamText({ model, prompt: '[[sim tokens=20]]', maxRetries: 0 }).text;
    check(streamed, 'no stream');
  });
}

await main('langchain-node', versionOf('@langchain/google-genai'));
