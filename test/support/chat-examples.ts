/** Example values for each chat setting: values that the schema accepts and nodes may receive, and values that it refuses. */
import type { chatFields } from '../../schemas/api/chat-fields.ts';

export const chatExamples: Readonly<Record<keyof typeof chatFields, readonly unknown[]>> = {
  temperature: [0, 0.5, 2],
  top_p: [0, 0.5, 1],
  frequency_penalty: [-2, 0, 0.5],
  presence_penalty: [-0.5, 0, 2],
  stop: ['END', ['a', 'b', 'c', 'd']],
  seed: [42, -1],
  n: [2, 128],
  logprobs: [true, false],
  top_logprobs: [0],
  logit_bias: [{ '12': -100, '13': 100 }],
  response_format: [
    { type: 'text' },
    { type: 'json_object' },
    { type: 'json_schema', json_schema: { name: 'o', schema: { type: 'object' }, strict: true } },
  ],
  reasoning_effort: ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'],
};

export const chatRefused: Readonly<Record<keyof typeof chatFields, readonly [unknown, ...unknown[]]>> = {
  temperature: [-0.1, 2.1, '1'],
  top_p: [-0.1, 1.1],
  frequency_penalty: [-3, 3],
  presence_penalty: [-3, 3],
  stop: [['a', 'b', 'c', 'd', 'e'], '', ['']],
  seed: [0.5],
  n: [0, 129],
  logprobs: [1],
  top_logprobs: [-1, 21],
  logit_bias: [{ the: 1 }, { '1': 101 }],
  response_format: [{ type: 'grammar' }, { type: 'json_schema' }],
  reasoning_effort: ['ultra'],
};
