// The audio of the voice mode, without a browser: rates, levels and the playback. TypeScript compiles
// the modules first.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { runInNewContext } from "node:vm";

const WEB = fileURLToPath(new URL("..", import.meta.url));
const SOURCES = ["voice-pcm.ts", "voice-worklet.ts"].map((name) => join(WEB, "src/screens/playground", name));

let folder;
let pcm;
let worklet;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "tollgate-voice-"));
  const compiler = join(WEB, "node_modules/.bin/tsc");
  const options = ["--ignoreConfig", "--module", "esnext", "--target", "es2023", "--outDir", folder];
  for (const source of SOURCES) execFileSync(compiler, [source, ...options]);
  await rename(join(folder, "voice-pcm.js"), join(folder, "voice-pcm.mjs"));
  pcm = await import(pathToFileURL(join(folder, "voice-pcm.mjs")));
  worklet = await readFile(join(folder, "voice-worklet.js"), "utf8");
});
after(() => rm(folder, { recursive: true, force: true }));

function tone(frequency, rate, seconds, amplitude = 0.5) {
  return Float32Array.from({ length: Math.round(rate * seconds) }, (_, at) => amplitude * Math.sin((2 * Math.PI * frequency * at) / rate));
}

/** Resamples in blocks of changing sizes, as a microphone delivers them. */
function resample(samples, from, to) {
  const resampler = new pcm.Resampler(from, to);
  const parts = [];
  for (let at = 0, size = 1; at < samples.length; at += size, size = (size * 7 + 3) % 1920) {
    parts.push(...resampler.push(samples.subarray(at, at + size)));
  }
  return Float32Array.from(parts);
}

for (const rate of [8_000, 16_000, 44_100, 48_000, 96_000]) {
  test(`speech of ${rate} Hz keeps its shape at 24 kHz`, () => {
    const output = resample(tone(440, rate, 1), rate, pcm.RATE);
    // The filter withholds its reach, which is less than 10 ms.
    assert.ok(output.length <= pcm.RATE && output.length > pcm.RATE * 0.99, `${output.length} samples`);
    const expected = tone(440, pcm.RATE, 1);
    const worst = output.subarray(480, output.length - 480).reduce((most, sample, at) => Math.max(most, Math.abs(sample - expected[at + 480])), 0);
    assert.ok(worst < 0.002, `differs by ${worst}`);
  });
}

test("frequencies that 24 kHz cannot represent are removed, not mirrored", () => {
  const output = resample(tone(15_000, 48_000, 1), 48_000, pcm.RATE);
  const level = pcm.levelOf(output.subarray(480, output.length - 480));
  assert.ok(pcm.decibels(level) < -55, `${pcm.decibels(level)} dB`);
});

test("the size of the blocks does not change the result", () => {
  const input = tone(1_000, 44_100, 0.5);
  const whole = new pcm.Resampler(44_100, pcm.RATE).push(input);
  const parts = resample(input, 44_100, pcm.RATE);
  assert.equal(parts.length, whole.length);
  const worst = parts.reduce((most, sample, at) => Math.max(most, Math.abs(sample - whole[at])), 0);
  assert.ok(worst < 1e-6, `differs by ${worst}`);
  assert.equal(new pcm.Resampler(24_000, 24_000).push(input), input);
});

test("PCM in base64 is little-endian, and values beyond the range are cut", () => {
  const text = pcm.toBase64(Float32Array.of(0, 1, -1, 2, -2, 0.5));
  const bytes = Buffer.from(text, "base64");
  assert.deepEqual([...bytes], [0, 0, 255, 127, 1, 128, 255, 127, 1, 128, 0, 64]);
  assert.deepEqual([...pcm.fromBase64(text)].map((sample) => Math.round(sample * 1000)), [0, 1000, -1000, 1000, -1000, 500]);
  const long = tone(300, 24_000, 2);
  const back = pcm.fromBase64(pcm.toBase64(long));
  assert.equal(back.length, long.length);
  assert.ok(back.every((sample, at) => Math.abs(sample - long[at]) < 1 / 30_000));
});

test("levels are in decibels of full scale", () => {
  assert.equal(pcm.levelOf(new Float32Array(100)), 0);
  assert.equal(pcm.decibels(0), pcm.SILENCE_DB);
  assert.equal(pcm.decibels(1), 0);
  assert.equal(Math.round(pcm.decibels(pcm.levelOf(tone(440, 24_000, 1, 1)))), -3);
  assert.deepEqual([0, 1e-9, 0.1, 1, 4].map((level) => Math.round(pcm.height(level) * 100)), [0, 0, 67, 100, 100]);
  assert.equal(pcm.milliseconds(24_000), 1000);
});

/** Runs a processor of the worklet. `posted` has its messages. */
function processor(name, sampleRate = 24_000) {
  const registered = new Map();
  const posted = [];
  class AudioWorkletProcessor {
    port = { postMessage: (message) => posted.push(message), onmessage: null };
  }
  runInNewContext(worklet, {
    AudioWorkletProcessor,
    Float32Array,
    registerProcessor: (name, processor) => registered.set(name, processor),
    sampleRate,
  });
  const one = new (registered.get(name))();
  return {
    posted,
    send: (data) => one.port.onmessage({ data }),
    /** Returns the samples of a number of frames. */
    pull(frames) {
      const samples = [];
      for (let frame = 0; frame < frames; frame += 1) {
        const output = new Float32Array(128);
        assert.equal(one.process([], [[output]]), true);
        samples.push(...output);
      }
      return samples;
    },
    push: (samples) => one.process([[samples]], []),
  };
}

const play = (id, values) => ({ kind: "play", id, samples: Float32Array.from(values) });

test("chunks are played without gaps, also over the borders of frames and items", () => {
  const { send, pull, posted } = processor("playback");
  const ramp = Array.from({ length: 1000 }, (_, at) => at);
  for (let at = 0; at < 600; at += 50) send(play("a", ramp.slice(at, at + 50)));
  send(play("b", ramp.slice(600)));
  assert.deepEqual(pull(8), [...ramp, ...Array(24).fill(0)]);
  const last = posted.at(-1);
  assert.deepEqual([last.id, last.played, last.isDrained], ["b", 400, true]);
  // Audio that arrives late continues where the playback has stopped.
  pull(3);
  send(play("b", [1, 2, 3]));
  assert.deepEqual(pull(1).slice(0, 4), [1, 2, 3, 0]);
  assert.deepEqual([posted.at(-1).played, posted.at(-1).isDrained], [403, true]);
});

test("an interruption drops everything, and reports how much was played", () => {
  const { send, pull, posted } = processor("playback");
  send(play("a", Array(300).fill(0.5)));
  send(play("b", Array(200).fill(0.5)));
  pull(1);
  posted.length = 0;
  send({ kind: "clear" });
  assert.deepEqual(JSON.parse(JSON.stringify(posted)), [
    {
      kind: "cleared",
      items: [
        { id: "a", played: 128, received: 300 },
        { id: "b", played: 0, received: 200 },
      ],
    },
  ]);
  // The audio fades within a frame, so that it does not click.
  const [fading, silent] = [pull(1), pull(1)];
  assert.equal(fading[0], 0.5);
  assert.ok(fading.every((sample, at) => at === 0 || sample < fading[at - 1]));
  assert.ok(silent.every((sample) => sample === 0));
  posted.length = 0;
  send({ kind: "clear" });
  assert.equal(posted[0].items.length, 0);
  send(play("c", [0.25]));
  assert.deepEqual(pull(1).slice(0, 2), [0.25, 0]);
});

test("the level of the playback is reported while it lasts", () => {
  const { send, pull, posted } = processor("playback");
  pull(20);
  assert.deepEqual(posted, []);
  send(play("a", Array(2048).fill(0.5)));
  pull(40);
  assert.deepEqual(posted.map(({ played, isDrained }) => [played, isDrained]), [
    [1024, false],
    [2048, true],
  ]);
  assert.ok(posted.every(({ level }) => Math.abs(level - 0.5) < 1e-6));
});

test("the microphone is captured in whole blocks of about 40 ms", () => {
  for (const [rate, size] of [
    [24_000, 1024],
    [48_000, 1920],
    [44_100, 1792],
  ]) {
    const { push, posted } = processor("capture", rate);
    for (let frame = 0; frame < 40; frame += 1) push(Float32Array.from({ length: 128 }, (_, at) => frame * 128 + at));
    assert.equal(posted.length, Math.floor(5120 / size));
    assert.deepEqual(posted.flatMap((block) => [...block]), Array.from({ length: posted.length * size }, (_, at) => at));
  }
});
