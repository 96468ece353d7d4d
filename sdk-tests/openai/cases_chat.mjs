// Models, and chat completions without streaming.

import { MODEL, PNG, check, collect, equal, raises, test } from '../harness/harness.mjs';
import { LengthFinishReasonError, client, openai, user } from './client.mjs';

export const WEATHER = {
  type: 'function',
  function: {
    name: 'weather',
    description: 'The weather of a city.',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' }, days: { type: 'integer' } },
      required: ['city'],
    },
  },
};
export const CALL_WEATHER = '[[sim tool=weather:{"city":"Paris","days":[1,2]}]]';
export const ARGUMENTS = { city: 'Paris', days: [1, 2] };

export const THING = {
  type: 'json_schema',
  json_schema: {
    name: 'thing',
    strict: true,
    schema: {
      type: 'object',
      properties: {
        title: { type: 'string' },
        kind: { type: 'string', enum: ['small', 'large'] },
        count: { type: 'integer' },
        fresh: { type: 'boolean' },
        parts: { type: 'array', items: { $ref: '#/$defs/part' } },
      },
      required: ['title', 'kind', 'count', 'fresh', 'parts'],
      additionalProperties: false,
      $defs: {
        part: {
          type: 'object',
          properties: { name: { type: 'string' } },
          required: ['name'],
          additionalProperties: false,
        },
      },
    },
  },
};

export function checkThing(thing) {
  check(thing && typeof thing === 'object', `nothing was parsed: ${thing}`);
  equal(Object.keys(thing).sort(), ['count', 'fresh', 'kind', 'parts', 'title'], 'members');
  check(['small', 'large'].includes(thing.kind), `kind is ${thing.kind}`);
  check(Number.isInteger(thing.count) && typeof thing.fresh === 'boolean', 'count and fresh');
  check(thing.parts.every((part) => typeof part.name === 'string'), 'parts');
}

export function checkUsage(usage) {
  check(usage, 'there is no usage');
  check(usage.prompt_tokens > 0 && usage.completion_tokens > 0, `usage is ${JSON.stringify(usage)}`);
  equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens, 'total_tokens');
}

const ask = (text, parameters = {}) =>
  client().chat.completions.create({ model: MODEL, messages: user(text), ...parameters });

test('models list', [], async () => {
  const models = await collect(client().models.list());
  const found = models.filter((model) => model.id === MODEL);
  equal(found.length, 1, `models named ${MODEL}`);
  equal(found[0].object, 'model', 'object');
  check(Number.isInteger(found[0].created) && found[0].owned_by, 'created and owned_by');
});

test('models retrieve', [], async () => {
  equal((await client().models.retrieve(MODEL)).id, MODEL, 'id');
});

test('models retrieve raw slash', [], async () => {
  equal((await client().get(`/models/${MODEL}`)).id, MODEL, 'id');
});

test('chat', [], async () => {
  const completion = await ask('Say something short.');
  check(completion.id && completion.created > 1_000_000_000, 'id and created');
  equal([completion.object, completion.model], ['chat.completion', MODEL], 'object and model');
  equal(completion.choices.length, 1, 'choices');
  const [choice] = completion.choices;
  equal([choice.index, choice.message.role, choice.finish_reason], [0, 'assistant', 'stop'], 'choice');
  check(choice.message.content, 'there is no content');
  checkUsage(completion.usage);
});

test('chat roles and parts', [], async () => {
  const completion = await client().chat.completions.create({
    model: MODEL,
    messages: [
      { role: 'developer', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'text', text: 'Hëllo ' }, { type: 'text', text: 'wörld 🌍' }] },
      { role: 'assistant', content: 'Yes?' },
      { role: 'user', name: 'ann', content: 'Go on.' },
    ],
  });
  check(completion.choices[0].message.content, 'there is no content');
});

test('chat parameters', ['parameters'], async () => {
  const completion = await ask('Say something short.', {
    temperature: 0.5,
    top_p: 0.9,
    frequency_penalty: 0.1,
    presence_penalty: -0.1,
    seed: 7,
    user: 'user-1',
    metadata: { a: 'b' },
    store: false,
    service_tier: 'auto',
  });
  check(completion.choices[0].message.content, 'there is no content');
});

test('chat long prompt', [], async () => {
  const completion = await ask('word '.repeat(20_000) + 'Say ok.', { max_tokens: 16 });
  check(completion.usage.prompt_tokens > 5_000, `prompt_tokens is ${completion.usage.prompt_tokens}`);
});

test('request id', [], async () => {
  const first = await ask('Hi.').withResponse();
  const id = first.response.headers.get('x-request-id');
  check(id, 'there is no x-request-id');
  equal([first.data._request_id, first.request_id], [id, id], '_request_id');
  const second = await ask('Hi.').withResponse();
  check(second.request_id !== id, 'two requests have one id');
});

test('gateway headers', ['gateway'], async () => {
  const { data, response } = await ask('Hi.').withResponse();
  for (const name of ['requests', 'tokens']) {
    const limit = Number(response.headers.get(`x-ratelimit-limit-${name}`));
    const remaining = Number(response.headers.get(`x-ratelimit-remaining-${name}`));
    check(limit > 0 && remaining >= 0 && remaining <= limit, `${name}: ${remaining} of ${limit} remain`);
    check(response.headers.get(`x-ratelimit-reset-${name}`), `there is no x-ratelimit-reset-${name}`);
  }
  const cost = response.headers.get('x-tollgate-cost');
  check(Number(cost) >= 0 && cost !== null, 'x-tollgate-cost');
  equal(data.usage.cost, cost, 'usage.cost');
});

test('tools', [], async () => {
  const completion = await ask(CALL_WEATHER, { tools: [WEATHER], tool_choice: 'auto' });
  const [choice] = completion.choices;
  equal(choice.finish_reason, 'tool_calls', 'finish_reason');
  equal(choice.message.tool_calls.length, 1, 'tool calls');
  const [call] = choice.message.tool_calls;
  equal([call.type, call.function.name], ['function', 'weather'], 'call');
  check(call.id, 'the call has no id');
  equal(JSON.parse(call.function.arguments), ARGUMENTS, 'arguments');
  checkUsage(completion.usage);
});

test('tools round trip', [], async () => {
  const first = await ask(CALL_WEATHER, { tools: [WEATHER] });
  const { message } = first.choices[0];
  const second = await client().chat.completions.create({
    model: MODEL,
    messages: [
      ...user(CALL_WEATHER),
      message,
      { role: 'tool', tool_call_id: message.tool_calls[0].id, content: '{"sky":"clear"}' },
      ...user('So?'),
    ],
    tools: [WEATHER],
  });
  equal(second.choices[0].finish_reason, 'stop', 'finish_reason');
  check(second.choices[0].message.content, 'there is no content');
});

test('tools in parallel, the whole loop', ['scripted', 'gateway'], async () => {
  const prompt = '[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]';
  const { message } = (await ask(prompt, { tools: [WEATHER] })).choices[0];
  const cities = message.tool_calls.map((call) => JSON.parse(call.function.arguments).city);
  equal(cities, ['Paris', 'Oslo'], 'cities');
  check(message.tool_calls[0].id !== message.tool_calls[1].id, 'two calls have one id');
  const results = message.tool_calls.map(({ id }, place) => ({
    role: 'tool',
    tool_call_id: id,
    content: `rain in ${cities[place]}`,
  }));
  const messages = [...user(prompt), message, ...results];
  const answer = await client().chat.completions.create({ model: MODEL, messages, tools: [WEATHER] });
  equal(answer.choices[0].finish_reason, 'stop', 'finish_reason');
  equal(answer.choices[0].message.content, 'rain in Oslo', 'the echo of the last result');
});

test('tools one at a time', ['simulator'], async () => {
  const prompt = '[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]';
  const single = await ask(prompt, { tools: [WEATHER], parallel_tool_calls: false });
  equal(single.choices[0].message.tool_calls.length, 1, 'calls that are not parallel');
});

test('image', ['scripted', 'gateway'], async () => {
  const completion = await ask([
    { type: 'text', text: 'What is it?' },
    { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}`, detail: 'low' } },
  ]);
  equal(completion.choices[0].message.content, 'What is it?', 'content');
  check(completion.usage.prompt_tokens >= 3, `prompt_tokens is ${completion.usage.prompt_tokens}`);
});

test('structured parse', [], async () => {
  const completion = await client().chat.completions.parse({
    model: MODEL,
    messages: user('A thing.'),
    response_format: THING,
  });
  checkThing(completion.choices[0].message.parsed);
});

test('structured json_schema', [], async () => {
  const completion = await ask('Answer.', { response_format: THING });
  checkThing(JSON.parse(completion.choices[0].message.content));
});

test('structured json_object', ['parameters'], async () => {
  const completion = await ask('Answer with a JSON object.', { response_format: { type: 'json_object' } });
  const document = JSON.parse(completion.choices[0].message.content);
  check(document && typeof document === 'object' && !Array.isArray(document), 'the content is no object');
});

test('n', ['parameters'], async () => {
  const one = await ask('Say something short.');
  const two = await ask('Say something short.', { n: 2 });
  equal(two.choices.map((choice) => choice.index), [0, 1], 'indexes');
  check(two.choices.every((choice) => choice.message.content && choice.finish_reason), 'a choice is empty');
  equal(two.usage.prompt_tokens, one.usage.prompt_tokens, 'prompt_tokens of n=2');
  check(two.usage.completion_tokens > one.usage.completion_tokens, 'completion_tokens of n=2');
});

test('stop', ['scripted', 'parameters'], async () => {
  const whole = await ask('one STOPHERE two');
  check(whole.choices[0].message.content.includes('STOPHERE'), 'the echo lacks the word');
  for (const stop of ['STOPHERE', ['never', 'STOPHERE']]) {
    const cut = await ask('one STOPHERE two', { stop });
    check(!cut.choices[0].message.content.includes('STOPHERE'), 'the stop sequence is in the content');
    equal(cut.choices[0].finish_reason, 'stop', 'finish_reason');
  }
});

test('max tokens', [], async () => {
  for (const name of ['max_tokens', 'max_completion_tokens']) {
    const completion = await ask('[[sim tokens=50]] Count to a thousand.', { [name]: 16 });
    equal(completion.choices[0].finish_reason, 'length', `finish_reason of ${name}`);
    check(completion.usage.completion_tokens <= 16, `${completion.usage.completion_tokens} tokens of ${name}=16`);
  }
});

test('exact usage', ['scripted'], async () => {
  equal((await ask('[[sim tokens=20]]')).usage.completion_tokens, 20, 'completion_tokens');
});

test('logprobs or a clear no', ['parameters'], async () => {
  let completion;
  try {
    completion = await ask('Hi.', { logprobs: true, top_logprobs: 2 });
  } catch (error) {
    if (!(error instanceof openai.BadRequestError)) throw error;
    equal(error.code, 'unsupported_parameter', 'code');
    check(['logprobs', 'top_logprobs'].includes(error.param), `param is ${error.param}`);
    return;
  }
  const { content } = completion.choices[0].logprobs;
  check(content.length > 0 && content.every((entry) => entry.logprob <= 0), 'logprobs');
  equal(content.map((entry) => entry.token).join(''), completion.choices[0].message.content, 'tokens');
});

test('refusal', ['simulator'], async () => {
  const { message } = (await ask('[[sim refuse]]')).choices[0];
  check(message.refusal && !message.content, `refusal ${message.refusal}, content ${message.content}`);
});

test('reasoning', ['scripted', 'reasoning'], async () => {
  const completion = await ask('[[sim tokens=5 reason=8]]');
  check(completion.choices[0].message.reasoning_content, 'there is no reasoning_content');
  equal(completion.usage.completion_tokens_details.reasoning_tokens, 8, 'reasoning_tokens');
  equal(completion.usage.completion_tokens, 13, 'completion_tokens');
});

test('length error of parse', ['simulator'], async () => {
  await raises(LengthFinishReasonError, () =>
    client().chat.completions.parse({
      model: MODEL,
      messages: user('[[sim tokens=50]]'),
      response_format: THING,
      max_tokens: 2,
    }),
  );
});
