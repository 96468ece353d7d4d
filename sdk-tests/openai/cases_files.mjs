// Files: upload, list, download, use in a request and delete.

import { check, equal, raises, test } from '../harness/harness.mjs';
import { client, openai } from './client.mjs';

const NEEDS = ['gateway', '/v1/files'];

async function upload({ name = 'notes.txt', content = 'plain words', purpose = 'user_data', ...more } = {}) {
  const file = await openai.toFile(Buffer.from(content), name);
  return client().files.create({ file, purpose, ...more });
}

test('files', NEEDS, async () => {
  const file = await upload({ expires_after: { anchor: 'created_at', seconds: 3600 } });
  equal([file.object, file.filename, file.bytes, file.purpose], ['file', 'notes.txt', 11, 'user_data'], 'file');
  equal([file.status, file.expires_at - file.created_at], ['processed', 3600], 'status and end');
  equal(await client().files.retrieve(file.id), file, 'retrieved');
  equal(await (await client().files.content(file.id)).text(), 'plain words', 'content');
  equal((await client().files.waitForProcessing(file.id)).id, file.id, 'processed');
  const gone = await client().files.delete(file.id);
  equal([gone.id, gone.object, gone.deleted], [file.id, 'file', true], 'deleted');
  await raises(openai.NotFoundError, () => client().files.retrieve(file.id));
});

test('files list', NEEDS, async () => {
  const ids = [];
  for (let number = 0; number < 3; number += 1) {
    ids.push((await upload({ name: `${number}.jsonl`, content: '{}\n', purpose: 'batch' })).id);
  }
  const newest = [];
  for await (const file of client().files.list({ purpose: 'batch', limit: 2 })) {
    newest.push(file.id);
    if (newest.length === 3) break;
  }
  equal(newest, [...ids].reverse(), 'newest first, over two pages');
  const oldest = await client().files.list({ purpose: 'batch', order: 'asc', after: ids[1] });
  equal(oldest.data.map((file) => file.id), ids.slice(2), 'the oldest first, behind one');
  for (const id of ids) await client().files.delete(id);
});

test('files errors', NEEDS, async () => {
  const empty = await raises(openai.BadRequestError, () => upload({ content: '' }));
  equal([empty.code, empty.param], ['invalid_parameter', 'file'], 'an empty file');
  const unknown = await raises(openai.BadRequestError, () => upload({ purpose: 'fun' }));
  equal(unknown.param, 'purpose', 'an unknown purpose');
  const missing = await raises(openai.NotFoundError, () => client().files.content('file-none'));
  check(missing.requestID?.startsWith('req_'), 'request id');
});
