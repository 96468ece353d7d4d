// Timeouts, streams that the caller leaves, and concurrent calls: the client must stay usable.

import { BROKE_KEY, MODEL, check, collect, equal, raises, test } from '../harness/harness.mjs';
import { client, openai, user } from './client.mjs';

const SLOW_STREAM = '[[sim tokens=200 pace=20]]';

async function shortAnswer(calls) {
  const completion = await calls.chat.completions.create({ model: MODEL, messages: user('Hi.') });
  check(completion.choices[0].message.content, 'there is no content');
}

const slowStream = (calls, options) =>
  calls.chat.completions.create({ model: MODEL, messages: user(SLOW_STREAM), stream: true }, options);

test('cancel a stream', ['scripted'], async () => {
  const calls = client();
  for (let round = 0; round < 5; round += 1) {
    let count = 0;
    for await (const _chunk of await slowStream(calls)) {
      count += 1;
      if (count === 3) break;
    }
    await shortAnswer(calls);
  }
});

test('cancel an async stream', ['scripted'], async () => {
  const calls = client();
  await Promise.all(
    Array.from({ length: 10 }, async () => {
      const controller = new AbortController();
      const stream = await slowStream(calls, { signal: controller.signal });
      for await (const _chunk of stream) controller.abort();
    }),
  );
  await shortAnswer(calls);
});

test('20 async streams', [], async () => {
  const calls = client();
  const ids = await Promise.all(
    Array.from({ length: 20 }, async (_, number) => {
      const chunks = await collect(
        await calls.chat.completions.create({
          model: MODEL,
          messages: user(`[[sim pace=5]] Say number ${number}.`),
          stream: true,
          stream_options: { include_usage: true },
        }),
      );
      const choices = chunks.flatMap((chunk) => chunk.choices);
      check(choices.some((choice) => choice.delta.content), `stream ${number} is empty`);
      check(choices.some((choice) => choice.finish_reason), `stream ${number} has no end`);
      check(chunks.at(-1).usage, `stream ${number} has no usage`);
      return chunks[0].id;
    }),
  );
  equal(new Set(ids).size, 20, 'different ids');
});

test('20 async calls', [], async () => {
  const calls = client();
  await Promise.all(Array.from({ length: 20 }, () => shortAnswer(calls)));
});

test('time-out', ['scripted'], async () => {
  const calls = client({ timeout: 500 });
  for (const parameters of [{}, { stream: true }]) {
    await raises(openai.APIConnectionTimeoutError, () =>
      calls.chat.completions.create({ model: MODEL, messages: user('[[sim delay=5000]]'), ...parameters }),
    );
  }
  await shortAnswer(calls.withOptions({ timeout: 60_000 }));
});

test('retries after a time-out', ['scripted'], async () => {
  const calls = client({ timeout: 500, maxRetries: 1 });
  await raises(openai.APIConnectionTimeoutError, () =>
    calls.chat.completions.create({ model: MODEL, messages: user('[[sim delay=5000]]') }),
  );
  await shortAnswer(client({ maxRetries: 2 }));
});

test('no retry of what cannot help', ['BROKE_KEY'], async () => {
  // The server's response says that a retry is useless, so the client must give up after one
  // attempt.
  let tries = 0;
  const counting = (url, init) => {
    tries += 1;
    return fetch(url, init);
  };
  await raises(openai.APIError, () => shortAnswer(client({ apiKey: BROKE_KEY, maxRetries: 5, fetch: counting })));
  equal(tries, 1, 'tries');
});
