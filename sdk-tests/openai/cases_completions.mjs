// Completions of plain prompts (the legacy API).

import { BROKEN_STREAM, MODEL, check, collect, equal, raises, test } from '../harness/harness.mjs';
import { client, openai } from './client.mjs';

const PATH = '/v1/completions';

const ask = (prompt = 'Say something short.', members = {}) =>
  client().completions.create({ model: MODEL, prompt, ...members });

test('completions', [PATH], async () => {
  const { object, model, choices, usage } = await ask();
  equal([object, model], ['text_completion', MODEL], 'object and model');
  equal(choices.map((choice) => choice.index), [0], 'indexes');
  check(choices[0].text && choices[0].finish_reason === 'stop', 'text and finish_reason');
  equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens, 'total_tokens');
});

test('completions several', [PATH, 'parameters'], async () => {
  const { choices } = await ask(undefined, { n: 2 });
  equal(choices.map((choice) => choice.index), [0, 1], 'indexes');
  check(choices.every((choice) => choice.text), 'a text is empty');
});

test('completions stream', [PATH], async () => {
  const chunks = await collect(await ask(undefined, { stream: true, stream_options: { include_usage: true } }));
  check(chunks.flatMap((chunk) => chunk.choices).map((choice) => choice.text).join(''), 'there is no text');
  equal([chunks.at(-1).choices, chunks.at(-1).usage.prompt_tokens > 0], [[], true], 'the usage chunk');
  equal(new Set(chunks.map((chunk) => chunk.id)).size, 1, 'ids');
});

test('completions structured', [PATH, 'parameters'], async () => {
  const { choices } = await ask('A JSON object.', { max_tokens: 500, response_format: { type: 'json_object' } });
  equal(typeof JSON.parse(choices[0].text), 'object', 'text');
});

test('completions errors', [PATH, 'simulator', 'gateway'], async () => {
  let error = await raises(openai.NotFoundError, () => ask('Hi.', { model: 'nobody/knows-this' }));
  equal(error.code, 'model_not_found', 'code');
  error = await raises(openai.BadRequestError, () => ask('Hi.', { temperature: 9 }));
  equal([error.code, error.param], ['invalid_parameter', 'temperature'], 'code and param');
  await raises(openai.RateLimitError, () => ask('[[sim error=rate_limit_exceeded]]'));
  await raises(openai.APIError, async () => collect(await ask(BROKEN_STREAM, { stream: true })));
});
