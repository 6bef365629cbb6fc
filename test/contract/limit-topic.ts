/**
 * The contract of the topic that gateways use for limits, for every log adapter. An adapter's test calls `limitTopicContract`
 * with a factory.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { countersTopic, limitRecordBytesMax } from '../../schemas/records/limits.ts';
import type { TimedLog } from '../../shared/log/core/control-log.ts';
import { type LimitBatch, LimitTopic } from '../../shared/log/limit-topic.ts';
import { until } from '../support/until.ts';

export interface LimitTopicRig {
  /** Opens another client of the same new topic. */
  open(): Promise<TimedLog>;
  replace(): Promise<void>;
  dispose(): Promise<void>;
}

const token = 'gateway-token-of-the-tests';

export function limitTopicContract(name: string, makeRig: () => Promise<LimitTopicRig>): void {
  describe(`${name} as a limit topic`, () => {
    let rig: LimitTopicRig;
    const clients: LimitTopic[] = [];
    beforeEach(async () => {
      rig = await makeRig();
    });
    afterEach(async () => {
      for (const client of clients.splice(0)) await client.close();
      await rig.dispose();
    });

    function client(...tokens: string[]): LimitTopic {
      const all = [tokens[0] ?? token, ...tokens.slice(1)] as const;
      const made = new LimitTopic({ topic: countersTopic, open: () => rig.open(), tokens: all });
      clients.push(made);
      return made;
    }

    /** Collects the records that a follower reads, as text. `restarts` counts how often the follower started over. */
    function follow(topic: LimitTopic, from: number | { readonly atMs: number } = 0) {
      const seen = { texts: [] as string[], rejected: 0, restarts: 0 };
      const onBatch = ({ records, rejected }: LimitBatch) => {
        seen.texts.push(...records.map(({ value }) => value.toString()));
        seen.rejected += rejected;
      };
      const onRestart = () => {
        seen.restarts++;
      };
      const follower = topic.follower({ from, onBatch, onRestart, onFault: () => undefined });
      follower.start();
      return { seen, follower };
    }

    test('records are read by all in the order of the topic, from a position on', async () => {
      const writer = client();
      const offsets: number[] = [];
      for (const text of ['a', 'b', 'c']) offsets.push(await writer.append(Buffer.from(text)));
      const all = follow(client());
      const later = follow(client(), offsets[1]);
      await until(() => all.seen.texts.length === 3 && later.seen.texts.length === 2);
      await writer.append(Buffer.from('d'));
      await until(() => all.seen.texts.length === 4 && later.seen.texts.length === 3);
      expect(all.seen.texts).toEqual(['a', 'b', 'c', 'd']);
      expect(later.seen.texts).toEqual(['b', 'c', 'd']);
      expect(all.follower.position).toBe(await writer.end());
    });

    test('a time in the past reads what was appended since then, one in the future only what comes', async () => {
      const writer = client();
      await writer.append(Buffer.from('old'));
      const past = follow(client(), { atMs: Date.now() - 60_000 });
      const future = follow(client(), { atMs: Date.now() + 3600_000 });
      await until(() => past.seen.texts.length === 1);
      await until(async () => {
        await writer.append(Buffer.from('new'));
        return future.seen.texts.length > 0;
      });
      expect(past.seen.texts[0]).toBe('old');
      expect(new Set(future.seen.texts)).toEqual(new Set(['new']));
    });

    test('records that are foreign, cut, forged or too large are counted and not delivered', async () => {
      const log = await rig.open();
      await log.append(Buffer.from('unsigned'));
      await log.append(Buffer.from('forged'), Buffer.alloc(32, 1));
      await log.append(Buffer.from('cut'), Buffer.alloc(5));
      await log.append(Buffer.alloc(limitRecordBytesMax + 1));
      await log.close();
      await client('another-token-of-sixteen').append(Buffer.from('foreign'));
      await client().append(Buffer.from('ours'));
      const { seen } = follow(client(token, 'next-token-of-sixteen'));
      await until(() => seen.texts.length > 0);
      expect(seen).toMatchObject({ texts: ['ours'], rejected: 5 });
    });

    test('a rotated token is accepted from both sides', async () => {
      await client('old-token-of-sixteen').append(Buffer.from('by the old one'));
      await client('new-token-of-sixteen', 'old-token-of-sixteen').append(Buffer.from('by the new one'));
      const { seen } = follow(client('old-token-of-sixteen', 'new-token-of-sixteen'));
      await until(() => seen.texts.length === 2);
    });

    test('a record that is too large is refused by its writer', async () => {
      const topic = client();
      await expect(topic.append(Buffer.alloc(limitRecordBytesMax + 1))).rejects.toThrow('bytes');
      expect(topic.reachable).toBe(true);
    });

    test('a topic that was replaced is read from its beginning, and its reader is informed', async () => {
      const topic = client();
      for (const text of ['a', 'b', 'c']) await topic.append(Buffer.from(text));
      const { seen } = follow(topic);
      await until(() => seen.texts.length === 3);
      await rig.replace();
      const append = () => topic.append(Buffer.from('x')).catch(() => undefined);
      await until(async () => (await append()) !== undefined && seen.restarts > 0);
      await until(() => seen.texts.at(-1) === 'x');
      expect(seen.texts.slice(0, 3)).toEqual(['a', 'b', 'c']);
    });

    test('a follower ends when it is stopped, and when the topic is closed', async () => {
      const topic = client();
      const [one, two] = [follow(topic), follow(topic)];
      await one.follower.stop();
      await topic.close();
      expect(two.follower.signal.aborted).toBe(true);
      await expect(topic.append(Buffer.from('x'))).rejects.toThrow('closed');
    });
  });
}
