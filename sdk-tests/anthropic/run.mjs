// Cases for the official Anthropic client against POST /v1/messages. Settings: see
// ../harness/harness.py.

import {
  BROKEN_STREAM,
  BROKE_KEY,
  KEY,
  LIMITED_KEY,
  MODEL,
  PNG,
  ROOT_URL,
  check,
  collect,
  equal,
  load,
  main,
  raises,
  test,
  versionOf,
} from '../harness/harness.mjs';

const anthropic = load('@anthropic-ai/sdk');
const { betaZodTool } = load('@anthropic-ai/sdk/helpers/beta/zod');
const { zodOutputFormat } = load('@anthropic-ai/sdk/helpers/zod');
const { z } = load('zod');

const PATH = '/v1/messages';
const TOOLS = [
  {
    name: 'weather',
    description: 'The weather of a city.',
    input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
];
const Thing = z.object({ n: z.int() });

const client = (apiKey = KEY) => new anthropic.Anthropic({ baseURL: ROOT_URL, apiKey, maxRetries: 0, timeout: 60_000 });

const request = (text, members = {}) => ({
  model: MODEL,
  max_tokens: 200,
  messages: [{ role: 'user', content: text }],
  ...members,
});

const ask = (text, members, key) => client(key).messages.create(request(text, members));

const wholeStream = (text, members) => client().messages.stream(request(text, members)).finalMessage();

test('messages', [PATH, 'scripted'], async () => {
  const message = await ask('Hello there, gateway');
  equal(message.content.map((block) => block.type), ['text'], 'blocks');
  equal(message.content[0].text, 'Hello there, gateway', 'text');
  equal([message.stop_reason, message.usage.input_tokens > 0], ['end_turn', true], 'end');
  equal([message.type, message.role, message.model], ['message', 'assistant', MODEL], 'message');
});

test('messages usage and cost', [PATH, 'scripted', 'gateway', 'reasoning'], async () => {
  const prompt = 'one [[sim tokens=20 reason=8]]';
  const { data, response } = await client().messages.create(request(prompt)).withResponse();
  equal([data.usage.output_tokens, data.usage.output_tokens_details.thinking_tokens], [28, 8], 'output tokens');
  equal(data.usage.cost, response.headers.get('x-tollgate-cost'), 'usage.cost');
  check(Number(response.headers.get('anthropic-ratelimit-requests-remaining')) > 0, 'requests-remaining');
  const { usage } = await wholeStream(prompt);
  equal([usage.input_tokens, usage.output_tokens], [data.usage.input_tokens, 28], 'usage of the stream');
});

test('messages roles and settings', [PATH, 'simulator'], async () => {
  const last = [{ type: 'text', text: 'one STOP two', cache_control: { type: 'ephemeral' } }];
  const message = await ask('', {
    messages: [
      { role: 'user', content: 'Hi.' },
      { role: 'assistant', content: 'Yes?' },
      { role: 'user', content: last },
    ],
    system: [{ type: 'text', text: 'Be brief.' }],
    stop_sequences: ['STOP'],
  });
  equal([message.content[0].text, message.stop_reason], ['one ', 'stop_sequence'], 'answer');
  equal(message.stop_sequence, 'STOP', 'stop_sequence');
  equal((await ask('[[sim tokens=50]]', { max_tokens: 5 })).stop_reason, 'max_tokens', 'stop_reason');
});

test('messages stream', [PATH, 'scripted'], async () => {
  const prompt = '[[sim reason=2 tokens=3 tool=weather:{"city":"Oslo"}]]';
  const message = await wholeStream(prompt, { tools: TOOLS });
  // A signature without thinking text, as Gemini sends it, is a separate block.
  const shown = message.content.map((block) => block.type).filter((type) => type !== 'redacted_thinking');
  equal(shown, ['thinking', 'text', 'tool_use'], 'blocks');
  equal(message.content.at(-1).input, { city: 'Oslo' }, 'input');
  equal([message.stop_reason, message.usage.output_tokens > 4], ['tool_use', true], 'end');
  const kinds = (await collect(await ask('Hi.', { stream: true }))).map((event) => event.type);
  const framed = kinds.filter((kind) => kind !== 'content_block_delta' && kind !== 'ping');
  const expected = ['message_start', 'content_block_start', 'content_block_stop', 'message_delta', 'message_stop'];
  equal(framed, expected, 'events');
});

test('messages tools in parallel, the whole loop', [PATH, 'scripted'], async () => {
  const prompt = '[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]';
  const first = await ask(prompt, { tools: TOOLS });
  equal(first.stop_reason, 'tool_use', 'stop_reason');
  equal(first.content.map((block) => block.input), [{ city: 'Paris' }, { city: 'Oslo' }], 'inputs');
  const results = first.content.map(({ id, input }) => ({
    type: 'tool_result',
    tool_use_id: id,
    content: `rain in ${input.city}`,
  }));
  const messages = [
    { role: 'user', content: prompt },
    { role: 'assistant', content: first.content },
    { role: 'user', content: results },
  ];
  const second = await ask('', { messages, tools: TOOLS });
  equal([second.content[0].text, second.stop_reason], ['rain in Oslo', 'end_turn'], 'answer');
});

test('messages tools one at a time', [PATH, 'simulator'], async () => {
  const prompt = '[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]';
  const choice = { type: 'any', disable_parallel_tool_use: true };
  const single = await ask(prompt, { tools: TOOLS, tool_choice: choice });
  equal(single.content.length, 1, 'calls that are not parallel');
});

test('messages tool runner', [PATH, 'scripted'], async () => {
  const asked = [];
  const weather = betaZodTool({
    name: 'weather',
    description: 'The weather of a city.',
    inputSchema: z.object({ city: z.string() }),
    run: ({ city }) => {
      asked.push(city);
      return `rain in ${city}`;
    },
  });
  const prompt = '[[sim tool=weather:{"city":"Oslo"}]]';
  const last = await client().beta.messages.toolRunner(request(prompt, { tools: [weather] }));
  equal([asked, last.content[0].text], [['Oslo'], 'rain in Oslo'], 'calls and answer');
});

test('messages structured', [PATH], async () => {
  const output_config = { format: zodOutputFormat(Thing) };
  const message = await client().messages.parse(request('go', { output_config }));
  check(Number.isInteger(message.parsed_output.n), 'parsed');
  const streamed = await wholeStream('go', { output_config });
  equal(Object.keys(JSON.parse(streamed.content[0].text)), ['n'], 'members');
});

test('messages image', [PATH, 'scripted'], async () => {
  const source = { type: 'base64', media_type: 'image/png', data: PNG };
  const message = await ask([
    { type: 'image', source },
    { type: 'text', text: 'What is it?' },
  ]);
  equal([message.content[0].text, message.usage.input_tokens > 0], ['What is it?', true], 'text and tokens');
});

test('messages count tokens', [PATH, 'scripted'], async () => {
  const count = async (words) => {
    const messages = [{ role: 'user', content: 'one '.repeat(words) }];
    return (await client().messages.countTokens({ model: MODEL, messages })).input_tokens;
  };
  const [short, long] = [await count(3), await count(300)];
  check(short >= 3 && long > short, `${short} and ${long} tokens`);
});

test('messages models', [PATH, 'gateway'], async () => {
  const models = await collect(client().models.list());
  const found = models.filter((model) => model.id === MODEL);
  equal(found.map((model) => model.type), ['model'], 'models');
  check(found[0].display_name && Number.isFinite(Date.parse(found[0].created_at)), 'display_name and created_at');
  equal((await client().models.retrieve(MODEL)).id, MODEL, 'id');
  const error = await raises(anthropic.NotFoundError, () => client().models.retrieve('none'));
  equal(error.type, 'not_found_error', 'type');
});

test('messages errors', [PATH, 'simulator', 'gateway', 'BROKE_KEY', 'LIMITED_KEY'], async () => {
  for (const [kind, name, code] of [
    [anthropic.RateLimitError, 'rate_limit_error', 'rate_limit_exceeded'],
    [anthropic.InternalServerError, 'overloaded_error', 'overloaded'],
    [anthropic.InternalServerError, 'api_error', 'upstream_error'],
    [anthropic.InternalServerError, 'timeout_error', 'upstream_timeout'],
    [anthropic.PermissionDeniedError, 'permission_error', 'permission_denied'],
    [anthropic.BadRequestError, 'invalid_request_error', 'content_policy_violation'],
  ]) {
    for (const members of [{}, { stream: true }]) {
      await raised(kind, name, code, () => ask(`[[sim error=${code}]]`, members));
    }
  }
  await raised(anthropic.NotFoundError, 'not_found_error', 'model_not_found', () => ask('x', { model: 'none' }));
  const invalid = [anthropic.BadRequestError, 'invalid_request_error'];
  await raised(...invalid, 'invalid_parameter', () => ask('x', { temperature: 0.5 }));
  await raised(...invalid, 'unknown_parameter', () => ask('x', { no_such_field: 1 }));
  const unknown = [anthropic.AuthenticationError, 'authentication_error', 'invalid_api_key'];
  await raised(...unknown, () => ask('x', {}, 'sk-service-nobody'));
  await raised(anthropic.APIError, 'billing_error', 'insufficient_credits', () => ask('x', {}, BROKE_KEY));
  await raised(anthropic.RateLimitError, 'rate_limit_error', 'rate_limit_exceeded', async () => {
    for (let count = 0; count < 3; count += 1) await ask('x', {}, LIMITED_KEY);
  });
});

test('messages error of the provider', [PATH, 'scripted', 'gateway'], async () => {
  for (const members of [{}, { stream: true }]) {
    const failed = [anthropic.InternalServerError, 'api_error', 'upstream_error'];
    await raised(...failed, () => ask('[[sim error=upstream_error]]', members));
  }
});

test('messages error in a stream', [PATH, 'scripted'], async () => {
  await raised(anthropic.APIError, 'api_error', 'upstream_error', () => wholeStream(BROKEN_STREAM));
});

test('files', ['gateway', '/v1/files'], async () => {
  const { files } = client().beta;
  const text = (name, content) => anthropic.toFile(Buffer.from(content), name, { type: 'text/plain' });
  const file = await files.upload({ file: await text('notes.txt', 'plain words') });
  equal(
    [file.type, file.filename, file.mime_type, file.size_bytes],
    ['file', 'notes.txt', 'text/plain', 11],
    'file',
  );
  check(file.downloadable && file.created_at >= '2026', 'downloadable and created_at');
  equal(await files.retrieveMetadata(file.id), file, 'retrieved');
  equal(await (await files.download(file.id)).text(), 'plain words', 'content');
  const ids = [file.id];
  for (const name of ['0.txt', '1.txt']) ids.unshift((await files.upload({ file: await text(name, 'x') })).id);
  const newest = [];
  for await (const found of files.list({ limit: 2 })) {
    newest.push(found.id);
    if (newest.length === 3) break;
  }
  equal(newest, ids, 'newest first, over two pages');
  const named = await files.list({ ids: [ids[2], ids[0], 'file-none'] });
  equal(named.data.map((found) => found.id), [ids[0], ids[2]], 'by their ids');
  for (const id of ids) {
    const gone = await files.delete(id);
    equal([gone.id, gone.type], [id, 'file_deleted'], 'deleted');
  }
  await raised(anthropic.NotFoundError, 'not_found_error', 'not_found', () => files.retrieveMetadata(file.id));
});

test('message batches', ['scripted', 'gateway', '/v1/messages/batches'], async () => {
  const { batches } = client().messages;
  const texts = { a: 'hello', b: 'goodbye', c: '[[sim error=upstream_error]]' };
  const asked = Object.entries(texts).map(([name, text]) => ({ custom_id: name, params: request(text) }));
  let batch = await batches.create({ requests: asked });
  equal(
    [batch.type, batch.processing_status, batch.request_counts.processing],
    ['message_batch', 'in_progress', 3],
    'batch',
  );
  while (batch.processing_status !== 'ended') {
    await new Promise((resolve) => setTimeout(resolve, 200));
    batch = await batches.retrieve(batch.id);
  }
  equal([batch.request_counts.succeeded, batch.request_counts.errored], [2, 1], 'counts');
  const found = {};
  for await (const line of await batches.results(batch.id)) found[line.custom_id] = line.result;
  equal(found.a.message.content[0].text, 'hello', 'an answer');
  equal([found.c.type, found.c.error.error.type], ['errored', 'api_error'], 'what has failed');
  const [newest] = (await batches.list({ limit: 1 })).data;
  equal(newest.id, batch.id, 'the newest');
  equal((await batches.cancel(batch.id)).processing_status, 'ended', 'too late to cancel');
  const twice = ['a', 'a'].map((name) => ({ custom_id: name, params: request('x') }));
  const error = await raises(anthropic.BadRequestError, () => batches.create({ requests: twice }));
  equal(error.error.error.param, 'requests[1].custom_id', 'param');
  equal((await batches.list({ before_id: batch.id })).data.length, 0, 'nothing is newer');
  const deleted = await batches.delete(batch.id);
  equal([deleted.id, deleted.type], [batch.id, 'message_batch_deleted'], 'deleted');
  await raised(anthropic.NotFoundError, 'not_found_error', 'not_found', () => batches.retrieve(batch.id));
});

async function raised(kind, name, code, call) {
  const error = await raises(kind, call);
  equal([error.error.error.type, error.error.error.code], [name, code], 'error');
  equal(error.type, name, 'type');
  check(error.requestID?.startsWith('req_'), `request id ${error.requestID}`);
}

await main('anthropic-node', versionOf('@anthropic-ai/sdk'));
