// Voice sessions and live transcription over WebSocket. Each case runs with both transports of the
// client: the `ws` package with the key in a header, and the platform's WebSocket with the key in a
// subprotocol. Both dial TLS only.

import { BROKE_KEY, KEY, LIVE, MODEL, TLS_URL, VOICE, check, equal, load, raises, test } from '../harness/harness.mjs';
import { client, openai } from './client.mjs';

const { OpenAIRealtimeWS } = load('openai/realtime/ws');
const { OpenAIRealtimeWebSocket } = load('openai/realtime/websocket');
const { OpenAIRealtimeWS: BetaWS } = load('openai/beta/realtime/ws');
const { OpenAIRealtimeWebSocket: BetaWebSocket } = load('openai/beta/realtime/websocket');

const NEEDS = ['voice', 'gateway', '/v1/realtime', 'TLS_URL'];
// The simulator's models understand speech.
const HEARS = [...NEEDS, 'simulator'];
const SAID = 'Good morning, harbour.';
// 24,000 samples a second, two bytes each.
const BYTES_PER_SECOND = 48_000;
const SILENCE = Buffer.alloc(BYTES_PER_SECOND);
const VAD = { type: 'server_vad', silence_duration_ms: 400 };
const WEATHER = {
  type: 'function',
  name: 'weather',
  description: 'The weather of a city.',
  parameters: { type: 'object', properties: { city: { type: 'string' } } },
};

const tlsClient = (apiKey = KEY) => client({ baseURL: TLS_URL, apiKey });

/** Events of a session in the order of their arrival. Audio is collected separately. */
class Heard {
  types = [];
  audio = Buffer.alloc(0);
  transcript = '';
  inputTranscript = '';

  add(event) {
    if (/^response\.(output_)?audio\.delta$/.test(event.type)) {
      this.audio = Buffer.concat([this.audio, Buffer.from(event.delta, 'base64')]);
    }
    if (/^response\.(output_)?audio_transcript\.delta$/.test(event.type)) this.transcript += event.delta;
    if (event.type === 'conversation.item.input_audio_transcription.delta') this.inputTranscript += event.delta;
    if (this.types.at(-1) !== event.type) this.types.push(event.type);
  }
}

/** A connection whose events can be awaited. */
class Session {
  #events = [];
  #wake = () => {};

  constructor(connection) {
    this.connection = connection;
    connection.on('event', (event) => this.#add(event));
    // Errors of the server arrive as events, too.
    connection.on('error', ({ error, message }) => {
      if (!error) this.#add({ type: 'failed', message });
    });
  }

  #add(event) {
    this.#events.push(event);
    this.#wake();
  }

  async next() {
    while (this.#events.length === 0) await new Promise((resolve) => (this.#wake = resolve));
    return this.#events.shift();
  }

  /** Returns the first event of this type. Fails at an error. */
  async until(type, heard = new Heard()) {
    for (;;) {
      const event = await this.next();
      if (event.type === type) {
        heard.add(event);
        return event;
      }
      check(!['error', 'failed'].includes(event.type), `event: ${JSON.stringify(event)}`);
      heard.add(event);
    }
  }

  /** Returns the error of the first error event. */
  async error() {
    for (;;) {
      const event = await this.next();
      check(event.type !== 'failed', `the connection failed: ${event.message}`);
      if (event.type === 'error') return event.error;
    }
  }

  send(type, members = {}) {
    this.connection.send({ type, ...members });
  }

  append(audio) {
    for (let start = 0; start < audio.length; start += 4800) {
      this.send('input_audio_buffer.append', { audio: audio.subarray(start, start + 4800).toString('base64') });
    }
  }

  update(session) {
    this.send('session.update', { session: { type: 'realtime', ...session } });
  }

  /** Closes the connection, and checks that the server answers the closing handshake. */
  async close() {
    const { socket } = this.connection;
    const closed = new Promise((resolve) => socket.addEventListener('close', resolve));
    this.connection.close();
    equal((await closed).code, 1000, 'code of the close');
  }

  /** Adds a message of the user, and starts a response. */
  write(text) {
    const item = { type: 'message', role: 'user', content: [{ type: 'input_text', text }] };
    this.send('conversation.item.create', { item });
    this.send('response.create');
  }
}

async function open(Kind, props = { model: VOICE }, calls = tlsClient()) {
  const connection = new Kind(props, calls);
  const session = new Session(connection);
  const created = await session.until('session.created');
  return { session, created };
}

/** Registers a case that runs with each class. */
function each(name, run, needs = NEEDS, kinds = [OpenAIRealtimeWS, OpenAIRealtimeWebSocket]) {
  test(`realtime ${name}`, needs, async () => {
    for (const Kind of kinds) {
      try {
        await run(Kind);
      } catch (error) {
        error.message = `${Kind.name}: ${error.message}`;
        throw error;
      }
    }
  });
}

async function speech(input = SAID) {
  const request = { model: 'sim/speech', voice: 'alloy', input, response_format: 'pcm' };
  return Buffer.from(await (await client().audio.speech.create(request)).arrayBuffer());
}

function checkPaid(response) {
  check(response.usage.total_tokens > 0, 'usage.total_tokens');
  check(Number(response.usage.cost) > 0, 'usage.cost');
  check(response.request_id.startsWith('req_'), 'request_id');
}

/** Checks a completed response that says this text. */
function checkSpoken({ response }, heard, text) {
  equal(response.status, 'completed', 'status');
  equal(response.output.at(-1).content[0].transcript, text, 'transcript of the item');
  equal(heard.transcript, text, 'transcript of the deltas');
  check(heard.audio.length > 0.3 * BYTES_PER_SECOND, `${heard.audio.length} bytes of audio`);
  check(response.usage.output_token_details.audio_tokens > 0, 'audio tokens');
  checkPaid(response);
}

each('text', async (Kind) => {
  const { session, created } = await open(Kind);
  equal([created.session.type, created.session.model], ['realtime', VOICE], 'session');
  let heard = new Heard();
  session.write(SAID);
  checkSpoken(await session.until('response.done', heard), heard, SAID);
  const order = [
    'conversation.item.added',
    'conversation.item.done',
    'response.created',
    'rate_limits.updated',
    'response.output_item.added',
    'conversation.item.added',
    'response.content_part.added',
    'response.output_audio_transcript.delta',
    'response.output_audio.delta',
    'response.output_audio.done',
    'response.output_audio_transcript.done',
    'response.content_part.done',
    'conversation.item.done',
    'response.output_item.done',
    'response.done',
  ];
  equal(heard.types, order, 'events');

  session.update({ output_modalities: ['text'] });
  equal((await session.until('session.updated')).session.output_modalities, ['text'], 'output_modalities');
  heard = new Heard();
  session.write('And in writing?');
  const { response } = await session.until('response.done', heard);
  equal(response.output[0].content[0].text, 'And in writing?', 'text');
  check(heard.types.includes('response.output_text.delta'), 'there is no delta of text');
  equal(heard.audio.length, 0, 'audio of a text response');
  checkPaid(response);
  await session.close();
});

each('audio turn', async (Kind) => {
  const { session } = await open(Kind);
  const heard = new Heard();
  session.append(await speech());
  session.send('input_audio_buffer.commit');
  session.send('response.create');
  const { transcript } = await session.until('conversation.item.input_audio_transcription.completed', heard);
  equal(transcript, SAID, 'transcript of the audio');
  const done = await session.until('response.done', heard);
  checkSpoken(done, heard, SAID);
  check(done.response.usage.input_token_details.audio_tokens > 5, 'audio tokens of the input');
  await session.close();
}, HEARS);

each('server_vad', async (Kind) => {
  const { session } = await open(Kind);
  session.update({ audio: { input: { turn_detection: VAD } } });
  for (const text of [SAID, 'How is the weather today?']) {
    const heard = new Heard();
    session.append(Buffer.concat([await speech(text), SILENCE]));
    const { transcript } = await session.until('conversation.item.input_audio_transcription.completed', heard);
    equal(transcript, text, 'transcript of the audio');
    checkSpoken(await session.until('response.done', heard), heard, text);
    const turn = ['speech_started', 'speech_stopped', 'committed'].map((type) => `input_audio_buffer.${type}`);
    equal(heard.types.filter((type) => turn.includes(type)), turn, 'events of the turn');
  }
  await session.close();
}, HEARS);

each('interruption', async (Kind) => {
  const text = Array.from({ length: 59 }, (_, index) => `number ${index + 1},`).join(' ');
  const { session } = await open(Kind);
  session.update({ audio: { input: { turn_detection: VAD } } });
  session.write(text);
  const { item_id } = await session.until('response.output_audio.delta');
  session.append(await speech());
  let heard = new Heard();
  const { response } = await session.until('response.done', heard);
  equal([response.status, response.status_details.reason], ['cancelled', 'turn_detected'], 'status');
  check(heard.types.includes('input_audio_buffer.speech_started'), 'there is no speech_started');
  checkPaid(response);

  session.send('conversation.item.truncate', { item_id, content_index: 0, audio_end_ms: 1500 });
  equal((await session.until('conversation.item.truncated')).audio_end_ms, 1500, 'audio_end_ms');
  session.send('conversation.item.retrieve', { item_id });
  const { item } = await session.until('conversation.item.retrieved');
  const kept = item.content[0].transcript;
  check(text.startsWith(kept) && kept.length > 0 && kept.length < 60, `transcript ${kept}`);

  // The turn that interrupted the response is answered.
  session.append(SILENCE);
  heard = new Heard();
  checkSpoken(await session.until('response.done', heard), heard, SAID);
  await session.close();
}, HEARS);

each('tools', async (Kind) => {
  const { session } = await open(Kind);
  session.update({ tools: [WEATHER], tool_choice: 'auto' });
  session.write('[[sim tool=weather:{"city":"Paris"}]] How is the weather?');
  let heard = new Heard();
  const { arguments: input, call_id } = await session.until('response.function_call_arguments.done', heard);
  equal(JSON.parse(input), { city: 'Paris' }, 'arguments');
  const [call] = (await session.until('response.done', heard)).response.output;
  equal([call.type, call.name, call.call_id], ['function_call', 'weather', call_id], 'call');
  check(heard.types.includes('response.function_call_arguments.delta'), 'there is no delta of the arguments');

  const item = { type: 'function_call_output', call_id, output: 'It rains.' };
  session.send('conversation.item.create', { item });
  session.send('response.create');
  heard = new Heard();
  const { response } = await session.until('response.done', heard);
  equal(response.status, 'completed', 'status');
  check(response.output[0].content[0].transcript, 'there is no answer');
  check(heard.audio.length > 0, 'there is no audio');
  await session.close();
});

each('transcription', async (Kind) => {
  const text = 'Good morning, harbour. How are you today?';
  const { session, created } = await open(Kind, { intent: 'transcription' });
  const { type, audio } = created.session;
  equal([type, audio.input.transcription.model], ['transcription', 'sim/transcribe'], 'session');
  let heard = new Heard();
  const sound = await speech(text);
  session.append(sound);
  session.send('input_audio_buffer.commit');
  const done = await session.until('conversation.item.input_audio_transcription.completed', heard);
  equal([done.transcript, done.usage.type], [text, 'duration'], 'transcript and type of usage');
  check(Math.abs(done.usage.seconds - sound.length / BYTES_PER_SECOND) < 0.01, `${done.usage.seconds} seconds`);
  check(Number(done.usage.cost) > 0, 'usage.cost');
  check(heard.types.includes('input_audio_buffer.committed'), 'there is no committed');

  session.update({ type: 'transcription', audio: { input: { turn_detection: VAD } } });
  heard = new Heard();
  session.append(Buffer.concat([await speech(), SILENCE]));
  const { transcript } = await session.until('conversation.item.input_audio_transcription.completed', heard);
  equal([transcript, heard.inputTranscript], [SAID, SAID], 'transcript and deltas of a turn');
  await session.close();
}, HEARS);

each('live transcription', async (Kind) => {
  const { session } = await open(Kind, { model: LIVE });
  const sound = await speech('Good morning, harbour. How are you today? '.repeat(3));
  session.append(sound);
  // There is text before the end of the turn.
  const { item_id, delta } = await session.until('conversation.item.input_audio_transcription.delta');
  session.send('input_audio_buffer.commit');
  const done = await session.until('conversation.item.input_audio_transcription.completed');
  equal(done.item_id, item_id, 'item');
  check(done.transcript.startsWith(delta.trim()), done.transcript);
  check(Math.abs(done.usage.seconds - sound.length / BYTES_PER_SECOND) < 0.01, `${done.usage.seconds} seconds`);
  check(Number(done.usage.cost) > 0, 'usage.cost');
  await session.close();
});

each('events of errors', async (Kind) => {
  const { session } = await open(Kind);
  session.send('input_audio_buffer.commit', { event_id: 'mine' });
  let error = await session.error();
  equal([error.code, error.event_id], ['input_audio_buffer_commit_empty', 'mine'], 'error');
  equal(error.type, 'invalid_request_error', 'type');
  const changed = { type: 'realtime', audio: { output: { speed: 9 } } };
  session.send('session.update', { session: changed, event_id: 'other' });
  error = await session.error();
  const expected = ['invalid_parameter', 'session.audio.output.speed', 'other'];
  equal([error.code, error.param, error.event_id], expected, 'error');
  session.write(SAID);
  equal((await session.until('response.done')).response.status, 'completed', 'status after errors');
  await session.close();
});

each('client secret', async (Kind) => {
  const session = { type: 'realtime', model: VOICE, instructions: 'Be kind.' };
  const expires_after = { anchor: 'created_at', seconds: 60 };
  const secret = await client().realtime.clientSecrets.create({ session, expires_after });
  check(secret.value.startsWith('ek_') && secret.expires_at > Date.now() / 1000, JSON.stringify(secret));
  equal(secret.session.model, VOICE, 'model');
  const holder = tlsClient(secret.value);
  const { session: talk, created } = await open(Kind, { model: VOICE }, holder);
  equal(created.session.instructions, 'Be kind.', 'instructions');
  const heard = new Heard();
  talk.write(SAID);
  checkSpoken(await talk.until('response.done', heard), heard, SAID);
  await talk.close();
  await raises(openai.AuthenticationError, () => client({ apiKey: secret.value }).models.list());
});

test('realtime refused', [...HEARS, 'BROKE_KEY'], async () => {
  const failing = async (status, code, param, props, key = KEY) => {
    const { socket } = new OpenAIRealtimeWS(props, tlsClient(key));
    const response = await new Promise((resolve) => socket.on('unexpected-response', (_, answer) => resolve(answer)));
    const { error } = JSON.parse((await response.toArray()).join(''));
    equal([response.statusCode, error.code, error.param], [status, code, param], 'error');
    check(response.headers['x-request-id'], 'there is no x-request-id');
  };
  await failing(401, 'invalid_api_key', null, { model: VOICE }, 'sk-none');
  await failing(404, 'model_not_found', 'model', { model: 'sim/none' });
  await failing(400, 'unsupported_endpoint', 'model', { model: MODEL });
  await failing(400, 'unsupported_parameter', 'call_id', { callID: 'rtc_1' });

  // A session without credits opens, and its responses fail.
  const { session } = await open(OpenAIRealtimeWebSocket, { model: VOICE }, tlsClient(BROKE_KEY));
  session.write(SAID);
  equal((await session.error()).code, 'insufficient_credits', 'code');
  await session.close();
});

const beta = async (Kind) => {
  const heard = new Heard();
  const { session, created } = await open(Kind);
  equal([created.session.model, created.session.input_audio_format], [VOICE, 'pcm16'], 'session');
  const changes = { modalities: ['text', 'audio'], tools: [WEATHER], turn_detection: null };
  session.send('session.update', { session: changes });
  const updated = await session.until('session.updated', heard);
  equal(updated.session.modalities.toSorted(), ['audio', 'text'], 'modalities');
  session.append(await speech());
  session.send('input_audio_buffer.commit');
  session.send('response.create');
  checkSpoken(await session.until('response.done', heard), heard, SAID);
  for (const type of ['conversation.item.created', 'response.audio.delta', 'response.audio_transcript.delta']) {
    check(heard.types.includes(type), `there is no ${type}`);
  }
  equal(heard.types.filter((type) => type.includes('output_audio.')), [], 'events of the current dialect');
  await session.close();
};
each('beta', beta, HEARS, [BetaWS, BetaWebSocket]);
