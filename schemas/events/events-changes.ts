/**
 * Definitions of events about changes that are released in waves. Readers that do not know these events still agree on the
 * rest of the state.
 */
import { event, fieldText } from './event-definition.ts';
import { tenantEvents } from './events-tenants.ts';

/** Events of staged changes are not critical. A gateway that does not know them skips them and takes part in no wave. */
const firstKnown = { critical: false, foldVersion: 8 } as const;

export const changeEvents = {
  'change.staged': event({
    ...firstKnown,
    data: ({ z, id, stagedEvent, wave, wavesMax, holdSecondsMax, changeWatch }) => ({
      change: id,
      /** Events of the change, exactly as the commit that completes the change will contain them. */
      events: z.array(stagedEvent).min(1).max(10_000),
      /** Waves in order. A gateway belongs to the first wave that includes it and to all later ones. */
      waves: z.array(wave).min(1).max(wavesMax),
      holdSeconds: z.int().min(1).max(holdSecondsMax),
      watch: changeWatch,
      /** Whether the next wave begins even if the current wave has seen too few requests. */
      advanceUnseen: z.boolean().optional(),
    }),
    sentence: (of) => ['staged the change', fieldText(of, 'change')],
    sample: (draw) => {
      const tier = {
        ...{ type: 'tier.set', v: 1, critical: true },
        data: tenantEvents['tier.set'].sample(draw),
      };
      const model = { model: draw.name('model') };
      const pool = { type: 'pool.model_uninstalled', v: 1, critical: true, data: model };
      const stack = { type: 'stack.model_installed', v: 1, critical: true };
      const removed = { type: 'model.removed', v: 1, critical: true, data: { id: model.model } };
      return {
        change: `c${draw.upTo(3)}`,
        events: draw.oneOf([
          [tier],
          [tier, pool],
          [removed, { ...stack, data: { ...model, stack: draw.name('stack') } }],
        ]),
        waves: [{ gateways: ['gw-1'] }, { share: 0.5 }],
        holdSeconds: draw.upTo(300),
        watch: { refusals: 1, errors: 1, least: 50 },
      };
    },
  }),
  'change.advanced': event({
    ...firstKnown,
    data: ({ z, id, wavesMax }) => ({ change: id, wave: z.int().min(1).max(wavesMax) }),
    sentence: (of) => ['advanced the change', fieldText(of, 'change'), `to wave ${fieldText(of, 'wave')}`],
    sample: (draw) => ({ change: `c${draw.upTo(3)}`, wave: draw.upTo(2) }),
  }),
  'change.withdrawn': event({
    ...firstKnown,
    data: ({ id, name }) => ({ change: id, reason: name }),
    sentence: (of) => ['withdrew the change', fieldText(of, 'change'), fieldText(of, 'reason')],
    sample: (draw) => ({ change: `c${draw.upTo(3)}`, reason: 'by hand' }),
  }),
  /** Marks the completion of a change. The same commit then contains the change's own events. */
  'change.completed': event({
    ...firstKnown,
    data: ({ id }) => ({ change: id }),
    sentence: (of) => ['completed the change', fieldText(of, 'change')],
    sample: (draw) => ({ change: `c${draw.upTo(3)}` }),
  }),
};
