// Research: reports as chat completions and as responses.

import { check, collect, equal, test } from '../harness/harness.mjs';
import { client } from './client.mjs';

const MODEL = 'sim/research';
const PATH = '/v1/research';
const QUESTION = 'How many passengers did Orsel Lines carry in 2019?';
const ANSWER = '912,600';
const MINIMAL = { reasoning: { effort: 'minimal' } };

const chat = (members = {}) =>
  client().chat.completions.create({
    model: MODEL,
    messages: [{ role: 'user', content: QUESTION }],
    reasoning_effort: 'minimal',
    ...members,
  });

const ask = (members = {}) => client().responses.create({ model: MODEL, input: QUESTION, ...MINIMAL, ...members });

/** Checks that the annotations of a report cover its citation marks. */
function checkResponse(response) {
  equal([response.status, response.error], ['completed', null], 'response');
  const searches = response.output.slice(0, -1);
  const message = response.output.at(-1);
  check(searches.length > 0 && message.type === 'message', `output is ${JSON.stringify(response.output)}`);
  for (const search of searches) {
    equal([search.type, search.status, search.action.type], ['web_search_call', 'completed', 'search'], 'search');
    equal(search.action.queries, [search.action.query], 'queries');
    check(search.action.sources[0].url, 'there are no sources');
  }
  const report = [...response.output_text];
  const { annotations } = message.content[0];
  check(response.output_text.includes(ANSWER) && annotations.length > 0, `the report is ${response.output_text}`);
  for (const annotation of annotations) {
    equal(annotation.type, 'url_citation', 'type');
    const mark = report.slice(annotation.start_index, annotation.end_index).join('');
    check(/^\[\d+\]$/.test(mark), `${mark} is no mark`);
    check(annotation.url && annotation.title, JSON.stringify(annotation));
  }
  equal(annotations.length, report.filter((character) => character === '[').length, 'marks');
  check(response.usage.output_tokens > 0, `usage is ${JSON.stringify(response.usage)}`);
}

test('research as a chat completion', [PATH, 'simulator'], async () => {
  const completion = await chat({ max_completion_tokens: 2000 });
  const [choice] = completion.choices;
  equal([completion.object, choice.finish_reason], ['chat.completion', 'stop'], 'completion');
  check(choice.message.content.includes(ANSWER), `the report is ${choice.message.content}`);
  const report = [...choice.message.content];
  for (const { url_citation: citation } of choice.message.annotations) {
    const mark = report.slice(citation.start_index, citation.end_index).join('');
    equal(citation.url, completion.citations[Number(mark.slice(1, -1)) - 1], 'url');
  }
  check(completion.search_results[0].title, 'search_results');
  check(completion.usage.completion_tokens > 0, `usage is ${JSON.stringify(completion.usage)}`);
  check(completion.usage.num_search_queries > 0, `usage is ${JSON.stringify(completion.usage)}`);
});

test('research as a streamed chat completion', [PATH, 'simulator'], async () => {
  const chunks = await collect(await chat({ stream: true, stream_options: { include_usage: true } }));
  const usage = chunks.pop();
  equal(usage.choices, [], 'choices of the usage');
  check(usage.usage.completion_tokens > 0, `usage is ${JSON.stringify(usage.usage)}`);
  const joined = (name) => chunks.map((chunk) => chunk.choices[0].delta[name] ?? '').join('');
  const [steps, report] = [joined('reasoning_content'), joined('content')];
  check(steps.includes('Searched for') && report.includes(ANSWER), `${steps} ${report}`);
  const last = chunks.at(-1);
  equal([last.choices[0].finish_reason, last.status], ['stop', 'COMPLETED'], 'last chunk');
  check(last.citations.length > 0 && last.search_results.length > 0, `the last chunk is ${JSON.stringify(last)}`);
});

test('research as a response', [PATH, 'simulator'], async () => {
  checkResponse(await ask({ tools: [{ type: 'web_search_preview' }], max_tool_calls: 6 }));
});

test('research as a background response', [PATH, 'simulator'], async () => {
  let created = await ask({ background: true });
  equal(created.background, true, 'background');
  const end = Date.now() + 60_000;
  while (['queued', 'in_progress'].includes(created.status) && Date.now() < end) {
    await new Promise((done) => setTimeout(done, 100));
    created = await client().responses.retrieve(created.id);
  }
  checkResponse(created);
  const events = await collect(await client().responses.retrieve(created.id, { stream: true, starting_after: 2 }));
  equal(events.map((event) => event.sequence_number), events.map((_, at) => at + 3), 'sequence numbers');
  equal(events.at(-1).response.output, created.output, 'output of the last event');
});

test('research as a streamed response', [PATH, 'simulator'], async () => {
  const stream = client().responses.stream({ model: MODEL, input: QUESTION, ...MINIMAL });
  const kinds = (await collect(stream)).map((event) => event.type);
  checkResponse(await stream.finalResponse());
  for (const kind of ['web_search_call.completed', 'output_text.delta', 'output_text.annotation.added', 'completed']) {
    check(kinds.includes(`response.${kind}`), `${kind} in ${kinds}`);
  }
});

test('research cancelled', [PATH, 'simulator', 'scripted'], async () => {
  const calls = client();
  const input = `[[sim delay=1000]] ${QUESTION}`;
  const created = await calls.responses.create({ model: MODEL, input, background: true, ...MINIMAL });
  equal((await calls.responses.cancel(created.id)).status, 'cancelled', 'status');
});
