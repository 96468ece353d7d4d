// Common code of all cases: settings, checks, and a runner that prints one JSON line for each case.
// harness.py documents the settings; SDK_NODE_ROOT is the folder of the installed clients.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isDeepStrictEqual } from 'node:util';

const root = process.env.SDK_NODE_ROOT;
/** Loads an installed client. */
export const load = createRequire(`${root}/`);

export const BASE_URL = process.env.SDK_BASE_URL;
/** Base URL without the version, which clients other than OpenAI's add themselves. */
export const ROOT_URL = BASE_URL.replace(/\/v1$/, '');
export const KEY = process.env.SDK_KEY;
export const MODEL = process.env.SDK_MODEL;
export const VECTORS = process.env.SDK_EMBEDDINGS_MODEL ?? 'sim/embeddings';
// The models of voice sessions and of live transcription.
export const VOICE = process.env.SDK_VOICE_MODEL ?? 'sim/voice';
export const LIVE = process.env.SDK_LIVE_MODEL ?? 'sim/transcribe';
export const BROKE_KEY = process.env.SDK_BROKE_KEY ?? '';
export const LIMITED_KEY = process.env.SDK_LIMITED_KEY ?? '';
/** Base URL over TLS, for clients that refuse WebSockets without it. */
export const TLS_URL = process.env.SDK_TLS_URL ?? '';
export const BROKEN_STREAM = process.env.SDK_BROKEN_STREAM ?? '[[sim tokens=20 cut=5]]';
/** A PNG image of one pixel, as base64. */
export const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=';

const ABILITIES = (process.env.SDK_ABILITIES ?? '').split(',').filter(Boolean);
if (BROKE_KEY) ABILITIES.push('BROKE_KEY');
if (LIMITED_KEY) ABILITIES.push('LIMITED_KEY');
if (TLS_URL) ABILITIES.push('TLS_URL');

const CASE_SECONDS = 90;
const CASES = [];

/**
 * Registers a case. `needs` names abilities, non-empty settings, or paths of the server's OpenAPI document, with {} for
 * path parameters.
 */
export function test(name, needs, run) {
  CASES.push({ name, needs, run });
}

export function check(condition, message) {
  if (!condition) throw new Error(message);
}

export function equal(actual, expected, what) {
  const show = JSON.stringify;
  check(isDeepStrictEqual(actual, expected), `${what}: ${show(actual)}, expected ${show(expected)}`);
}

/** Returns the error that the call throws. Fails unless it is of this class. */
export async function raises(kind, call) {
  try {
    await call();
  } catch (error) {
    if (error instanceof kind) return error;
    throw error;
  }
  throw new Error(`nothing was thrown, expected ${kind.name}`);
}

export async function collect(iterable) {
  const items = [];
  for await (const item of iterable) items.push(item);
  return items;
}

/** Returns the version of an installed package. */
export function versionOf(name) {
  return JSON.parse(readFileSync(`${root}/node_modules/${name}/package.json`, 'utf8')).version;
}

/** Returns the paths of the server's OpenAPI document, with {} for path parameters; none if it has no document. */
async function servedPaths() {
  try {
    const document = await (await fetch(`${ROOT_URL}/openapi.json`)).json();
    return Object.keys(document.paths).map((path) => path.replace(/{[^}]*}/g, '{}'));
  } catch {
    return [];
  }
}

/** Runs the cases whose name contains the pattern (the only argument), and exits the process. */
export async function main(client, version) {
  const pattern = process.argv[2] ?? '';
  const there = new Set([...ABILITIES, ...(await servedPaths())]);
  let failures = 0;
  for (const { name, needs, run } of CASES.filter(({ name }) => name.includes(pattern))) {
    const lacking = needs.filter((need) => !there.has(need));
    let [result, detail] = ['pass', ''];
    if (lacking.length > 0) {
      [result, detail] = ['skip', `the server lacks ${lacking.join(', ')}`];
    } else {
      const error = await failure(run);
      if (error) {
        failures += 1;
        [result, detail] = ['fail', `${error.constructor.name}: ${error.message} (${place(error)})`];
        console.error(`${client} ${version}: ${name}: ${detail}`);
        if (process.env.SDK_TRACE) console.error(error);
      }
    }
    console.log(JSON.stringify({ client: `${client} ${version}`, case: name, result, detail }));
  }
  // Open connections of a case must not keep the process alive.
  process.exit(failures > 0 ? 1 : 0);
}

/** Returns the error that a case throws, or a timeout error if it hangs. */
async function failure(run) {
  let timer;
  const hang = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end after ${CASE_SECONDS} s`)), CASE_SECONDS * 1000);
  });
  try {
    await Promise.race([run(), hang]);
  } catch (error) {
    return error;
  } finally {
    clearTimeout(timer);
  }
}

/** Returns the file and line of the case in the error's stack. */
function place(error) {
  const frames = (error.stack ?? '').split('\n').filter((line) => !/harness\.mjs|node_modules/.test(line));
  return /\/([\w.]+\.mjs:\d+)/.exec(frames.join('\n'))?.[1] ?? '';
}
