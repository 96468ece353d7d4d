// Cases for the official Google client against generateContent and related methods. Settings:
// ../harness/harness.py.

import {
  BROKEN_STREAM,
  BROKE_KEY,
  KEY,
  LIMITED_KEY,
  MODEL,
  PNG,
  ROOT_URL,
  VECTORS,
  check,
  collect,
  equal,
  load,
  main,
  raises,
  test,
  versionOf,
} from '../harness/harness.mjs';

const { ApiError, FinishReason, GoogleGenAI } = load('@google/genai');

const PATH = '/v1/models/{}:generateContent';
const DECIDER = 'sim/decide';
const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const declaration = { name: 'weather', description: 'The weather of a city.', parametersJsonSchema: schema };
const TOOLS = [{ functionDeclarations: [declaration] }];
const TWO_CALLS = '[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]';
const THING = {
  type: 'object',
  properties: {
    title: { type: 'string' },
    count: { type: 'integer' },
    tags: { type: 'array', items: { type: 'string' } },
  },
  required: ['title', 'count', 'tags'],
};

const client = (apiKey = KEY, apiVersion = undefined) =>
  new GoogleGenAI({ apiKey, httpOptions: { baseUrl: ROOT_URL, timeout: 60_000, ...(apiVersion && { apiVersion }) } });

const ask = (contents, config = {}, { key = KEY, model = MODEL } = {}) =>
  client(key).models.generateContent({ model, contents, config });

const stream = async (contents, config = {}) =>
  collect(await client().models.generateContentStream({ model: MODEL, contents, config }));

test('content', [PATH, 'scripted'], async () => {
  for (const version of [undefined, 'v1', 'v1beta']) {
    const contents = 'Hello there, gateway';
    const answer = await client(KEY, version).models.generateContent({ model: MODEL, contents });
    equal(answer.text, 'Hello there, gateway', 'text');
    equal(answer.candidates[0].finishReason, FinishReason.STOP, 'finishReason');
    equal([answer.modelVersion, answer.candidates[0].content.role], [MODEL, 'model'], 'model and role');
    check(answer.responseId, 'there is no responseId');
  }
});

test('content usage and cost', [PATH, 'scripted', 'gateway', 'reasoning'], async () => {
  const answer = await ask('one [[sim tokens=20 reason=8]]', { thinkingConfig: { includeThoughts: true } });
  const used = answer.usageMetadata;
  equal([used.promptTokenCount > 0, used.candidatesTokenCount], [true, 20], 'tokens');
  equal(used.thoughtsTokenCount, 8, 'thoughts');
  equal(used.totalTokenCount, used.promptTokenCount + 28, 'total');
  check(answer.candidates[0].content.parts.some((part) => part.thought), 'there is no thought');
  check(Number(answer.sdkHttpResponse.headers['x-tollgate-cost']) > 0, 'x-tollgate-cost');
});

test('content settings', [PATH, 'simulator'], async () => {
  const contents = [
    { role: 'user', parts: [{ text: 'Hi.' }] },
    { role: 'model', parts: [{ text: 'Yes?' }] },
    { role: 'user', parts: [{ text: 'one STOP two' }] },
  ];
  const config = { systemInstruction: 'Be brief.', temperature: 0.5, topP: 0.9, stopSequences: ['STOP'] };
  equal((await ask(contents, config)).text, 'one ', 'text');
  const cut = await ask('[[sim tokens=50]]', { maxOutputTokens: 5 });
  equal(cut.candidates[0].finishReason, FinishReason.MAX_TOKENS, 'finishReason');
  equal((await ask('Hi.', { candidateCount: 2 })).candidates.length, 2, 'candidates');
});

test('content stream', [PATH, 'scripted'], async () => {
  let pieces = await stream('[[sim tokens=20]]');
  check(pieces.filter((piece) => piece.text).length >= 3, `only ${pieces.length} pieces`);
  const whole = await ask('[[sim tokens=20]]');
  equal(pieces.map((piece) => piece.text ?? '').join(''), whole.text, 'text');
  equal(pieces.at(-1).candidates[0].finishReason, FinishReason.STOP, 'finishReason');
  equal(pieces.at(-1).usageMetadata.candidatesTokenCount, 20, 'tokens');
  pieces = await stream(TWO_CALLS, { tools: TOOLS });
  const calls = pieces.flatMap((piece) => piece.functionCalls ?? []).map((call) => call.args);
  equal(calls, [{ city: 'Paris' }, { city: 'Oslo' }], 'calls');
});

test('content tools in parallel, the whole loop', [PATH, 'scripted'], async () => {
  const answer = await ask(TWO_CALLS, { tools: TOOLS });
  const calls = answer.functionCalls;
  equal(calls.map(({ name, args }) => [name, args.city]), [['weather', 'Paris'], ['weather', 'Oslo']], 'calls');
  const results = calls.map(({ id, name, args }) => ({
    functionResponse: { id, name, response: { output: `rain in ${args.city}` } },
  }));
  const contents = [
    { role: 'user', parts: [{ text: TWO_CALLS }] },
    answer.candidates[0].content,
    { role: 'user', parts: results },
  ];
  const last = await ask(contents, { tools: TOOLS });
  check(last.text.includes('rain in Oslo'), 'the answer does not have the result');
});

test('content forced call', [PATH, 'simulator'], async () => {
  const forced = await ask('Hi.', { tools: TOOLS, toolConfig: { functionCallingConfig: { mode: 'ANY' } } });
  equal(forced.functionCalls.length, 1, 'forced calls');
});

test('content chat with automatic calls', [PATH, 'scripted'], async () => {
  const asked = [];
  const weather = {
    tool: async () => ({ functionDeclarations: [declaration] }),
    callTool: async (calls) =>
      calls.map(({ id, name, args }) => {
        asked.push(args.city);
        return { functionResponse: { id, name, response: { output: `rain in ${args.city}` } } };
      }),
  };
  const chat = client().chats.create({ model: MODEL, config: { tools: [weather] } });
  const answer = await chat.sendMessage({ message: TWO_CALLS });
  equal(asked, ['Paris', 'Oslo'], 'calls');
  check(answer.text.includes('rain in Oslo'), `answer is ${answer.text}`);
  equal((await chat.sendMessage({ message: 'And now?' })).text, 'And now?', 'the next answer');
  equal(chat.getHistory().length, 6, 'contents of the history');
});

test('content structured', [PATH], async () => {
  for (const name of ['responseSchema', 'responseJsonSchema']) {
    const answer = await ask('A thing.', { responseMimeType: 'application/json', [name]: THING });
    equal(Object.keys(JSON.parse(answer.text)).sort(), ['count', 'tags', 'title'], `members by ${name}`);
  }
});

test('content image', [PATH, 'scripted'], async () => {
  const answer = await ask([{ inlineData: { mimeType: 'image/png', data: PNG } }, 'What is it?']);
  equal([answer.text, answer.usageMetadata.promptTokenCount > 0], ['What is it?', true], 'text and tokens');
});

test('content count tokens', [PATH, 'scripted'], async () => {
  const count = async (words) =>
    (await client().models.countTokens({ model: MODEL, contents: 'one '.repeat(words) })).totalTokens;
  const [short, long] = [await count(3), await count(300)];
  check(short >= 3 && long > short, `${short} and ${long} tokens`);
});

test('content embeddings', [PATH, 'simulator'], async () => {
  const config = { outputDimensionality: 16 };
  const { embeddings } = await client().models.embedContent({ model: VECTORS, contents: ['a', 'b'], config });
  equal(embeddings.map(({ values }) => values.length), [16, 16], 'dimensions');
  for (const { values } of embeddings) {
    check(Math.abs(Math.hypot(...values) - 1) < 1e-4, `a vector of length ${Math.hypot(...values)}`);
  }
});

// This version of the client has no decisions, so `fetch` sends the body of the Python client.
const decide = async (request, path = '/v1beta/decisions') => {
  const body = { model: DECIDER, input: 'x', questions: { a: { type: 'noul', instructions: 'Is it?' } }, ...request };
  const headers = { 'x-goog-api-key': KEY, 'content-type': 'application/json' };
  const answer = await fetch(ROOT_URL + path, { method: 'POST', headers, body: JSON.stringify(body) });
  return [answer.status, await answer.json()];
};

test('content decisions', [PATH, 'simulator', '/v1/decisions'], async () => {
  const truth = '[[decide refund yes=0.9 no=0.1]] [[decide team a=0.7 b=0.3]] [[decide level low=0.1 high=0.9]]';
  const questions = {
    refund: { type: 'noul', instructions: 'Is money asked for?', criteria: { true_description: 'It is.' } },
    team: { type: 'choice', instructions: 'Who answers?', criteria: { a: 'One', b: 'Another' } },
    level: { type: 'score', instructions: 'How bad is it?', criteria: ['low', 'high'] },
  };
  for (const model of [DECIDER, `models/${DECIDER}`]) {
    for (const path of ['/v1/decisions', '/v1beta/decisions']) {
      const [status, answer] = await decide({ model, input: `Twice! ${truth}`, questions }, path);
      equal(status, 200, JSON.stringify(answer));
      const { refund, team, level } = answer.answers;
      check(Math.abs(refund.noul - 0.9) < 1e-6, `noul is ${refund.noul}`);
      equal([team.choice, Object.keys(team.probabilities)], ['a', ['a', 'b']], 'choice');
      check(Math.abs(level.score - 0.9) < 1e-6, `score is ${level.score}`);
      equal(level.legend, { 0: 'low', 1: 'high' }, 'legend');
      check(answer.usage.total_input_tokens > 0, 'usage');
    }
  }
});

test('content decisions errors', [PATH, 'simulator', '/v1/decisions'], async () => {
  const failing = async (expected, code, request) => {
    const [status, answer] = await decide(request);
    equal(status, expected, code);
    check(typeof answer.error.status === 'string', 'the failure has not the shape of the family');
    check(JSON.stringify(answer).includes(code), `${code}: ${JSON.stringify(answer)}`);
  };
  const one = { type: 'choice', instructions: 'Which?', criteria: { only: 'One' } };
  await failing(400, 'questions.a.criteria', { questions: { a: one } });
  await failing(404, 'model_not_found', { model: 'models/sim/none' });
});

test('content models', [PATH, 'gateway'], async () => {
  const names = (await collect(await client().models.list())).map((model) => model.name);
  check(names.includes(`models/${MODEL}`), `models are ${names.slice(0, 3)}…`);
  const found = await client().models.get({ model: MODEL });
  equal(found.name, `models/${MODEL}`, 'name');
  check(found.displayName && found.inputTokenLimit > 0, 'displayName and inputTokenLimit');
});

test('content errors', [PATH, 'simulator', 'gateway', 'BROKE_KEY', 'LIMITED_KEY'], async () => {
  await raised(401, 'invalid_api_key', () => ask('x', {}, { key: 'sk-service-nobody' }));
  await raised(404, 'model_not_found', () => ask('x', {}, { model: 'none' }));
  await raised(400, 'invalid_parameter', () => ask('x', { temperature: 9 }));
  await raised(402, 'insufficient_credits', () => ask('x', {}, { key: BROKE_KEY }));
  for (const [code, status] of [
    ['rate_limit_exceeded', 429],
    ['content_policy_violation', 400],
    ['overloaded', 503],
    ['upstream_timeout', 504],
  ]) {
    await raised(status, code, () => ask(`[[sim error=${code}]]`));
    await raised(status, code, () => stream(`[[sim error=${code}]]`));
  }
  await raised(429, 'rate_limit_exceeded', async () => {
    for (let count = 0; count < 3; count += 1) await ask('x', {}, { key: LIMITED_KEY });
  });
});

test('content error of the provider', [PATH, 'scripted', 'gateway'], async () => {
  await raised(502, 'upstream_error', () => ask('[[sim error=upstream_error]]'));
  await raised(502, 'upstream_error', () => stream('[[sim error=upstream_error]]'));
});

test('content error in a stream', [PATH, 'scripted'], async () => {
  let seen = '';
  const error = await raises(ApiError, async () => {
    const pieces = await client().models.generateContentStream({ model: MODEL, contents: BROKEN_STREAM });
    for await (const piece of pieces) seen += piece.text ?? '';
  });
  check(seen, 'no content came before the error');
  equal(error.status, 502, 'status');
});

async function raised(status, code, call) {
  const error = await raises(ApiError, call);
  equal(error.status, status, `status of ${code}`);
  check(error.message.includes(`"${code}"`), `${code} is not in ${error.message}`);
}

await main('google-genai-node', versionOf('@google/genai'));
