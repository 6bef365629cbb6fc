/** Tests which effect a person gets to see if the state changes while the command is being planned. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { expect, test } from 'vitest';
import { known } from '../../test/support/commits.ts';
import { smallFleet, TestState } from '../../test/support/state.ts';
import { type AdminContext, setCaller } from './context.ts';
import { effectHandlers } from './effect-route.ts';
import type { AskedOf } from './operations.ts';

/** Lets ana of acme ask for an effect while `meanwhile` happens. Returns the questions that the history was asked. */
async function askedOf(meanwhile: Parameters<TestState['given']>[0]) {
  const state = new TestState().given(smallFleet);
  const asked: unknown[] = [];
  const context = {
    snapshot: state,
    traffic: { rows: () => [], now: Date.now },
    writer: {
      run: () => {
        state.given(meanwhile);
        return Promise.resolve({ position: 1, events: [] });
      },
    },
    past: {
      ask: (_name: string, [, question]: readonly unknown[]) => {
        asked.push(question);
        return Promise.resolve({});
      },
    },
  } as unknown as AdminContext;
  const request = {} as FastifyRequest;
  setCaller(request, { actor: { person: 'ana' }, via: 'api' });
  const reply = { raw: { once: () => undefined } } as unknown as FastifyReply;
  const body = { method: 'POST', path: '/keys/key-acme/revoke' } as const;
  const call = { request, reply, body } as unknown as AskedOf<'effect.get'>;
  const refused = await Promise.resolve(effectHandlers(context)['effect.get'](call)).then(
    () => undefined,
    (error: Error) => error.message,
  );
  return { asked, refused };
}

test('a person sees the effect on their own organisation', async () => {
  expect(await askedOf([])).toEqual({
    asked: [expect.objectContaining({ organisation: 'acme' })],
    refused: undefined,
  });
});

test('a person who is no longer a member when the effect is ready sees nothing', async () => {
  const { asked, refused } = await askedOf([
    known('member.removed', { organisation: 'acme', person: 'ana' }),
  ]);
  expect(asked).toEqual([]);
  expect(refused).toMatch(/may not do this/);
});

test('if the command’s subject no longer exists, the effect on all organisations is not shown instead', async () => {
  const { asked, refused } = await askedOf([known('organisation.removed', { id: 'acme' })]);
  expect(asked).toEqual([]);
  expect(refused).toMatch(/may not do this/);
});
