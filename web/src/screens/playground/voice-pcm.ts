// Samples of audio: their rate, their 16-bit form in base64, and their level.

/** Samples per second of the audio in realtime sessions. */
export const RATE = 24_000;

/** Zero crossings of the filter on each side. */
const CROSSINGS = 16;

/** Points of the filter's table between two zero crossings. */
const POINTS = 256;

/** Share of the lower half of the spectrum that passes the filter. */
const PASS = 0.94;

/** Values of a sinc function under a Blackman window, from its centre to its end. */
const FILTER = Float64Array.from({ length: CROSSINGS * POINTS + 2 }, (_, at) => {
  const x = at / POINTS;
  if (x >= CROSSINGS) return 0;
  const sinc = x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
  const phase = (Math.PI * x) / CROSSINGS;
  return sinc * (0.42 + 0.5 * Math.cos(phase) + 0.08 * Math.cos(2 * phase));
});

function filterAt(x: number): number {
  const place = Math.abs(x) * POINTS;
  const at = Math.floor(place);
  const left = FILTER[at] ?? 0;
  return left + ((FILTER[at + 1] ?? 0) - left) * (place - at);
}

/** Changes the rate of a stream of samples. Removes frequencies that the new rate cannot represent. */
export class Resampler {
  readonly #step: number;
  readonly #cutoff: number;
  readonly #reach: number;
  /** Input samples that later output samples need. */
  #pending: Float32Array;
  /** Place of the next output sample in the pending samples. */
  #place: number;

  constructor(from: number, to: number) {
    this.#step = from / to;
    this.#cutoff = Math.min(1, to / from) * (from === to ? 1 : PASS);
    this.#reach = Math.ceil(CROSSINGS / this.#cutoff);
    this.#pending = new Float32Array(this.#reach);
    this.#place = this.#reach;
  }

  /** Returns the output samples that the input completes. */
  push(samples: Float32Array): Float32Array {
    if (this.#step === 1) return samples;
    const input = new Float32Array(this.#pending.length + samples.length);
    input.set(this.#pending);
    input.set(samples, this.#pending.length);
    const end = input.length - this.#reach;
    const output = new Float32Array(Math.max(0, Math.ceil((end - this.#place) / this.#step)));
    for (let at = 0; at < output.length; at += 1) {
      output[at] = this.#sampleAt(input, this.#place + at * this.#step);
    }
    const next = this.#place + output.length * this.#step;
    const start = Math.max(0, Math.floor(next) - this.#reach);
    this.#pending = input.slice(start);
    this.#place = next - start;
    return output;
  }

  #sampleAt(input: Float32Array, place: number): number {
    let sum = 0;
    const last = Math.floor(place) + this.#reach;
    for (let at = Math.floor(place) - this.#reach + 1; at <= last; at += 1) {
      sum += (input[at] ?? 0) * filterAt((at - place) * this.#cutoff);
    }
    return sum * this.#cutoff;
  }
}

const FULL_SCALE = 32_767;

/** Bytes that become one argument list. */
const SLICE = 8192;

/** Returns samples as 16-bit little-endian PCM in base64. */
export function toBase64(samples: Float32Array): string {
  const view = new DataView(new ArrayBuffer(samples.length * 2));
  samples.forEach((sample, at) => {
    view.setInt16(at * 2, Math.round(Math.min(Math.max(sample, -1), 1) * FULL_SCALE), true);
  });
  const bytes = new Uint8Array(view.buffer);
  let text = "";
  for (let at = 0; at < bytes.length; at += SLICE) text += String.fromCharCode(...bytes.subarray(at, at + SLICE));
  return btoa(text);
}

/** Returns the samples of 16-bit little-endian PCM in base64. */
export function fromBase64(text: string): Float32Array<ArrayBuffer> {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length >> 1 }, (_, at) => view.getInt16(at * 2, true) / FULL_SCALE);
}

/** Returns the root mean square of samples, from 0 to 1. */
export function levelOf(samples: Float32Array): number {
  const energy = samples.reduce((sum, sample) => sum + sample * sample, 0);
  return Math.sqrt(energy / Math.max(samples.length, 1));
}

/** Level of silence, in decibels of full scale. */
export const SILENCE_DB = -60;

/** Returns a level in decibels of full scale, at least that of silence. */
export function decibels(level: number): number {
  return level > 0 ? Math.max(20 * Math.log10(level), SILENCE_DB) : SILENCE_DB;
}

/** Returns the height of a level in a meter, from 0 for silence to 1. */
export function height(level: number): number {
  return Math.min(1 - decibels(level) / SILENCE_DB, 1);
}

/** Returns the milliseconds of a number of samples. */
export function milliseconds(samples: number): number {
  return Math.round((samples * 1000) / RATE);
}
