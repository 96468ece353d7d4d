// Errors: each has the expected class and code, so that programs can handle it.

import { BROKEN_STREAM, BROKE_KEY, KEY, LIMITED_KEY, MODEL, check, equal, raises, test } from '../harness/harness.mjs';
import { client, openai, user } from './client.mjs';

// Error codes for the simulator, with the expected status and class.
const CONTRACT = [
  ['invalid_json', 400, openai.BadRequestError],
  ['missing_required_parameter', 400, openai.BadRequestError],
  ['invalid_parameter', 400, openai.BadRequestError],
  ['unsupported_parameter', 400, openai.BadRequestError],
  ['content_policy_violation', 400, openai.BadRequestError],
  ['context_length_exceeded', 400, openai.BadRequestError],
  ['invalid_api_key', 401, openai.AuthenticationError],
  ['insufficient_credits', 402, openai.APIError],
  ['permission_denied', 403, openai.PermissionDeniedError],
  ['model_not_found', 404, openai.NotFoundError],
  ['conflict', 409, openai.ConflictError],
  ['parameter_out_of_range', 422, openai.UnprocessableEntityError],
  ['rate_limit_exceeded', 429, openai.RateLimitError],
  ['internal_error', 500, openai.InternalServerError],
  ['upstream_error', 502, openai.InternalServerError],
  ['model_unavailable', 503, openai.InternalServerError],
  ['overloaded', 503, openai.InternalServerError],
  ['upstream_timeout', 504, openai.InternalServerError],
];

const ask = (text = 'Hi.', parameters = {}, apiKey = KEY) =>
  client({ apiKey }).chat.completions.create({ model: MODEL, messages: user(text), ...parameters });

function checkError(error, status, code, param = null) {
  equal([error.status, error.code, error.param], [status, code, param], 'status, code, param');
  check(error.requestID, 'there is no request id');
  check(typeof error.type === 'string' && error.message, 'type and message');
}

test('error wrong key', ['gateway'], async () => {
  for (const key of ['sk-service-wrong', 'nonsense']) {
    checkError(await raises(openai.AuthenticationError, () => ask('Hi.', {}, key)), 401, 'invalid_api_key');
  }
  await raises(openai.AuthenticationError, () => client({ apiKey: 'sk-service-wrong' }).models.list());
});

test('error unknown model', ['gateway'], async () => {
  const model = 'nobody/knows-this';
  const error = await raises(openai.NotFoundError, () => ask('Hi.', { model }));
  equal([error.status, error.code], [404, 'model_not_found'], 'status and code');
  await raises(openai.NotFoundError, () => ask('Hi.', { model, stream: true }));
  equal((await raises(openai.NotFoundError, () => client().models.retrieve(model))).code, 'model_not_found', 'code');
});

test('error parameters', ['gateway'], async () => {
  const cases = [
    [{ temperature: 9 }, 'invalid_parameter', 'temperature'],
    [{ top_p: -1 }, 'invalid_parameter', 'top_p'],
    [{ n: 0 }, 'invalid_parameter', 'n'],
    [{ messages: [] }, 'invalid_parameter', 'messages'],
    [{ no_such_field: 1 }, 'unknown_parameter', 'no_such_field'],
  ];
  for (const [parameters, code, param] of cases) {
    checkError(await raises(openai.BadRequestError, () => ask('Hi.', parameters)), 400, code, param);
    const streamed = { stream: true, ...parameters };
    checkError(await raises(openai.BadRequestError, () => ask('Hi.', streamed)), 400, code, param);
  }
});

test('error contract codes', ['simulator'], async () => {
  for (const [code, status, kind] of CONTRACT) {
    for (const parameters of [{}, { stream: true }]) {
      const error = await raises(kind, () => ask(`[[sim error=${code}]]`, parameters));
      equal([error.status, error.code], [status, code], 'status and code');
    }
  }
});

test('error rate limit', ['simulator'], async () => {
  const error = await raises(openai.RateLimitError, () => ask('[[sim error=rate_limit_exceeded]]'));
  equal([error.status, error.code], [429, 'rate_limit_exceeded'], 'status and code');
});

test('error rate limit of an account', ['LIMITED_KEY'], async () => {
  const error = await raises(openai.RateLimitError, async () => {
    // The account's limit is two requests a minute.
    for (let count = 0; count < 3; count += 1) await ask('Hi.', {}, LIMITED_KEY);
  });
  checkError(error, 429, 'rate_limit_exceeded');
  check(Number(error.headers.get('retry-after')) >= 1, 'retry-after');
  check(Number(error.headers.get('retry-after-ms')) >= 1, 'retry-after-ms');
  equal(error.headers.get('x-ratelimit-remaining-requests'), '0', 'x-ratelimit-remaining-requests');
});

test('error no credits', ['BROKE_KEY'], async () => {
  for (const parameters of [{}, { stream: true }]) {
    const error = await raises(openai.APIError, () => ask('Hi.', parameters, BROKE_KEY));
    checkError(error, 402, 'insufficient_credits');
    equal(error.headers.get('x-should-retry'), 'false', 'x-should-retry');
  }
});

test('error in a stream', ['scripted'], async () => {
  const seen = [];
  const error = await raises(openai.APIError, async () => {
    for await (const chunk of await ask(BROKEN_STREAM, { stream: true })) seen.push(chunk);
  });
  const choices = seen.flatMap((chunk) => chunk.choices);
  check(choices.some((choice) => choice.delta.content), 'no content came before the error');
  check(!choices.some((choice) => choice.finish_reason), 'a finish reason came');
  check(error.code && error.type, `code ${error.code}, type ${error.type}`);
});

test('error names no provider', ['scripted'], async () => {
  const error = await raises(openai.InternalServerError, () => ask('[[sim error=upstream_error]]'));
  const words = ['openai.com', 'anthropic', '127.0.0.1', 'traceback', 'panicked'];
  check(!words.some((word) => error.message.toLowerCase().includes(word)), error.message);
});
