/**
 * Spoils the end or the reported usage of an otherwise correct chat answer. The tokens of the answer itself stay unchanged.
 */
import { doneFrame, type Plan } from '../../tools/simulator/plan.ts';
import type { Fault } from './behaviour.ts';

export type Distortion = Extract<Fault, { kind: 'finish-abort' | 'wrong-usage' | 'duplicate-finish' }>;

interface ChatObject {
  readonly choices: readonly { readonly finish_reason: string | null }[];
  readonly usage?: unknown;
}

export function distort(plan: Plan, fault: Distortion): Plan {
  if (plan.work?.id.startsWith('chatcmpl-') !== true) return plan;
  if (plan.stream) return { ...plan, parts: distortedFrames(plan.parts, fault) };
  const body = JSON.parse([...plan.parts].join('')) as ChatObject;
  return { ...plan, parts: [JSON.stringify(withUsage(withFinish(body, fault), fault))] };
}

function* distortedFrames(parts: Iterable<string>, fault: Distortion): Generator<string> {
  for (const part of parts) {
    if (part === doneFrame) {
      yield part;
      continue;
    }
    const frame = JSON.parse(part.slice('data: '.length)) as ChatObject;
    if (frame.choices.length === 0) {
      const changed = withUsage(frame, fault);
      if (changed.usage !== undefined) yield `data: ${JSON.stringify(changed)}\n\n`;
      continue;
    }
    yield `data: ${JSON.stringify(withFinish(frame, fault))}\n\n`;
    const isFinish = frame.choices.some(({ finish_reason }) => finish_reason !== null);
    if (isFinish && fault.kind === 'duplicate-finish') yield part;
  }
}

function withFinish(answer: ChatObject, fault: Distortion): ChatObject {
  if (fault.kind !== 'finish-abort') return answer;
  const choices = answer.choices.map((choice) =>
    choice.finish_reason === null ? choice : { ...choice, finish_reason: fault.finishReason },
  );
  return { ...answer, choices };
}

function withUsage(answer: ChatObject, fault: Distortion): ChatObject {
  return fault.kind === 'wrong-usage' ? { ...answer, usage: fault.usage } : answer;
}
