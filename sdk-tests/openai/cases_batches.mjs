// Batches: create from a file, wait for the results, list and cancel.

import { MODEL, check, equal, raises, test } from '../harness/harness.mjs';
import { client, openai } from './client.mjs';

const CHAT = '/v1/chat/completions';

async function batch(texts, more = {}) {
  const lines = texts.map((text, number) =>
    JSON.stringify({
      custom_id: `r${number}`,
      method: 'POST',
      url: CHAT,
      body: { model: MODEL, max_tokens: 50, messages: [{ role: 'user', content: text }], ...more },
    }),
  );
  const file = await client().files.create({
    file: await openai.toFile(Buffer.from(lines.join('\n')), 'input.jsonl'),
    purpose: 'batch',
  });
  return client().batches.create({
    input_file_id: file.id,
    endpoint: CHAT,
    completion_window: '24h',
    metadata: { a: 'b' },
  });
}

async function ended(batch) {
  const running = ['validating', 'in_progress', 'finalizing', 'cancelling'];
  for (let now = batch; ; now = await client().batches.retrieve(batch.id)) {
    if (!running.includes(now.status)) return now;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

const text = async (id) => (await client().files.content(id)).text();
const parsed = (content) => content.trimEnd().split('\n').map((line) => JSON.parse(line));

test('batches', ['scripted', 'gateway', '/v1/batches'], async () => {
  const done = await ended(await batch(['hello', 'goodbye', '[[sim error=upstream_error]]']));
  equal([done.status, done.object, done.metadata], ['completed', 'batch', { a: 'b' }], 'batch');
  const { total, completed, failed } = done.request_counts;
  equal([total, completed, failed], [3, 2, 1], 'counts');
  check(done.usage.total_tokens > 0 && done.completed_at >= done.created_at, 'usage and times');
  const lines = parsed(await text(done.output_file_id));
  const said = lines.map((line) => `${line.custom_id} ${line.response.body.choices[0].message.content}`);
  equal(said.sort(), ['r0 hello', 'r1 goodbye'], 'answers');
  const [error] = parsed(await text(done.error_file_id));
  equal(error.response.status_code, 502, 'what has failed');
  const [newest] = (await client().batches.list({ limit: 1 })).data;
  equal(newest.id, done.id, 'the newest');
  const late = await raises(openai.ConflictError, () => client().batches.cancel(done.id));
  equal(late.param, 'batch_id', 'too late to cancel');
});

test('batches with faults', ['gateway', '/v1/batches'], async () => {
  const failed = await ended(await batch(['hello'], { stream: true }));
  equal([failed.status, failed.errors.data[0].line], ['failed', 1], 'status and line');
  await raises(openai.NotFoundError, () => client().batches.retrieve('batch_none'));
});
