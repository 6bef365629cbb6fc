/** Definitions of the events of stacks, the pool and nodes. */
import {
  type EventFieldTexts,
  event,
  fieldText,
  phrase,
  type SampleDraw,
  toFieldTexts,
} from './event-definition.ts';

function describePlace({ place }: EventFieldTexts): string {
  const { kind, id } = toFieldTexts(place);
  if (kind === 'pool') return 'in the pool';
  if (typeof id !== 'string') return '';
  return kind === 'stack' ? `in ${id}` : `for ${id}`;
}

function samplePlace(draw: SampleDraw) {
  const kind = draw.oneOf(['pool', 'stack', 'organisation'] as const);
  if (kind === 'stack') return { kind, id: draw.name('stack') };
  return kind === 'organisation' ? { kind, id: draw.name('organisation') } : { kind };
}

const surfaces = ['openai', 'anthropic'] as const;

export const capacityEvents = {
  'stack.created': event({
    data: ({ stackId, id, surface }) => ({ id: stackId, organisation: id, surface }),
    sentence: (of) => ['created the stack', fieldText(of, 'id'), phrase(of, 'for', 'organisation')],
    sample: (draw) => ({
      id: draw.name('stack'),
      organisation: draw.name('organisation'),
      surface: draw.oneOf(surfaces),
    }),
  }),
  'stack.surface_set': event({
    data: ({ stackId, surface }) => ({ id: stackId, surface }),
    sentence: (of) => ['switched the stack', fieldText(of, 'id'), phrase(of, 'to', 'surface')],
    sample: (draw) => ({ id: draw.name('stack'), surface: draw.oneOf(surfaces) }),
  }),
  'stack.removed': event({
    data: ({ stackId }) => ({ id: stackId }),
    sentence: (of) => ['removed the stack', fieldText(of, 'id')],
    sample: (draw) => ({ id: draw.name('stack') }),
  }),
  'stack.model_installed': event({
    data: ({ stackId, modelId }) => ({ stack: stackId, model: modelId }),
    sentence: (of) => ['installed', fieldText(of, 'model'), phrase(of, 'on', 'stack')],
    sample: (draw) => ({ stack: draw.name('stack'), model: draw.name('model') }),
  }),
  'stack.model_uninstalled': event({
    data: ({ stackId, modelId }) => ({ stack: stackId, model: modelId }),
    sentence: (of) => ['uninstalled', fieldText(of, 'model'), phrase(of, 'from', 'stack')],
    sample: (draw) => ({ stack: draw.name('stack'), model: draw.name('model') }),
  }),
  'pool.model_installed': event({
    data: ({ modelId }) => ({ model: modelId }),
    sentence: (of) => ['installed', fieldText(of, 'model'), 'on the pool'],
    sample: (draw) => ({ model: draw.name('model') }),
  }),
  'pool.model_uninstalled': event({
    data: ({ modelId }) => ({ model: modelId }),
    sentence: (of) => ['uninstalled', fieldText(of, 'model'), 'from the pool'],
    sample: (draw) => ({ model: draw.name('model') }),
  }),
  'node.registered': event({
    data: ({ z, id, place, url, dialect, credential, modelId, served }) => ({
      id,
      place,
      url,
      dialect,
      /** Name by which gateways look up the node's credential in their own environment. */
      credential: credential.optional(),
      /** Maps catalog ids to the engine's names for the models. Contains only models whose two names differ. */
      models: z.record(modelId, served).optional(),
      /** If true, an agent reports the node's health. If false, the control plane that owns the node probes it. */
      agent: z.boolean(),
    }),
    sentence: (of) => ['registered the node', fieldText(of, 'id'), describePlace(of)],
    sample: (draw) => {
      const id = draw.name('node');
      const names = draw.chance(0.3) ? { models: { 'echo-large': 'engine-name' } } : {};
      const url = `http://127.0.0.1:${9000 + draw.upTo(9)}`;
      const dialect = 'vllm' as const;
      return { id, place: samplePlace(draw), url, dialect, ...names, agent: draw.chance(0.5) };
    },
  }),
  'node.drained': event({
    data: ({ id }) => ({ id }),
    sentence: (of) => ['drained the node', fieldText(of, 'id')],
    sample: (draw) => ({ id: draw.name('node') }),
  }),
  'node.undrained': event({
    data: ({ id }) => ({ id }),
    sentence: (of) => ['undrained the node', fieldText(of, 'id')],
    sample: (draw) => ({ id: draw.name('node') }),
  }),
  'node.removed': event({
    data: ({ id }) => ({ id }),
    sentence: (of) => ['removed the node', fieldText(of, 'id')],
    sample: (draw) => ({ id: draw.name('node') }),
  }),
  'node.token_created': event({
    data: ({ id, sha256 }) => ({ id, node: id, hash: sha256 }),
    sentence: (of) => ['created a token for the node', fieldText(of, 'node')],
    sample: (draw) => {
      const id = `token-${draw.upTo(10)}`;
      return { id, node: draw.name('node'), hash: draw.sha256(id) };
    },
  }),
  'node.token_revoked': event({
    data: ({ id }) => ({ id }),
    sentence: (of) => ['revoked the node token', fieldText(of, 'id')],
    sample: (draw) => ({ id: `token-${draw.upTo(10)}` }),
  }),
  'node.joined': event({
    data: ({ z, id, name }) => ({ id, owner: name, generation: z.int().min(1) }),
    sentence: (of) => ['took over the node', fieldText(of, 'id')],
    sample: (draw) => ({ id: draw.name('node'), owner: draw.name('owner'), generation: draw.upTo(4) }),
  }),
  'node.health_changed': event({
    data: ({ z, id, name, served }) => ({
      id,
      owner: name,
      generation: z.int().min(1),
      up: z.boolean(),
      models: z.array(served).max(1000),
      /** Context window of each model in tokens, by the engine's name. Absent for models whose window is not reported. */
      windows: z.record(served, z.int().min(1)).optional(),
      /** Models that are known to accept images, as a subset of `models`. Empty if left out. */
      imageModels: z.array(served).max(1000).optional(),
      /** Models that can only rerank, as a subset of `models`. Empty if left out. */
      rerankModels: z.array(served).max(1000).optional(),
      reason: name.optional(),
    }),
    sentence: (of) => {
      const { up, reason } = of;
      const why = typeof reason === 'string' ? `: ${reason}` : '';
      return up === true
        ? ['put', fieldText(of, 'id'), 'into service']
        : ['took', fieldText(of, 'id'), `out of service${why}`];
    },
    sample: (draw) => ({
      id: draw.name('node'),
      owner: draw.name('owner'),
      generation: draw.upTo(4),
      up: draw.chance(0.8),
      models: [...draw.names('model'), ...(draw.chance(0.5) ? ['engine-name'] : [])],
      windows: { 'echo-small': draw.upTo(8192) },
      imageModels: ['echo-small', 'engine-name'],
    }),
  }),
};
