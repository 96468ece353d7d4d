// Cases for OpenAI Agents for JavaScript on chat completions and responses: an agent with a tool,
// an image in its result, instructions within the conversation, and structured output. Settings:
// see ../harness/harness.py.

import { BASE_URL, KEY, MODEL, PNG, check, equal, load, main, test, versionOf } from '../harness/harness.mjs';
import './realtime_openai_agents.mjs';

const { Agent, OpenAIProvider, Runner, assistant, setTracingDisabled, system, tool, user } = load('@openai/agents');
const { z } = load('zod');

// With tracing, the SDK would send traces to OpenAI.
setTracingDisabled(true);

const FORMATS = [
  ['chat', '/v1/chat/completions', false],
  ['responses', '/v1/responses', true],
];

const runner = (useResponses) =>
  new Runner({
    modelProvider: new OpenAIProvider({ baseURL: BASE_URL, apiKey: KEY, useResponses }),
    tracingDisabled: true,
  });

const weather = (asked) =>
  tool({
    name: 'weather',
    description: 'The weather of a city.',
    parameters: z.object({ city: z.string() }),
    execute: async ({ city }) => {
      asked.push(city);
      return `rain in ${city}`;
    },
  });

async function run(useResponses, prompt, settings = {}) {
  const agent = new Agent({ name: 'tester', model: MODEL, ...settings });
  return runner(useResponses).run(agent, prompt);
}

for (const [name, path, useResponses] of FORMATS) {
  test(`${name} text`, [path, 'scripted'], async () => {
    const { finalOutput } = await run(useResponses, 'Hello there, gateway');
    check(finalOutput.includes('Hello there, gateway'), `answer is ${finalOutput}`);
  });

  test(`${name} tools`, [path, 'scripted'], async () => {
    const asked = [];
    const prompt = '[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]';
    await run(useResponses, prompt, { tools: [weather(asked)] });
    equal(asked.toSorted(), ['Oslo', 'Paris'], 'calls');
  });

  test(`${name} single_calls`, [path, 'scripted'], async () => {
    const asked = [];
    const prompt = '[[sim tool=weather:{"city":"Paris"}]]';
    await run(useResponses, prompt, { tools: [weather(asked)], modelSettings: { parallelToolCalls: false } });
    equal(asked, ['Paris'], 'calls');
  });

  test(`${name} instructions`, [path, 'scripted'], async () => {
    const turns = [user('One.'), assistant('Two.'), system('Be brief.'), user('Three.')];
    const { finalOutput } = await run(useResponses, turns, { instructions: 'Be kind.' });
    check(finalOutput, 'no answer');
  });

  test(`${name} effort`, [path, 'scripted'], async () => {
    const { finalOutput } = await run(useResponses, 'Think.', { modelSettings: { reasoning: { effort: 'medium' } } });
    check(finalOutput, 'no answer');
  });

  test(`${name} structured`, [path, 'simulator'], async () => {
    const outputType = z.object({ title: z.string(), count: z.number() });
    const { finalOutput } = await run(useResponses, 'A thing.', { outputType });
    equal(Object.keys(finalOutput).toSorted(), ['count', 'title'], 'members');
  });
}

test('responses image', ['/v1/responses', 'scripted'], async () => {
  const screenshot = tool({
    name: 'screenshot',
    description: 'What is on the screen.',
    parameters: z.object({}),
    execute: async () => [
      { type: 'text', text: 'the screen' },
      { type: 'image', image: `data:image/png;base64,${PNG}` },
    ],
  });
  const first = await run(true, '[[sim tool=screenshot:{}]]', { tools: [screenshot] });
  const { finalOutput } = await run(true, [...first.history, user('Go on.')], { tools: [screenshot] });
  check(finalOutput, 'no answer to the next turn');
});

await main('openai-agents-node', versionOf('@openai/agents'));
