// Cases for the Vercel AI SDK on the text formats, the same for each of its providers. Settings:
// see ../harness/harness.py.

import {
  BASE_URL,
  KEY,
  MODEL,
  ROOT_URL,
  VECTORS,
  check,
  equal,
  load,
  main,
  test,
  versionOf,
} from '../harness/harness.mjs';

const { createAnthropic } = load('@ai-sdk/anthropic');
const { createGoogleGenerativeAI } = load('@ai-sdk/google');
const { createOpenAI } = load('@ai-sdk/openai');
const { createOpenAICompatible } = load('@ai-sdk/openai-compatible');
const { Output, embedMany, generateText, stepCountIs, streamText, tool } = load('ai');
const { z } = load('zod');

// The SDK would warn at each call that it does not know the model.
globalThis.AI_SDK_LOG_WARNINGS = false;

const openai = createOpenAI({ baseURL: BASE_URL, apiKey: KEY });
const compatible = createOpenAICompatible({
  name: 'tollgate',
  baseURL: BASE_URL,
  apiKey: KEY,
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const anthropic = createAnthropic({ baseURL: BASE_URL, apiKey: KEY });
// The SDK uses an id with a slash as the whole path, so the id includes `models/`.
const google = createGoogleGenerativeAI({ baseURL: `${ROOT_URL}/v1beta`, apiKey: KEY });

/** Format, its path, and the models that use it. */
const FORMATS = [
  ['chat', '/v1/chat/completions', [openai.chat(MODEL), compatible(MODEL)]],
  ['responses', '/v1/responses', [openai.responses(MODEL)]],
  ['messages', '/v1/messages', [anthropic(MODEL)]],
  ['content', '/v1/models/{}:generateContent', [google(`models/${MODEL}`)]],
];

const PROMPT = '[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]';
const Thing = z.object({ title: z.string(), count: z.int() });

function checkUsage({ inputTokens, outputTokens, totalTokens }) {
  check(inputTokens > 0 && outputTokens > 0, `usage is ${inputTokens} and ${outputTokens}`);
  equal(totalTokens, inputTokens + outputTokens, 'totalTokens');
}

async function text(model) {
  const answer = await generateText({ model, prompt: 'Hello there, gateway', maxRetries: 0 });
  equal([answer.text, answer.finishReason], ['Hello there, gateway', 'stop'], 'text and finishReason');
  checkUsage(answer.usage);
}

async function stream(model) {
  const failed = [];
  const answer = streamText({
    model,
    prompt: '[[sim tokens=20]]',
    maxRetries: 0,
    onError: ({ error }) => failed.push(error),
  });
  let pieces = 0;
  for await (const piece of answer.textStream) pieces += piece ? 1 : 0;
  if (failed.length > 0) throw failed[0];
  check(pieces >= 3, `only ${pieces} pieces`);
  checkUsage(await answer.usage);
  equal((await answer.usage).outputTokens, 20, 'outputTokens');
}

async function tools(model) {
  const asked = [];
  const weather = tool({
    description: 'The weather of a city.',
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => {
      asked.push(city);
      return `rain in ${city}`;
    },
  });
  const answer = await generateText({
    model,
    prompt: PROMPT,
    tools: { weather },
    stopWhen: stepCountIs(3),
    maxRetries: 0,
  });
  equal(asked.toSorted(), ['Oslo', 'Paris'], 'calls');
  check(answer.text.includes('rain in Oslo'), `answer is ${answer.text}`);
  equal(answer.steps.length, 2, 'steps');
}

async function structured(model) {
  const output = Output.object({ schema: Thing });
  const answer = await generateText({ model, prompt: 'A thing.', output, maxRetries: 0 });
  equal(Object.keys(answer.output).sort(), ['count', 'title'], 'members');
}

for (const [name, path, models] of FORMATS) {
  const each = (run) => async () => {
    for (const model of models) await run(model);
  };
  test(`${name} text`, [path, 'simulator'], each(text));
  test(`${name} stream`, [path, 'simulator'], each(stream));
  test(`${name} tools`, [path, 'simulator'], each(tools));
  test(`${name} structured`, [path], each(structured));
}

test('embeddings', ['simulator'], async () => {
  for (const model of [openai.embedding(VECTORS), compatible.embeddingModel(VECTORS)]) {
    const { embeddings } = await embedMany({ model, values: ['a', 'b'], maxRetries: 0 });
    equal(embeddings.map((vector) => vector.length), [1536, 1536], 'dimensions');
  }
});

await main('ai-sdk', versionOf('ai'));
