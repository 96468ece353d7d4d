// Typed decisions.

import { PNG, check, equal, load, raises, test } from '../harness/harness.mjs';
import { client, openai } from './client.mjs';

const DECIDER = 'sim/decide';
const NEEDS = ['simulator', 'gateway', '/v1/decisions'];
const TRUTH =
  '[[decide refund yes=0.9 no=0.1]] [[decide team billing=0.7 tech=0.2 sales=0.1]] ' +
  '[[decide urgent true=0.2 false=0.8]] [[decide level low=0.1 middle=0.2 high=0.7]]';
const REFUND = { type: 'predicate', name: 'refund', instructions: 'Is money asked for?' };
const TEAM = {
  type: 'choice',
  name: 'team',
  instructions: 'Who answers?',
  choices: [{ value: 'billing', description: 'Payments' }, { value: 'tech' }, { value: 'sales' }],
};
const URGENT = { type: 'choice', name: 'urgent', instructions: 'Now?', choices: [{ value: true }, { value: false }] };
const LEVEL = {
  type: 'score',
  name: 'level',
  instructions: 'How bad is it?',
  levels: [{ label: 'low' }, { label: 'middle', description: 'Not nice.' }, { label: 'high' }],
};
const fn = (name, properties) => ({ type: 'function', function: { name, parameters: { type: 'object', properties } } });
const NEXT = {
  type: 'tool',
  name: 'next',
  instructions: 'What now? [[decide next pay=0.8 wait=0.15 none=0.05 duplicate=0.9 other=0.1]]',
  tools: [fn('pay', { reason: { enum: ['duplicate', 'other'] } }), fn('wait', {})],
};

const decide = (questions, more = {}) =>
  client().decisions.create({ model: DECIDER, input: `I was charged twice. ${TRUTH}`, questions, ...more });

const near = (value, truth, what) => check(Math.abs(value - truth) < 1e-6, `${what}: ${value}, expected ${truth}`);

test('decisions', NEEDS, async () => {
  const answer = await decide([REFUND, TEAM, URGENT, LEVEL]);
  equal(answer.model, DECIDER, 'model');
  const [refund, team, urgent, level] = answer.answers;
  equal(answer.answers.map((one) => one.name), ['refund', 'team', 'urgent', 'level'], 'names');
  equal(answer.answers.map((one) => one.type), ['predicate', 'choice', 'choice', 'score'], 'types');
  near(refund.probability, 0.9, 'probability');
  equal([team.choice, team.probabilities.map((one) => one.value)], ['billing', ['billing', 'tech', 'sales']], 'choice');
  near(team.confidence, (0.7 - 1 / 3) / (1 - 1 / 3), 'confidence');
  equal([urgent.choice, urgent.probabilities.map((one) => one.value)], [false, [true, false]], 'choice of yes and no');
  near(level.score, 1.6, 'score');
  const levels = level.probabilities.map((one) => [one.value, one.label]);
  equal(levels, [[0, 'low'], [1, 'middle'], [2, 'high']], 'levels');
  const used = answer.usage;
  check(used.input_tokens > 0 && used.total_tokens === used.input_tokens, `usage is ${JSON.stringify(used)}`);
  equal([used.output_tokens, used.output_tokens_details.reasoning_tokens], [0, 0], 'output');
  check(Number(used.cost) > 0, 'cost');
});

test('decisions of functions', NEEDS, async () => {
  const [answer] = (await decide([NEXT])).answers;
  equal([answer.type, answer.tool, answer.arguments.pay.reason.value], ['tool', 'pay', 'duplicate'], 'function');
});

test('decisions about messages and images', NEEDS, async () => {
  const image = { type: 'input_image', image_url: `data:image/png;base64,${PNG}` };
  const text = { type: 'input_text', text: `See the image. ${TRUTH}` };
  const alone = await decide([REFUND], { input: [{ role: 'user', content: [text] }] });
  const both = await decide([REFUND], { input: [{ role: 'user', content: [text, image] }] });
  near(both.answers[0].probability, 0.9, 'probability');
  check(both.usage.input_tokens > alone.usage.input_tokens, 'the image costs nothing');
});

test('decisions that are refused', NEEDS, async () => {
  const refused = { type: 'predicate', name: 'secret', instructions: '[[decide secret refuse]] Is it?' };
  const failed = { type: 'predicate', instructions: '[[decide * fail=upstream_error]] Is it?' };
  const [first, second, third] = (await decide([REFUND, refused, failed])).answers;
  near(first.probability, 0.9, 'the one that is answered');
  equal([second.type, second.name], ['refusal', 'secret'], 'refusal');
  equal([third.type, third.name], ['refusal', null], 'failure');
});

test('decisions errors', [...NEEDS, 'BROKE_KEY'], async () => {
  const failing = async (code, kind, param, questions, more) => {
    const error = await raises(kind, () => decide(questions, more));
    equal([error.code, error.param], [code, param], code);
  };
  const one = { ...TEAM, choices: [{ value: 'billing' }] };
  const many = [...Array(129).keys()].map((number) => ({ ...REFUND, name: `q${number}` }));
  await failing('invalid_parameter', openai.BadRequestError, 'questions[1].choices', [REFUND, one]);
  await failing('invalid_parameter', openai.BadRequestError, 'questions', many);
  await failing('invalid_parameter', openai.BadRequestError, 'questions[1].name', [REFUND, REFUND]);
  await failing('unsupported_endpoint', openai.BadRequestError, 'model', [REFUND], { model: 'sim/embeddings' });
  await failing('model_not_found', openai.NotFoundError, 'model', [REFUND], { model: 'sim/none' });
  const busy = { input: '[[sim error=rate_limit_exceeded]]' };
  await failing('rate_limit_exceeded', openai.RateLimitError, null, [REFUND], busy);
});

test('decisions that act', NEEDS, async () => {
  const { DecisionsToolRunner } = load('openai/helpers/decisions-tool-runner');
  const done = [];
  const shut = 'The door is shut. [[decide next_action open=0.9 done=0.1]]';
  const runner = new DecisionsToolRunner({
    observe: () => (done.length > 0 ? 'The door is open.' : shut),
    candidates: () => [
      { id: 'done', description: 'The door is open.', done: true },
      ...(done.length > 0 ? [] : [{ id: 'open', description: 'Opens it.', execute: () => void done.push('open') }]),
    ],
  });
  const result = await runner.run(client(), { model: DECIDER, input: 'Open the door.' });
  equal([result.status, done], ['unverified', ['open']], 'run');
});
