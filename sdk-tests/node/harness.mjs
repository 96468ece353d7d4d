// What every case needs: the settings, a client, checks, and a runner that prints one JSON line for each case.
// The settings are those of ../python/harness.py; SDK_NODE_ROOT is the folder where the client is installed.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isDeepStrictEqual } from 'node:util';

const root = process.env.SDK_NODE_ROOT;
const require = createRequire(`${root}/`);
export const openai = require('openai');
export const { LengthFinishReasonError } = require('openai/error');
const { version } = JSON.parse(readFileSync(`${root}/node_modules/openai/package.json`, 'utf8'));

export const BASE_URL = process.env.SDK_BASE_URL;
export const KEY = process.env.SDK_KEY;
export const MODEL = process.env.SDK_MODEL;
export const BROKE_KEY = process.env.SDK_BROKE_KEY ?? '';
export const LIMITED_KEY = process.env.SDK_LIMITED_KEY ?? '';
export const BROKEN_STREAM = process.env.SDK_BROKEN_STREAM ?? '[[sim tokens=20 cut=5]]';

const ABILITIES = new Set((process.env.SDK_ABILITIES ?? '').split(',').filter(Boolean));
if (BROKE_KEY) ABILITIES.add('BROKE_KEY');
if (LIMITED_KEY) ABILITIES.add('LIMITED_KEY');

const CLIENT = `openai-node ${version}`;
const CASE_SECONDS = 90;
const CASES = [];

/** Registers a case. `needs` names abilities, or settings that must not be empty. */
export function test(name, needs, run) {
  CASES.push({ name, needs, run });
}

export function client(settings = {}) {
  return new openai.OpenAI({ baseURL: BASE_URL, apiKey: KEY, maxRetries: 0, timeout: 60_000, ...settings });
}

export function user(text) {
  return [{ role: 'user', content: text }];
}

export function check(condition, message) {
  if (!condition) throw new Error(message);
}

export function equal(actual, expected, what) {
  const show = JSON.stringify;
  check(isDeepStrictEqual(actual, expected), `${what}: ${show(actual)}, expected ${show(expected)}`);
}

/** The error that the call throws, which must be of this class. */
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

/** Runs the cases whose name has the pattern in it; the result is the number of failures. */
export async function run(pattern) {
  let failures = 0;
  for (const { name, needs, run } of CASES.filter(({ name }) => name.includes(pattern))) {
    const lacking = needs.filter((need) => !ABILITIES.has(need));
    if (lacking.length > 0) {
      report(name, 'skip', `needs ${lacking.join(', ')}`);
      continue;
    }
    let timer;
    const hang = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no end after ${CASE_SECONDS} s`)), CASE_SECONDS * 1000);
    });
    try {
      await Promise.race([run(), hang]);
      report(name, 'pass', '');
    } catch (error) {
      failures += 1;
      const where = /\/([\w.]+\.mjs:\d+)/.exec((error.stack ?? '').replace(/.*harness\.mjs.*/g, ''))?.[1] ?? '';
      report(name, 'fail', `${error.constructor.name}: ${error.message} (${where})`);
      if (process.env.SDK_TRACE) console.error(error);
    } finally {
      clearTimeout(timer);
    }
  }
  return failures;
}

function report(name, result, detail) {
  console.log(JSON.stringify({ client: CLIENT, case: name, result, detail }));
  if (result === 'fail') console.error(`${CLIENT}: ${name}: ${detail}`);
}
