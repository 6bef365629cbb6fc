/**
 * Claims about answers that end early because the client leaves, or because the engine is killed or gets SIGTERM. None of
 * them may be billed.
 */
import type { ChatCompletionChunk } from 'openai/resources/chat/completions';
import { expect } from 'vitest';
import { chatFieldGrants } from '../../data-plane/surfaces/common/chat-fields.ts';
import { type Bench, refusalFrom, turn } from './bench.ts';
import type { Claim } from './claims.ts';
import { tinyModel } from './tiny-model.ts';

interface Begun {
  /**
   * Reads the rest of the stream. Resolves with true if the stream ended properly, and otherwise with the error that the
   * library threw.
   */
  rest(): Promise<unknown>;
  leave(): void;
}

const { added } = tinyModel();
const withoutEnd = { [added['<|im_end|>']]: -100, [added['<|endoftext|>']]: -100 };

/** Starts a long stream and resolves once its first words have arrived. */
async function begin(bench: Bench): Promise<Begun> {
  const { dialect, windowTokens } = bench.engine;
  const body = turn(bench, {
    max_tokens: windowTokens,
    temperature: 1,
    // Keeps the model from ending its answer, if the engine allows that.
    ...(chatFieldGrants.logit_bias[dialect] && { logit_bias: withoutEnd }),
  });
  const stream = await bench.client.chat.completions.create({ ...body, stream: true });
  const chunks = stream[Symbol.asyncIterator]();
  for (let words = 0; words < 5; ) {
    const { done, value } = await chunks.next();
    if (done) expect.fail('the stream ended before it was long');
    if (value.choices[0]?.delta.content) words += 1;
  }
  return { rest: () => restOf(chunks), leave: () => stream.controller.abort() };
}

async function restOf(chunks: AsyncIterator<ChatCompletionChunk>): Promise<unknown> {
  let finished = false;
  try {
    for (;;) {
      const { done, value } = await chunks.next();
      if (done) return finished;
      finished ||= value.choices[0]?.finish_reason != null;
    }
  } catch (error) {
    return error;
  }
}

/** Requests one more answer and checks that nothing but this answer has been billed. */
async function onlyThisIsBilled(bench: Bench): Promise<void> {
  const answer = await bench.client.chat.completions.create(turn(bench));
  expect(await bench.billed(1)).toBe(answer.usage?.total_tokens);
}

const left: Claim = {
  name: 'stops working for a client that has left, who is not billed',
  run: async (bench) => {
    const { busy } = bench.running;
    bench.tap.take();
    const begun = await begin(bench);
    const [sent] = bench.tap.take();
    expect(sent?.isOpen()).toBe(true);
    if (busy) expect(await busy()).toBe(1);
    begun.leave();
    await expect.poll(() => sent?.isOpen(), { timeout: 20_000, interval: 10 }).toBe(false);
    if (busy) await expect.poll(busy, { timeout: 20_000, interval: 10 }).toBe(0);
    await onlyThisIsBilled(bench);
  },
};

const killed: Claim = {
  name: 'killed in the middle of a stream: the library raises, nothing is billed, and it is seen down and up again',
  run: async (bench) => {
    const begun = await begin(bench);
    await bench.running.kill();
    expect(await begun.rest()).toBeInstanceOf(Error);
    await bench.seen(false);
    expect(await refusalFrom(bench.client.chat.completions.create(turn(bench)))).toMatchObject({
      status: 503,
      type: 'InferenceUnavailableError',
    });
    await bench.running.restart();
    await bench.seen(true);
    await expect
      .poll(async () => (await bench.client.models.list()).data.map(({ id }) => id), { timeout: 30_000 })
      .toContain(bench.engine.model);
    await onlyThisIsBilled(bench);
  },
};

const stopped: Claim = {
  name: 'stopped by SIGTERM in the middle of a stream: what it does not finish raises in the library and is not billed',
  run: async (bench) => {
    const begun = await begin(bench);
    bench.running.terminate();
    const rest = await begun.rest();
    await bench.seen(false);
    if (bench.engine.finishesOnSigterm) {
      expect(rest).toBe(true);
      expect(await bench.billed(1)).toBeGreaterThan(0);
    } else {
      expect(rest).toBeInstanceOf(Error);
      expect(await bench.billed(0)).toBe(0);
    }
  },
};

export const endClaims: readonly Claim[] = [left, killed];
/** These claims must be the last for an engine, because it does not run again afterwards. */
export const stopClaims: readonly Claim[] = [stopped];
