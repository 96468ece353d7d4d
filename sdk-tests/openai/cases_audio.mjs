// Speech and transcripts. The transcript of generated speech must match its text.

import { MODEL, check, equal, raises, test } from '../harness/harness.mjs';
import { client, openai } from './client.mjs';

const NEEDS = ['simulator', 'gateway'];
const SPEECH = 'sim/speech';
const TRANSCRIBE = 'sim/transcribe';
const SAID = 'Good morning, harbour. How are you today?';

const speak = (parameters = {}) =>
  client().audio.speech.create({ model: SPEECH, voice: 'alloy', input: SAID, ...parameters });

const bytesOf = async (response) => Buffer.from(await response.arrayBuffer());

async function recording(name = 'said.mp3') {
  const sound = await bytesOf(await speak({ response_format: name.split('.').pop() }));
  return openai.toFile(sound, name);
}

test('speech', NEEDS, async () => {
  const cases = [
    ['mp3', 'ID3'],
    ['wav', 'RIFF'],
    ['flac', 'fLaC'],
    ['opus', 'OggS'],
    ['aac', 'ID3'],
  ];
  for (const [response_format, begins] of cases) {
    const parameters = { voice: 'nova', input: 'Hello', response_format, speed: 1.5, instructions: 'Softly.' };
    const response = await speak(parameters);
    const sound = await bytesOf(response);
    equal(sound.subarray(0, begins.length).toString('latin1'), begins, response_format);
    equal(response.headers.get('x-tollgate-cost'), '0.000075', 'cost');
  }
});

test('speech streamed', NEEDS, async () => {
  const response = await speak({ input: `${SAID} [[sim pace=1]]` });
  equal(response.headers.get('content-type'), 'audio/mpeg', 'content-type');
  const pieces = [];
  for await (const piece of response.body) pieces.push(Buffer.from(piece));
  const whole = await bytesOf(await speak());
  check(Buffer.concat(pieces).equals(whole), 'the sound');
});

test('speech cut', NEEDS, async () => {
  await raises(Error, async () => bytesOf(await speak({ input: `${SAID} [[sim cut=1]]` })));
});

test('transcription', NEEDS, async () => {
  for (const name of ['said.mp3', 'said.wav', 'said.flac']) {
    const answer = await client().audio.transcriptions.create({ model: TRANSCRIBE, file: await recording(name) });
    equal(answer.text, SAID, name);
    equal(answer.usage.type, 'duration', 'usage.type');
    check(answer.usage.seconds > 1, 'usage.seconds');
    check(Number(answer.usage.cost) > 0, 'usage.cost');
  }
});

test('transcription formats', NEEDS, async () => {
  const ask = async (response_format, parameters = {}) =>
    client().audio.transcriptions.create({ model: TRANSCRIBE, file: await recording(), response_format, ...parameters });
  equal(await ask('text'), `${SAID}\n`, 'text');
  check((await ask('srt')).startsWith('1\n00:00:00,000 --> '), 'srt');
  check((await ask('vtt')).startsWith('WEBVTT\n\n00:00:00.000 --> '), 'vtt');
  const parameters = { language: 'en', temperature: 0.5, timestamp_granularities: ['segment', 'word'] };
  const verbose = await ask('verbose_json', parameters);
  const texts = verbose.segments.map((segment) => segment.text);
  equal(texts, ['Good morning, harbour.', 'How are you today?'], 'segments');
  equal(verbose.words.map((word) => word.word).join(' '), SAID, 'words');
  check(Math.abs(verbose.segments.at(-1).end - Number(verbose.duration)) < 0.01, 'it ends with the sound');
});

test('audio errors', NEEDS, async () => {
  const failing = async (code, kind, param, call) => {
    const error = await raises(kind, call);
    equal([error.code, error.param ?? null], [code, param], code);
  };
  await failing('invalid_parameter', openai.BadRequestError, 'input', () => speak({ input: 'x'.repeat(4097) }));
  await failing('invalid_parameter', openai.BadRequestError, 'speed', () => speak({ speed: 5 }));
  await failing('unsupported_endpoint', openai.BadRequestError, 'model', () => speak({ model: MODEL }));
  const overloaded = () => speak({ input: '[[sim error=overloaded]] Hello' });
  await failing('overloaded', openai.InternalServerError, null, overloaded);

  const hear = async (parameters = {}) => {
    const file = await openai.toFile(Buffer.from('no recording'), 'a.wav');
    return client().audio.transcriptions.create({ model: TRANSCRIBE, file, ...parameters });
  };
  await failing('invalid_parameter', openai.BadRequestError, 'file', hear);
  await failing('invalid_parameter', openai.BadRequestError, 'temperature', () => hear({ temperature: 2 }));
  await failing('unsupported_parameter', openai.BadRequestError, 'stream', () => hear({ stream: true }));
  await failing('model_not_found', openai.NotFoundError, 'model', () => hear({ model: 'sim/none' }));
});
