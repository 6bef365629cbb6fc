import { afterEach, expect, test } from 'vitest';
import type { ShapingJob } from './messages.ts';
import { Shaping } from './shaping.ts';
import { type StartThread, startThread, type Thread, type ThreadListener } from './thread.ts';

const open: Shaping[] = [];
afterEach(() => {
  for (const shaping of open.splice(0)) shaping.close();
});

function opened(options: ConstructorParameters<typeof Shaping>[0] = {}): Shaping {
  const shaping = new Shaping(options);
  open.push(shaping);
  return shaping;
}

const never = new AbortController().signal;

function shapeJob(content = 'hello'): Extract<ShapingJob, { kind: 'shape' }> {
  const body = { model: 'm', messages: [{ role: 'user', content }] };
  const headers = { contentType: 'application/json', version: undefined, beta: undefined };
  const blocks = [new TextEncoder().encode(JSON.stringify(body))];
  return { kind: 'shape', operation: { kind: 'chat' }, headers, blocks };
}

/** A thread that answers when it is let, and may end at any time. */
function heldThreads(): { start: StartThread; posted: string[]; go(): void; end(): void } {
  const waiting: (() => void)[] = [];
  const posted: string[] = [];
  let listener: ThreadListener | undefined;
  let inner: Thread | undefined;
  return {
    posted,
    start: (to) => {
      listener = to;
      inner = startThread(to);
      const thread = inner;
      return {
        post: (request, transfer) => {
          if (request.kind === 'job') posted.push(request.job.kind);
          waiting.push(() => thread.post(request, transfer));
        },
        end: () => to.onEnd('ended'),
      };
    },
    go: () => waiting.shift()?.(),
    end: () => listener?.onEnd('out of memory'),
  };
}

test('a held text becomes a node’s body as often as it is asked for, until it is dropped', async () => {
  const shaping = opened();
  const { held, thread, outlined } = await shaping.hold(shapeJob('abc'), { owner: 'one', gone: never });
  expect(outlined).toMatchObject({ model: 'm', inner: { kind: 'chat', textBytes: 3 } });
  expect(JSON.stringify(outlined)).not.toContain('abc');
  const target = { servedName: 'served', maxTokens: 7 };
  for (const dialect of ['vllm', 'ollama'] as const) {
    const job = { kind: 'render', held, dialect, target } as const;
    const { bytes } = await shaping.run(job, 'rendered', { owner: 'one', gone: never, thread });
    const body = JSON.parse(Buffer.from(bytes).toString());
    expect(body).toMatchObject({ model: 'served', messages: [{ role: 'user', content: 'abc' }] });
  }
  shaping.drop(held, thread);
  expect(shaping.held).toBe(0);
});

test('what a body is refused for is the same as where it is shaped at once', async () => {
  const shaping = opened();
  const job = { ...shapeJob(), blocks: [new TextEncoder().encode('{"model":1}')] };
  await expect(shaping.hold(job, { owner: 'one', gone: never })).rejects.toMatchObject({
    type: 'UnsupportedShapeError',
    message: 'model: must be of type string',
  });
});

test('one owner’s many jobs do not come before another owner’s first', async () => {
  const threads = heldThreads();
  const shaping = opened({ start: threads.start });
  const ended: string[] = [];
  const all = ['a1', 'a2', 'a3', 'b1'].map((name) =>
    shaping.hold(shapeJob(), { owner: name.charAt(0), gone: never }).then(() => ended.push(name)),
  );
  for (let n = 1; n <= 4; n++) {
    // One at a time.
    expect(threads.posted).toHaveLength(n);
    threads.go();
    await expect.poll(() => ended.length).toBe(n);
  }
  await Promise.all(all);
  expect(ended).toEqual(['a1', 'b1', 'a2', 'a3']);
});

test('a job whose client left is not begun, and one under way leaves nothing held', async () => {
  const threads = heldThreads();
  const shaping = opened({ start: threads.start });
  const left = new AbortController();
  const jobs = [1, 2].map(() => shaping.hold(shapeJob(), { owner: 'one', gone: left.signal }));
  const gone = new Error('left');
  left.abort(gone);
  for (const job of jobs) await expect(job).rejects.toBe(gone);
  const next = shaping.hold(shapeJob(), { owner: 'one', gone: never });
  threads.go();
  await expect.poll(() => threads.posted).toEqual(['shape', 'shape']);
  threads.go();
  threads.go();
  await next;
  expect(shaping.held).toBe(1);
});

test('a thread that ends refuses who had a text on it, and the next job starts another', async () => {
  const lost: string[] = [];
  const threads = heldThreads();
  const shaping = opened({ start: threads.start, onLost: (reason) => lost.push(reason) });
  const first = shaping.hold(shapeJob(), { owner: 'one', gone: never });
  threads.go();
  const { held, thread } = await first;
  const running = shaping.hold(shapeJob(), { owner: 'one', gone: never });
  const waiting = shaping.hold(shapeJob(), { owner: 'two', gone: never });
  threads.end();
  await expect(running).rejects.toMatchObject({ type: 'InferenceUnavailableError' });
  const job = { kind: 'render', held, dialect: 'vllm', target: { servedName: 's', maxTokens: 1 } } as const;
  await expect(shaping.run(job, 'rendered', { owner: 'one', gone: never, thread })).rejects.toMatchObject({
    type: 'InferenceUnavailableError',
  });
  shaping.drop(held, thread);
  threads.go();
  threads.go();
  await waiting;
  expect(lost).toEqual(['out of memory']);
  expect(shaping.held).toBe(1);
});

test('a job that never ends is given up, and closing refuses what waits', async () => {
  const threads = heldThreads();
  const shaping = opened({ start: threads.start, jobMsMax: 20 });
  await expect(shaping.hold(shapeJob(), { owner: 'one', gone: never })).rejects.toMatchObject({
    type: 'InferenceUnavailableError',
  });
  const running = shaping.hold(shapeJob(), { owner: 'one', gone: never });
  const waiting = shaping.hold(shapeJob(), { owner: 'one', gone: never });
  shaping.close();
  for (const job of [running, waiting])
    await expect(job).rejects.toMatchObject({ type: 'InferenceUnavailableError' });
});

test('what ends a request comes before what begins one of the same owner', async () => {
  const threads = heldThreads();
  const shaping = opened({ start: threads.start });
  const first = shaping.hold(shapeJob(), { owner: 'one', gone: never });
  threads.go();
  const { held, thread } = await first;
  const ended: string[] = [];
  const jobs = ['a', 'b'].map((name) =>
    shaping.hold(shapeJob(), { owner: 'one', gone: never }).then(() => ended.push(name)),
  );
  const job = { kind: 'render', held, dialect: 'vllm', target: { servedName: 's', maxTokens: 1 } } as const;
  const rendered = shaping
    .run(job, 'rendered', { owner: 'one', gone: never, thread })
    .then(() => ended.push('rendered'));
  for (let n = 1; n <= 3; n++) {
    threads.go();
    await expect.poll(() => ended.length).toBe(n);
  }
  await Promise.all([...jobs, rendered]);
  expect(ended).toEqual(['a', 'rendered', 'b']);
});

test('a thread without work ends, one that holds a text does not, and the next job starts another', async () => {
  const started: Thread[] = [];
  const ended: Thread[] = [];
  const start: StartThread = (listener) => {
    const inner = startThread(listener);
    const thread: Thread = {
      post: inner.post,
      end: () => {
        ended.push(thread);
        inner.end();
      },
    };
    started.push(thread);
    return thread;
  };
  const shaping = opened({ start, idleMs: 5 });
  const one = await shaping.hold(shapeJob(), { owner: 'one', gone: never });
  const two = await shaping.hold(shapeJob(), { owner: 'one', gone: never });
  shaping.drop(two.held, two.thread);
  // Timers of the same length run in their order, so a wait that began before this one would be over.
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(ended).toEqual([]);
  shaping.drop(one.held, one.thread);
  await expect.poll(() => ended).toEqual([one.thread]);
  const next = await shaping.hold(shapeJob(), { owner: 'one', gone: never });
  expect(next.thread).not.toBe(one.thread);
  expect(started).toHaveLength(2);
});

test('a text that was dropped is gone, on its thread too, and its fault quotes nothing', async () => {
  const shaping = opened();
  const other = await shaping.hold(shapeJob('other'), { owner: 'one', gone: never });
  const { held, thread } = await shaping.hold(shapeJob('abc'), { owner: 'one', gone: never });
  shaping.drop(held, thread);
  expect(thread).toBe(other.thread);
  const job = { kind: 'render', held, dialect: 'vllm', target: { servedName: 's', maxTokens: 1 } } as const;
  await expect(shaping.run(job, 'rendered', { owner: 'one', gone: never, thread })).rejects.toThrow(
    /^shaping failed: Error$/,
  );
});
