// Responses: create, stream, store and continue.

import {
  BROKEN_STREAM,
  BROKE_KEY,
  LIMITED_KEY,
  MODEL,
  PNG,
  check,
  collect,
  equal,
  raises,
  test,
} from '../harness/harness.mjs';
import { ARGUMENTS, CALL_WEATHER, THING, checkThing } from './cases_chat.mjs';
import { client, openai, user } from './client.mjs';

const PATH = '/v1/responses';
const KEPT = '/v1/responses/{}';
const WEATHER = {
  type: 'function',
  name: 'weather',
  description: 'The weather of a city.',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  strict: false,
};
const { type, json_schema } = THING;
const THING_TEXT = { format: { type, ...json_schema } };

const ask = (input = 'Say something short.', members = {}, settings = {}) =>
  client(settings).responses.create({ model: MODEL, input, ...members });

const callsOf = (response) => response.output.filter((item) => item.type === 'function_call');

function checkUsage(usage) {
  check(usage.input_tokens > 0 && usage.output_tokens > 0, `usage is ${JSON.stringify(usage)}`);
  equal(usage.total_tokens, usage.input_tokens + usage.output_tokens, 'total_tokens');
  check(usage.input_tokens_details.cached_tokens >= 0, 'cached_tokens');
  check(usage.output_tokens_details.reasoning_tokens >= 0, 'reasoning_tokens');
}

test('responses', [PATH], async () => {
  const response = await ask();
  equal([response.object, response.status, response.model], ['response', 'completed', MODEL], 'response');
  check(response.id.startsWith('resp_'), `id is ${response.id}`);
  check(response.created_at > 1_000_000_000, `created_at is ${response.created_at}`);
  equal(response.output.map((item) => item.type), ['message'], 'output');
  equal([response.output[0].role, response.output[0].status], ['assistant', 'completed'], 'message');
  check(response.output_text, 'there is no output_text');
  equal([response.error, response.incomplete_details, response.previous_response_id], [null, null, null], 'nulls');
  checkUsage(response.usage);
});

test('responses input', [PATH, 'simulator'], async () => {
  const image = { type: 'input_image', image_url: `data:image/png;base64,${PNG}`, detail: 'low' };
  const items = [
    { role: 'developer', content: 'Be brief.' },
    ...user('Hi.'),
    { role: 'assistant', content: 'Yes?' },
    { role: 'user', content: [{ type: 'input_text', text: 'What is it?' }, image] },
  ];
  const response = await ask(items, { instructions: 'Answer.', temperature: 0.5, metadata: { a: 'b' } });
  equal(response.output_text, 'What is it?', 'output_text');
  const { instructions, temperature, metadata } = response;
  equal([instructions, temperature, metadata], ['Answer.', 0.5, { a: 'b' }], 'settings');
});

test('responses cost', [PATH, 'gateway'], async () => {
  const { data, response } = await ask('Hi.').withResponse();
  equal(data.usage.cost, response.headers.get('x-tollgate-cost'), 'usage.cost');
  check(response.headers.get('x-request-id'), 'there is no x-request-id');
});

test('responses stream', [PATH], async () => {
  const events = await collect(await ask(undefined, { stream: true }));
  const kinds = events.map((event) => event.type.replace('response.', ''));
  equal(events.map((event) => event.sequence_number), [...events.keys()], 'sequence numbers');
  equal(kinds.slice(0, 4), ['created', 'in_progress', 'output_item.added', 'content_part.added'], 'first events');
  equal(kinds.slice(-4), ['output_text.done', 'content_part.done', 'output_item.done', 'completed'], 'last events');
  const deltas = events.filter((event) => event.type === 'response.output_text.delta').map((event) => event.delta);
  check(deltas.length >= 3, `only ${deltas.length} pieces`);
  const final = events.at(-1).response;
  equal(deltas.join(''), final.output[0].content[0].text, 'text');
  equal([events[0].response.id, events[1].response.id], [final.id, final.id], 'ids');
  checkUsage(final.usage);
});

test('responses stream helper with tools', [PATH], async () => {
  const events = client().responses.stream({ model: MODEL, input: CALL_WEATHER, tools: [WEATHER] });
  const kinds = new Set();
  for await (const event of events) kinds.add(event.type);
  const final = await events.finalResponse();
  check(kinds.has('response.function_call_arguments.delta'), `events are ${[...kinds]}`);
  equal(JSON.parse(callsOf(final)[0].arguments), ARGUMENTS, 'arguments');
});

test('responses tools in parallel, the whole loop', [PATH, 'scripted'], async () => {
  const prompt = '[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]';
  const first = await ask(prompt, { tools: [WEATHER] });
  const calls = callsOf(first);
  const cities = calls.map((call) => JSON.parse(call.arguments).city);
  equal([calls.map((call) => call.name), cities], [['weather', 'weather'], ['Paris', 'Oslo']], 'calls');
  check(calls[0].call_id !== calls[1].call_id, 'two calls have one id');
  const results = calls.map(({ call_id }, place) => ({
    type: 'function_call_output',
    call_id,
    output: `rain in ${cities[place]}`,
  }));
  const whole = await ask([...user(prompt), ...first.output, ...results], { tools: [WEATHER], store: false });
  equal(whole.output_text, 'rain in Oslo', 'answer');
});

test('responses continued by tools', [KEPT, 'scripted'], async () => {
  const first = await ask(CALL_WEATHER, { tools: [WEATHER] });
  const result = { type: 'function_call_output', call_id: callsOf(first)[0].call_id, output: 'rain' };
  const second = await ask([result], { tools: [WEATHER], previous_response_id: first.id });
  equal([second.output_text, second.previous_response_id], ['rain', first.id], 'answer');
  const third = await ask('And now?', { previous_response_id: second.id });
  const alone = await ask('And now?');
  check(third.usage.input_tokens > alone.usage.input_tokens + 2, 'the third call did not see the others');
});

test('responses structured', [PATH], async () => {
  const request = { model: MODEL, input: 'A thing.', text: THING_TEXT };
  checkThing((await client().responses.parse(request)).output_parsed);
  checkThing((await client().responses.stream(request).finalResponse()).output_parsed);
});

test('responses reasoning, refusal, length', [PATH, 'simulator'], async () => {
  let response = await ask('[[sim tokens=5 reason=8]]', { reasoning: { effort: 'low', summary: 'auto' } });
  equal(response.output.map((item) => item.type), ['reasoning', 'message'], 'output');
  equal(response.usage.output_tokens_details.reasoning_tokens, 8, 'reasoning_tokens');
  equal(response.usage.output_tokens, 13, 'output_tokens');
  equal((await ask('[[sim refuse]]')).output[0].content[0].type, 'refusal', 'part');
  response = await ask('[[sim tokens=50]]', { max_output_tokens: 16 });
  equal([response.status, response.incomplete_details.reason], ['incomplete', 'max_output_tokens'], 'ending');
  equal(response.usage.output_tokens, 16, 'output_tokens');
});

test('responses kept', [KEPT], async () => {
  const calls = client();
  const first = await ask('My name is Ann.');
  const again = await calls.responses.retrieve(first.id);
  equal([again.id, again.output_text, again.usage], [first.id, first.output_text, first.usage], 'kept response');
  const items = await collect(calls.responses.inputItems.list(first.id));
  equal(items.map((item) => [item.role, item.content[0].text]), [['user', 'My name is Ann.']], 'input items');
  const second = await ask('Who am I?', { previous_response_id: first.id });
  check(second.usage.input_tokens > first.usage.input_tokens, 'the second call did not see the first');
  await calls.responses.delete(first.id);
  for (const call of [
    () => calls.responses.retrieve(first.id),
    () => calls.responses.inputItems.list(first.id),
    () => ask('And now?', { previous_response_id: first.id }),
    async () => calls.responses.retrieve((await ask(undefined, { store: false })).id),
  ]) {
    const { status } = await raises(openai.APIError, call);
    check(status === 400 || status === 404, `status is ${status}`);
  }
});

test('responses in the background, followed and gone on with', [KEPT], async () => {
  const calls = client();
  const seen = [];
  const events = await ask(undefined, { background: true, stream: true });
  for await (const event of events) {
    seen.push(event);
    if (event.type === 'response.output_text.delta') break;
  }
  const first = seen.slice(0, 3).map((event) => event.type.replace('response.', ''));
  equal(first, ['created', 'queued', 'in_progress'], 'first events');
  const { id, status } = seen[0].response;
  equal(status, 'queued', 'status');
  const after = seen.at(-1).sequence_number;
  const rest = await collect(await calls.responses.retrieve(id, { stream: true, starting_after: after }));
  const all = [...seen, ...rest];
  equal(all.map((event) => event.sequence_number), [...all.keys()], 'sequence numbers');
  equal(rest.at(-1).type, 'response.completed', 'last event');
  const deltas = all.filter((event) => event.type === 'response.output_text.delta').map((event) => event.delta);
  const kept = await calls.responses.retrieve(id);
  equal([kept.status, kept.output_text], ['completed', deltas.join('')], 'kept response');
  const again = await collect(await calls.responses.retrieve(id, { stream: true }));
  equal(again.map((event) => event.type), all.map((event) => event.type), 'the events again');
  const helped = await calls.responses.stream({ response_id: id, starting_after: after }).finalResponse();
  equal(helped.output_text, kept.output_text, "the helper's response");
});

test('responses input tokens', ['/v1/responses/input_tokens', 'scripted'], async () => {
  const count = (words) => client().responses.inputTokens.count({ model: MODEL, input: 'one '.repeat(words) });
  const [short, long] = [await count(3), await count(300)];
  equal(short.object, 'response.input_tokens', 'object');
  check(short.input_tokens >= 3 && long.input_tokens > short.input_tokens, `${short.input_tokens} tokens`);
});

test('responses errors', [PATH, 'simulator', 'gateway', 'BROKE_KEY', 'LIMITED_KEY'], async () => {
  for (const streamed of [{}, { stream: true }]) {
    for (const [kind, code, input, members, settings] of [
      [openai.AuthenticationError, 'invalid_api_key', 'Hi.', {}, { apiKey: 'sk-service-x' }],
      [openai.NotFoundError, 'model_not_found', 'Hi.', { model: 'nobody/knows-this' }],
      [openai.BadRequestError, 'invalid_parameter', 'Hi.', { temperature: 9 }],
      [openai.BadRequestError, 'unknown_parameter', 'Hi.', { no_such_field: 1 }],
      [openai.APIError, 'insufficient_credits', 'Hi.', {}, { apiKey: BROKE_KEY }],
      [openai.RateLimitError, 'rate_limit_exceeded', '[[sim error=rate_limit_exceeded]]'],
      [openai.InternalServerError, 'overloaded', '[[sim error=overloaded]]'],
    ]) {
      const error = await raises(kind, () => ask(input, { ...streamed, ...members }, settings));
      equal(error.code, code, 'code');
      check(error.requestID, 'there is no request id');
    }
  }
  await raises(openai.RateLimitError, async () => {
    for (let count = 0; count < 3; count += 1) await ask('Hi.', {}, { apiKey: LIMITED_KEY });
  });
});

test('responses error in a stream', [PATH, 'scripted'], async () => {
  const seen = [];
  const error = await raises(openai.APIError, async () => {
    for await (const event of await ask(BROKEN_STREAM, { stream: true })) seen.push(event.type);
  });
  check(seen.includes('response.output_text.delta'), 'no content came before the error');
  check(!seen.includes('response.completed'), 'the response was completed');
  check(error.code, `code ${error.code}`);
});
