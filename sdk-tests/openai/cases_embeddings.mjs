// Embeddings. By default, the client requests base64 and decodes it.

import { MODEL, VECTORS, check, equal, raises, test } from '../harness/harness.mjs';
import { client, openai } from './client.mjs';

const NEEDS = ['simulator', 'gateway'];

const ask = (input, parameters = {}) => client().embeddings.create({ model: VECTORS, input, ...parameters });

function checkList(answer, count, dimensions) {
  equal([answer.object, answer.model], ['list', VECTORS], 'object and model');
  equal(answer.data.map((item) => item.index), [...Array(count).keys()], 'indexes');
  for (const { object, embedding } of answer.data) {
    equal([object, embedding.length], ['embedding', dimensions], 'item');
    const length = Math.sqrt(embedding.reduce((sum, value) => sum + value * value, 0));
    check(Math.abs(length - 1) < 1e-4, `a vector of length ${length}`);
  }
  check(answer.usage.prompt_tokens > 0, 'prompt_tokens');
  equal(answer.usage.total_tokens, answer.usage.prompt_tokens, 'total_tokens');
}

test('embeddings', NEEDS, async () => {
  checkList(await ask('Hello'), 1, 1536);
});

test('embeddings inputs', NEEDS, async () => {
  const cases = [
    [['a', 'b', 'ä 🌍'], 3],
    [[1, 2, 3], 1],
    [[[1, 2], [3]], 2],
    [Array(2048).fill('x'), 2048],
  ];
  for (const [input, count] of cases) checkList(await ask(input, { dimensions: 8 }), count, 8);
});

test('embeddings encodings', NEEDS, async () => {
  const of = async (parameters) => (await ask('Hello', { dimensions: 16, ...parameters })).data[0].embedding;
  const usual = [...(await of({}))];
  const packed = Buffer.from(await of({ encoding_format: 'base64' }), 'base64');
  const unpacked = Array.from({ length: 16 }, (_, place) => packed.readFloatLE(4 * place));
  equal(unpacked, usual, 'base64');
  equal((await of({ encoding_format: 'float' })).map(Math.fround), usual, 'float');
});

test('embeddings cost', NEEDS, async () => {
  const { data, response } = await ask(['one two', 'three']).withResponse();
  equal(data.usage.prompt_tokens, 3, 'prompt_tokens');
  equal(data.usage.cost, response.headers.get('x-tollgate-cost'), 'usage.cost');
  equal(data.usage.cost, '0.00000006', 'cost');
});

test('embeddings errors', NEEDS, async () => {
  const failing = async (code, kind, param, request) => {
    const error = await raises(kind, () => client().embeddings.create({ model: VECTORS, input: 'a', ...request }));
    equal([error.code, error.param], [code, param], JSON.stringify(request).slice(0, 80));
  };
  await failing('invalid_parameter', openai.BadRequestError, 'input', { input: '' });
  await failing('invalid_parameter', openai.BadRequestError, 'input', { input: Array(2049).fill('x') });
  await failing('invalid_parameter', openai.BadRequestError, 'input[1]', { input: ['a', ''] });
  await failing('parameter_out_of_range', openai.UnprocessableEntityError, 'dimensions', { dimensions: 1537 });
  await failing('unsupported_endpoint', openai.BadRequestError, 'model', { model: MODEL });
  await failing('model_not_found', openai.NotFoundError, 'model', { model: 'sim/none' });
  await failing('rate_limit_exceeded', openai.RateLimitError, null, { input: '[[sim error=rate_limit_exceeded]]' });
  await failing('overloaded', openai.InternalServerError, null, { input: '[[sim error=overloaded]]' });
});
