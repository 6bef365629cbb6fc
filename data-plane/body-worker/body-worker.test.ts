import { expect, onTestFinished, test } from 'vitest';
import { BodyWorker } from './body-worker.ts';
import type { BodyJob } from './messages.ts';
import { type StartWorker, startWorker, type WorkerHandle, type WorkerListener } from './start-worker.ts';

function opened(options: ConstructorParameters<typeof BodyWorker>[0] = {}): BodyWorker {
  const bodyWorker = new BodyWorker(options);
  onTestFinished(() => bodyWorker.close());
  return bodyWorker;
}

const never = new AbortController().signal;

function shapeJob(content = 'hello'): Extract<BodyJob, { kind: 'shape' }> {
  const body = { model: 'm', messages: [{ role: 'user', content }] };
  const headers = { contentType: 'application/json', version: undefined };
  const blocks = [new TextEncoder().encode(JSON.stringify(body))];
  return { kind: 'shape', operation: { kind: 'chat' }, headers, blocks };
}

/** Returns a worker that receives one message per call of `deliver`, and exits when `crash` is called. */
function manualWorker(): { start: StartWorker; posted: string[]; deliver(): void; crash(): void } {
  const undelivered: (() => void)[] = [];
  const posted: string[] = [];
  let listener: WorkerListener | undefined;
  return {
    posted,
    start: (to) => {
      listener = to;
      const worker: WorkerHandle = startWorker(to);
      return {
        post: (request, transfer) => {
          if (request.kind === 'job') posted.push(request.job.kind);
          undelivered.push(() => worker.post(request, transfer));
        },
        terminate: () => to.onExit('ended'),
      };
    },
    deliver: () => undelivered.shift()?.(),
    crash: () => listener?.onExit('out of memory'),
  };
}

test('a retained text can be rendered as a node’s body any number of times until it is discarded', async () => {
  const bodyWorker = opened();
  const { textId, worker, outline } = await bodyWorker.retain(shapeJob('abc'), {
    owner: 'one',
    signal: never,
  });
  expect(outline).toMatchObject({ asked: { kind: 'chat', model: 'm', textBytes: 3 } });
  expect(JSON.stringify(outline)).not.toContain('abc');
  const target = { servedName: 'served', maxTokens: 7 };
  for (const dialect of ['vllm', 'ollama'] as const) {
    const job = { kind: 'render', textId, dialect, target } as const;
    const { bytes } = await bodyWorker.run(job, 'rendered', { owner: 'one', signal: never, worker });
    const body = JSON.parse(Buffer.from(bytes).toString());
    expect(body).toMatchObject({ model: 'served', messages: [{ role: 'user', content: 'abc' }] });
  }
  bodyWorker.discard(textId, worker);
  expect(bodyWorker.retainedTexts).toBe(0);
});

test('the worker refuses a body with the same error as inline shaping', async () => {
  const bodyWorker = opened();
  const job = { ...shapeJob(), blocks: [new TextEncoder().encode('{"model":1}')] };
  await expect(bodyWorker.retain(job, { owner: 'one', signal: never })).rejects.toMatchObject({
    type: 'UnsupportedShapeError',
    message: 'model: must be of type string',
  });
});

test('the queue is fair: many jobs of one owner do not delay the first job of another', async () => {
  const manual = manualWorker();
  const bodyWorker = opened({ start: manual.start });
  const ended: string[] = [];
  const all = ['a1', 'a2', 'a3', 'b1'].map((name) =>
    bodyWorker.retain(shapeJob(), { owner: name.charAt(0), signal: never }).then(() => ended.push(name)),
  );
  for (let n = 1; n <= 4; n++) {
    // Only one job runs at a time, so no further job has been posted to the worker.
    expect(manual.posted).toHaveLength(n);
    manual.deliver();
    await expect.poll(() => ended.length).toBe(n);
  }
  await Promise.all(all);
  expect(ended).toEqual(['a1', 'b1', 'a2', 'a3']);
});

test('a cancelled job is not started, and a cancelled running job retains no text', async () => {
  const manual = manualWorker();
  const bodyWorker = opened({ start: manual.start });
  const left = new AbortController();
  const jobs = [1, 2].map(() => bodyWorker.retain(shapeJob(), { owner: 'one', signal: left.signal }));
  const reason = new Error('left');
  left.abort(reason);
  for (const job of jobs) await expect(job).rejects.toBe(reason);
  const next = bodyWorker.retain(shapeJob(), { owner: 'one', signal: never });
  manual.deliver();
  await expect.poll(() => manual.posted).toEqual(['shape', 'shape']);
  manual.deliver();
  manual.deliver();
  await next;
  expect(bodyWorker.retainedTexts).toBe(1);
});

test('a worker that crashes refuses the requests whose text it retained, and the next job starts another worker', async () => {
  const lost: string[] = [];
  const manual = manualWorker();
  const bodyWorker = opened({ start: manual.start, onLost: (reason) => lost.push(reason) });
  const first = bodyWorker.retain(shapeJob(), { owner: 'one', signal: never });
  manual.deliver();
  const { textId, worker } = await first;
  const running = bodyWorker.retain(shapeJob(), { owner: 'one', signal: never });
  const waiting = bodyWorker.retain(shapeJob(), { owner: 'two', signal: never });
  manual.crash();
  await expect(running).rejects.toMatchObject({ type: 'InferenceUnavailableError' });
  const job = { kind: 'render', textId, dialect: 'vllm', target: { servedName: 's', maxTokens: 1 } } as const;
  await expect(
    bodyWorker.run(job, 'rendered', { owner: 'one', signal: never, worker }),
  ).rejects.toMatchObject({
    type: 'InferenceUnavailableError',
  });
  bodyWorker.discard(textId, worker);
  manual.deliver();
  manual.deliver();
  await waiting;
  expect(lost).toEqual(['out of memory']);
  expect(bodyWorker.retainedTexts).toBe(1);
});

test('a job that exceeds its deadline is refused, and closing refuses queued jobs', async () => {
  const manual = manualWorker();
  const bodyWorker = opened({ start: manual.start, jobTimeoutMs: 20 });
  await expect(bodyWorker.retain(shapeJob(), { owner: 'one', signal: never })).rejects.toMatchObject({
    type: 'InferenceUnavailableError',
  });
  const running = bodyWorker.retain(shapeJob(), { owner: 'one', signal: never });
  const waiting = bodyWorker.retain(shapeJob(), { owner: 'one', signal: never });
  bodyWorker.close();
  for (const job of [running, waiting])
    await expect(job).rejects.toMatchObject({ type: 'InferenceUnavailableError' });
});

test('if the system grants no thread, a job is refused with that cause and a later job still runs', async () => {
  const lost: string[] = [];
  let refusals = 2;
  const bodyWorker = opened({
    onLost: (reason) => lost.push(reason),
    start: (listener) => {
      if (refusals-- > 0) throw Object.assign(new Error('EAGAIN'), { code: 'ERR_WORKER_INIT_FAILED' });
      return startWorker(listener);
    },
  });
  const options = { signal: never, owner: 'acme' };
  for (let n = 0; n < 2; n++)
    await expect(bodyWorker.run(shapeJob(), 'shaped', options)).rejects.toMatchObject({
      type: 'InferenceUnavailableError',
      // The reason appears as a label of headgate_refusals_total, and as `cause` in the access log.
      reason: 'shaping: ERR_WORKER_INIT_FAILED',
    });
  expect(lost).toEqual(['ERR_WORKER_INIT_FAILED', 'ERR_WORKER_INIT_FAILED']);
  expect((await bodyWorker.run(shapeJob(), 'shaped', options)).kind).toBe('shaped');
});

test('a job on a retained text runs before the same owner’s queued bodies', async () => {
  const manual = manualWorker();
  const bodyWorker = opened({ start: manual.start });
  const first = bodyWorker.retain(shapeJob(), { owner: 'one', signal: never });
  manual.deliver();
  const { textId, worker } = await first;
  const ended: string[] = [];
  const jobs = ['a', 'b'].map((name) =>
    bodyWorker.retain(shapeJob(), { owner: 'one', signal: never }).then(() => ended.push(name)),
  );
  const job = { kind: 'render', textId, dialect: 'vllm', target: { servedName: 's', maxTokens: 1 } } as const;
  const rendered = bodyWorker
    .run(job, 'rendered', { owner: 'one', signal: never, worker })
    .then(() => ended.push('rendered'));
  for (let n = 1; n <= 3; n++) {
    manual.deliver();
    await expect.poll(() => ended.length).toBe(n);
  }
  await Promise.all([...jobs, rendered]);
  expect(ended).toEqual(['a', 'rendered', 'b']);
});

test('an idle worker ends unless it retains a text, and the next job starts another worker', async () => {
  const started: WorkerHandle[] = [];
  const ended: WorkerHandle[] = [];
  const start: StartWorker = (listener) => {
    const inner = startWorker(listener);
    const handle: WorkerHandle = {
      post: inner.post,
      terminate: () => {
        ended.push(handle);
        inner.terminate();
      },
    };
    started.push(handle);
    return handle;
  };
  const bodyWorker = opened({ start, idleTimeoutMs: 5 });
  const one = await bodyWorker.retain(shapeJob(), { owner: 'one', signal: never });
  const two = await bodyWorker.retain(shapeJob(), { owner: 'one', signal: never });
  bodyWorker.discard(two.textId, two.worker);
  // A time-out for an earlier idle period would have ended by now, because timers end in the order of their deadlines.
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(ended).toEqual([]);
  bodyWorker.discard(one.textId, one.worker);
  await expect.poll(() => ended).toEqual([one.worker]);
  const next = await bodyWorker.retain(shapeJob(), { owner: 'one', signal: never });
  expect(next.worker).not.toBe(one.worker);
  expect(started).toHaveLength(2);
});

test('a discarded text leaves its worker, and the error for using it quotes nothing', async () => {
  const bodyWorker = opened();
  const other = await bodyWorker.retain(shapeJob('other'), { owner: 'one', signal: never });
  const { textId, worker } = await bodyWorker.retain(shapeJob('abc'), { owner: 'one', signal: never });
  bodyWorker.discard(textId, worker);
  expect(worker).toBe(other.worker);
  const job = { kind: 'render', textId, dialect: 'vllm', target: { servedName: 's', maxTokens: 1 } } as const;
  await expect(bodyWorker.run(job, 'rendered', { owner: 'one', signal: never, worker })).rejects.toThrow(
    /^the body worker failed: Error$/,
  );
});
