/**
 * Makes nodes fail. About every fifth request fails, each in another way, and sometimes a node refuses all connections. No
 * client may ever receive one of these responses as complete.
 */
import type { Behaviour, Fault } from '../simulator/behaviour.ts';
import type { SoakFleet } from './fleet.ts';

const spoilt: readonly Fault[] = [
  { kind: 'refuse' },
  { kind: 'stall' },
  { kind: 'stall-after', afterEvents: 2 },
  { kind: 'stall-after', afterEvents: 2, commentEveryMs: 20 },
  { kind: 'status', status: 500 },
  { kind: 'error-frame-then-done', afterEvents: 2 },
  { kind: 'finish-abort', finishReason: 'abort' },
  { kind: 'cut', afterEvents: 3, reset: false },
  { kind: 'cut', afterEvents: 3, reset: true },
  { kind: 'clean-end-without-done', afterEvents: 3 },
  { kind: 'garbage', afterEvents: 1 },
];
/** A correct response that may be so late that the gateway has given up. It does not count as spoilt. */
const late: Fault = { kind: 'latency', firstTokenMs: 300, betweenTokensMs: 5 };
const everyNth = 60;
const outageEveryMs = 2_000;
const outageMs = 300;

function failing(shift: number): Pick<Behaviour, 'rules'> {
  const rules = [...spoilt, late].map((fault, index) => ({
    match: {
      afterRequests: index + shift,
      everyNth,
      // Applies these faults only to responses with a finish reason, or with events, because others would not be spoilt by
      // them.
      ...(fault.kind === 'finish-abort' && { path: '/v1/chat/completions' }),
      ...(fault.kind === 'clean-end-without-done' && { stream: true }),
    },
    fault,
  }));
  return { rules };
}

/** Makes the nodes fail. The returned function heals them and resolves with the number of outages. */
export async function failNodes(fleet: SoakFleet): Promise<() => Promise<number>> {
  await Promise.all(fleet.nodes.map((node, index) => node.behave(failing(index))));
  let outages = 0;
  let outage: Promise<unknown> = Promise.resolve();
  const timer = setInterval(() => {
    const at = outages++ % fleet.nodes.length;
    const connections = { mode: 'refused', forMs: outageMs } as const;
    outage = fleet.nodes[at]?.behave({ ...failing(at), connections }) ?? outage;
  }, outageEveryMs);
  return async () => {
    clearInterval(timer);
    await outage;
    await fleet.healNodes();
    return outages;
  };
}
