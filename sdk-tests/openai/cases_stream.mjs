// Streamed chat completions: the rules of the stream, and the SDK's own helper.

import { ARGUMENTS, CALL_WEATHER, THING, WEATHER, checkThing, checkUsage } from './cases_chat.mjs';
import { MODEL, check, collect, equal, test } from '../harness/harness.mjs';
import { client, user } from './client.mjs';

/** Checks the rules of a chat completion stream. */
function checkStream(chunks, { choices = 1, usage = false } = {}) {
  check(chunks.length > 0, 'the stream is empty');
  for (const name of ['id', 'created', 'model', 'object']) {
    const values = new Set(chunks.map((chunk) => chunk[name]));
    check(values.size === 1 && [...values][0], `${name} on the chunks: ${[...values]}`);
  }
  equal([chunks[0].object, chunks[0].model], ['chat.completion.chunk', MODEL], 'object and model');
  const content = usage ? chunks.slice(0, -1) : chunks;
  if (usage) {
    equal(chunks.at(-1).choices, [], 'choices of the usage chunk');
    checkUsage(chunks.at(-1).usage);
    check(content.every((chunk) => chunk.usage === null), 'a chunk lacks usage: null');
  } else {
    check(content.every((chunk) => chunk.usage == null), 'usage where none belongs');
  }
  check(content.every((chunk) => chunk.choices.length > 0), 'a chunk without choices');
  for (let index = 0; index < choices; index += 1) {
    const own = content.flatMap((chunk) => chunk.choices).filter((choice) => choice.index === index);
    equal(own[0].delta.role, 'assistant', `role of choice ${index}`);
    check(!own[0].delta.content, 'content in the role chunk');
    const finishes = own.map((choice) => choice.finish_reason != null);
    equal(finishes, own.map((_, place) => place === own.length - 1), `finish reasons of choice ${index}`);
    check(!own.at(-1).delta.content && !own.at(-1).delta.tool_calls, 'content in the finish chunk');
  }
}

const choicesOf = (chunks) => chunks.flatMap((chunk) => chunk.choices);

const textOf = (chunks, index = 0) =>
  choicesOf(chunks)
    .filter((choice) => choice.index === index)
    .map((choice) => choice.delta.content ?? '')
    .join('');

const stream = async (text = 'Say something short.', parameters = {}) =>
  collect(await client().chat.completions.create({ model: MODEL, messages: user(text), stream: true, ...parameters }));

test('stream', [], async () => {
  const chunks = await stream();
  checkStream(chunks);
  const pieces = choicesOf(chunks).filter((choice) => choice.delta.content);
  check(pieces.length >= 3, `only ${pieces.length} pieces`);
});

test('stream usage', [], async () => {
  checkStream(await stream(undefined, { stream_options: { include_usage: true } }), { usage: true });
});

test("stream usage is the whole answer's", ['scripted'], async () => {
  const messages = user('[[sim tokens=20]]');
  const whole = await client().chat.completions.create({ model: MODEL, messages });
  const chunks = await stream('[[sim tokens=20]]', { stream_options: { include_usage: true } });
  equal(textOf(chunks), whole.choices[0].message.content, 'text');
  equal(chunks.at(-1).usage.prompt_tokens, whole.usage.prompt_tokens, 'prompt_tokens');
  equal(chunks.at(-1).usage.completion_tokens, whole.usage.completion_tokens, 'completion_tokens');
});

test('stream no usage unasked', [], async () => {
  checkStream(await stream(undefined, { stream_options: { include_usage: false } }));
});

test('stream n', ['parameters'], async () => {
  const chunks = await stream(undefined, { n: 2, stream_options: { include_usage: true } });
  checkStream(chunks, { choices: 2, usage: true });
  check(textOf(chunks, 0) && textOf(chunks, 1), 'a choice is empty');
});

test('stream max tokens', [], async () => {
  const chunks = await stream('[[sim tokens=50]] Count to a thousand.', { max_tokens: 16 });
  checkStream(chunks);
  equal(chunks.at(-1).choices[0].finish_reason, 'length', 'finish_reason');
});

test('stream tools', [], async () => {
  const chunks = await stream(CALL_WEATHER, { tools: [WEATHER], stream_options: { include_usage: true } });
  checkStream(chunks, { usage: true });
  const choices = choicesOf(chunks);
  equal(choices.at(-1).finish_reason, 'tool_calls', 'finish_reason');
  const deltas = choices.flatMap((choice) => choice.delta.tool_calls ?? []);
  check(deltas.every((delta) => delta.index === 0), 'indexes');
  const [first, ...rest] = deltas;
  check(first.id && first.type === 'function' && first.function.name === 'weather', 'the first delta');
  check(rest.every((delta) => delta.id == null && delta.function.name == null), 'id or name again');
  const text = deltas.map((delta) => delta.function.arguments ?? '').join('');
  equal(JSON.parse(text), ARGUMENTS, 'arguments');
});

test('stream structured', [], async () => {
  const runner = client().chat.completions.stream({
    model: MODEL,
    messages: user('A thing.'),
    response_format: THING,
  });
  let deltas = 0;
  runner.on('content.delta', () => (deltas += 1));
  const completion = await runner.finalChatCompletion();
  check(deltas > 0, 'there was no content.delta');
  checkThing(completion.choices[0].message.parsed);
});

test('stream helper with tools', [], async () => {
  const strict = { ...WEATHER, function: { ...WEATHER.function, strict: true } };
  const runner = client().chat.completions.stream({
    model: MODEL,
    messages: user(CALL_WEATHER),
    tools: [strict],
  });
  const completion = await runner.finalChatCompletion();
  const [call] = completion.choices[0].message.tool_calls;
  equal(call.function.parsed_arguments, ARGUMENTS, 'arguments');
});

test('stream refusal and reasoning', ['simulator'], async () => {
  let deltas = choicesOf(await stream('[[sim refuse]]')).map((choice) => choice.delta);
  check(deltas.some((delta) => delta.refusal), 'there is no refusal');
  check(!deltas.some((delta) => delta.content), 'there is content');
  deltas = choicesOf(await stream('[[sim tokens=5 reason=8]]')).map((choice) => choice.delta);
  check(deltas.some((delta) => delta.reasoning_content), 'there is no reasoning_content');
});

test('stream bytes', [], async () => {
  const create = client().chat.completions.create({ model: MODEL, messages: user('Hi.'), stream: true });
  const response = await create.asResponse();
  const type = response.headers.get('content-type');
  check(type.startsWith('text/event-stream'), type);
  check(response.headers.get('x-request-id'), 'there is no x-request-id');
  const body = await response.text();
  check(body.endsWith('data: [DONE]\n\n'), `the end is ${JSON.stringify(body.slice(-40))}`);
  check(!body.includes('\r'), 'there are carriage returns');
  const lines = body.split('\n').filter((line) => line && !line.startsWith(':'));
  check(lines.every((line) => line.startsWith('data: ')), 'a line that is no data line');
});
