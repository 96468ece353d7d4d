// Videos: create in the background, poll, download, list and delete.

import { PNG, check, equal, raises, test } from '../harness/harness.mjs';
import { client, openai } from './client.mjs';

const NEEDS = ['simulator', 'gateway', '/v1/videos'];
const MODEL = 'sim/video';

const videoRequest = (more = {}) => ({
  model: MODEL,
  prompt: 'a fox in the snow',
  seconds: '1',
  size: '320x180',
  ...more,
});

// This client has no polling helper.
async function ended(video) {
  for (let now = video; ; now = await client().videos.retrieve(video.id)) {
    if (now.status === 'completed' || now.status === 'failed') return now;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

async function made(more) {
  const video = await ended(await client().videos.create(videoRequest(more)));
  equal(video.status, 'completed', `status, error ${JSON.stringify(video.error)}`);
  return video;
}

async function content(video, variant) {
  const response = await client().videos.downloadContent(video.id, { variant });
  return Buffer.from(await response.arrayBuffer());
}

test('videos', NEEDS, async () => {
  const video = await made();
  equal([video.object, video.model], ['video', MODEL], 'object and model');
  equal([video.size, video.seconds, video.progress], ['320x180', '1', 100], 'size, seconds, progress');
  equal(video.prompt, 'a fox in the snow', 'prompt');
  check(video.completed_at >= video.created_at, 'completed_at');
  equal(await client().videos.retrieve(video.id), video, 'retrieved');
  equal((await content(video)).subarray(4, 8).toString(), 'ftyp', 'the video');
  for (const variant of ['thumbnail', 'spritesheet']) {
    equal([...(await content(video, variant)).subarray(0, 3)], [0xff, 0xd8, 0xff], variant);
  }
  await client().videos.delete(video.id);
});

test('videos reference', NEEDS, async () => {
  const file = await openai.toFile(Buffer.from(PNG, 'base64'), 'first.png', { type: 'image/png' });
  await made({ input_reference: file });
});

test('videos remix', NEEDS, async () => {
  const video = await made();
  const again = await ended(await client().videos.remix(video.id, { prompt: 'the same in the rain' }));
  equal(again.status, 'completed', 'status');
  equal([again.remixed_from_video_id, again.size], [video.id, video.size], 'what it was made from');
});

test('videos list and delete', NEEDS, async () => {
  const slow = videoRequest({ prompt: '[[sim delay=60000]] a fox' });
  const ids = [];
  for (let count = 0; count < 3; count += 1) ids.push((await client().videos.create(slow)).id);
  const newest = [];
  for await (const video of client().videos.list({ limit: 2 })) {
    newest.push(video.id);
    if (newest.length === 3) break;
  }
  equal(newest, ids.toReversed(), 'newest first, over two pages');
  for (const id of ids) {
    const gone = await client().videos.delete(id);
    equal([gone.id, gone.object, gone.deleted], [id, 'video.deleted', true], 'deleted');
    await raises(openai.NotFoundError, () => client().videos.retrieve(id));
  }
});

test('videos errors', NEEDS, async () => {
  const failed = await ended(await client().videos.create(videoRequest({ prompt: '[[sim refuse]] a fox' })));
  equal([failed.status, failed.error.code], ['failed', 'output_blocked'], 'a blocked video');
  const create = (more) => client().videos.create(videoRequest(more));
  const refused = await raises(openai.UnprocessableEntityError, () => create({ seconds: '7' }));
  equal(refused.param, 'seconds', 'param');
  const unfinished = await create({ prompt: '[[sim delay=60000]] a fox' });
  await raises(openai.ConflictError, () => client().videos.downloadContent(unfinished.id));
  await client().videos.delete(unfinished.id);
});
