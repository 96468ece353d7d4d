// The official OpenAI client, configured for the server under test.

import { BASE_URL, KEY, load } from '../harness/harness.mjs';

export const openai = load('openai');
export const { LengthFinishReasonError } = load('openai/error');

export function client(settings = {}) {
  return new openai.OpenAI({ baseURL: BASE_URL, apiKey: KEY, maxRetries: 0, timeout: 60_000, ...settings });
}

export function user(text) {
  return [{ role: 'user', content: text }];
}
