// Voice sessions of OpenAI Agents for JavaScript over WebSocket, with the settings that the SDK
// sends by default.

import { BASE_URL, KEY, check, equal, load, test } from '../harness/harness.mjs';

const { OpenAIRealtimeWebSocket, RealtimeAgent, RealtimeSession, tool } = load('@openai/agents/realtime');
const { z } = load('zod');

const NEEDS = ['simulator', '/v1/realtime'];
const VOICE = 'sim/voice';
const SAID = 'Good morning, harbour.';
// 24,000 samples a second, two bytes each.
const BYTES_PER_SECOND = 48_000;

/** A connected session whose events are collected up to the end of each response. */
class Talk {
  #events = [];
  #wake = () => {};

  static async open(settings = {}) {
    const talk = new Talk();
    const transport = new OpenAIRealtimeWebSocket({ url: `${BASE_URL.replace('http', 'ws')}/realtime?model=${VOICE}` });
    const agent = new RealtimeAgent({ name: 'tester', ...settings });
    talk.session = new RealtimeSession(agent, { transport, model: VOICE, tracingDisabled: true });
    talk.session.on('audio', ({ data }) => talk.#add({ type: 'audio', audio: Buffer.from(data) }));
    talk.session.on('audio_interrupted', () => talk.#add({ type: 'audio_interrupted' }));
    talk.session.on('error', (event) => talk.#add({ type: 'failed', error: event.error }));
    talk.session.on('transport_event', (event) => talk.#add(event));
    await talk.session.connect({ apiKey: KEY });
    return talk;
  }

  #add(event) {
    this.#events.push(event);
    this.#wake();
  }

  /** Returns audio, transcript and types of the events up to the first one of this type. Fails at an error. */
  async until(type) {
    const turn = { audio: Buffer.alloc(0), said: '', types: [] };
    for (;;) {
      while (this.#events.length === 0) await new Promise((resolve) => (this.#wake = resolve));
      const event = this.#events.shift();
      check(!['failed', 'error'].includes(event.type), `event: ${JSON.stringify(event)}`);
      turn.types.push(event.type);
      if (event.type === 'audio') turn.audio = Buffer.concat([turn.audio, event.audio]);
      if (event.type === 'response.output_audio_transcript.delta') turn.said += event.delta;
      if (event.type === type) return { ...turn, event };
    }
  }

  sendAudio(audio) {
    for (let start = 0; start < audio.length; start += 4800) {
      const { buffer, byteOffset } = audio;
      this.session.sendAudio(buffer.slice(byteOffset + start, byteOffset + Math.min(start + 4800, audio.length)));
    }
  }
}

async function speech(input) {
  const response = await fetch(`${BASE_URL}/audio/speech`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sim/speech', voice: 'alloy', input, response_format: 'pcm' }),
  });
  return Buffer.from(await response.arrayBuffer());
}

function checkSpoken({ event, said, audio }, text) {
  equal([event.response.status, said], ['completed', text], 'status and transcript');
  check(audio.length > 0.3 * BYTES_PER_SECOND, `${audio.length} bytes of audio`);
  check(Number(event.response.usage.cost) > 0, 'usage.cost');
}

test('realtime text', NEEDS, async () => {
  const talk = await Talk.open({ instructions: 'Be kind.' });
  talk.session.sendMessage(SAID);
  checkSpoken(await talk.until('response.done'), SAID);
  const { outputTokens } = talk.session.usage;
  check(outputTokens > 0, `usage of the session: ${outputTokens}`);
  talk.session.close();
});

test('realtime tools', NEEDS, async () => {
  const asked = [];
  const weather = tool({
    name: 'weather',
    description: 'The weather of a city.',
    parameters: z.object({ city: z.string() }),
    execute: async ({ city }) => {
      asked.push(city);
      return `rain in ${city}`;
    },
  });
  const talk = await Talk.open({ tools: [weather] });
  talk.session.sendMessage('[[sim tool=weather:{"city":"Paris"}]]');
  await talk.until('response.done');
  const answer = await talk.until('response.done');
  equal(asked, ['Paris'], 'calls');
  check(answer.said && answer.audio.length > 0, 'no answer after the call');
  talk.session.close();
});

test('realtime turns', NEEDS, async () => {
  const talk = await Talk.open();
  talk.sendAudio(Buffer.concat([await speech(SAID), Buffer.alloc(5 * BYTES_PER_SECOND)]));
  checkSpoken(await talk.until('response.done'), SAID);
  const [{ content }] = talk.session.history;
  equal(content[0].transcript, SAID, 'transcript in the history');
  talk.session.close();
});

test('realtime interruption', NEEDS, async () => {
  const talk = await Talk.open();
  talk.session.sendMessage(Array.from({ length: 59 }, (_, index) => `number ${index + 1},`).join(' '));
  await talk.until('audio');
  talk.sendAudio(await speech(SAID));
  const { types, event } = await talk.until('response.done');
  check(types.includes('audio_interrupted'), `events ${types}`);
  equal(event.response.status, 'cancelled', 'status');
  // Silence ends the turn that interrupted the response.
  talk.sendAudio(Buffer.alloc(5 * BYTES_PER_SECOND));
  checkSpoken(await talk.until('response.done'), SAID);
  talk.session.close();
});
