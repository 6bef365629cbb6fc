/** Keeps the state of the conversation, and of the visitor whose free turns the conversation uses. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { CallError, type VisitorState, visitorState } from './api.ts';
import {
  type Message,
  type Parameters,
  type Progress,
  requestBody,
  send,
  type TurnTarget,
} from './conversation.ts';

export interface ShownMessage extends Message {
  readonly progress?: Progress;
}

export interface TurnFault {
  readonly message: string;
  /** Type of the refusal. It is empty if no answer arrived or if the answer ended early. */
  readonly type: string;
  readonly requestId?: string | undefined;
  /** Whether the answer ended early or was stopped. There is then nothing to send again. */
  readonly isEarly?: boolean;
}

function toFault(error: unknown): TurnFault {
  if (error instanceof CallError) return error;
  return { message: 'The service cannot be reached. Check your connection and try again.', type: '' };
}

/** Returns the fault to show after a turn. `problem` is undefined if the user stopped the turn. */
function faultAfter(
  isWhole: boolean,
  problem: TurnFault | undefined,
  isVisitor: boolean,
): TurnFault | undefined {
  if (isWhole || problem) return problem;
  const note = isVisitor ? ' It does not count as a turn.' : '';
  return { message: `The answer ended early.${note}`, type: '', isEarly: true };
}

function useVisitor(report: (fault: TurnFault | undefined) => void) {
  const [visitor, setVisitor] = useState<VisitorState>();
  const [isClosed, setClosed] = useState(false);
  /** Reads the visitor's state. With `counted`, subtracts a completed turn at once, because the gateway counts it later. */
  const refresh = async (counted = false): Promise<void> => {
    try {
      const state = await visitorState();
      setClosed(false);
      setVisitor((before) => {
        const most = counted && before ? Math.max(before.turns.left - 1, 0) : state.turns.left;
        return {
          ...state,
          turns: { ...state.turns, left: Math.min(state.turns.left, most) },
          // If no node responds any more, keep the models, so that the user's choice stays and the next message reports the
          // fault.
          models: state.models.length === 0 && before ? before.models : state.models,
        };
      });
    } catch (error) {
      // A gateway lacks the endpoint for visitors only if its playground does not serve visitors.
      if (error instanceof CallError && error.type === 'NotFoundError') setClosed(true);
      else report(toFault(error));
    }
  };
  useEffect(() => {
    void refresh();
  }, []);
  return { visitor, isClosed, refresh };
}

/** Shows progress at most once per frame, because an answer arrives in many more parts than a screen has frames. */
function oncePerFrame(show: (progress: Progress) => void) {
  let latest: Progress | undefined;
  let frame: number | undefined;
  const draw = (): void => {
    frame = undefined;
    if (latest) show(latest);
  };
  return {
    add(progress: Progress): void {
      latest = progress;
      frame ??= requestAnimationFrame(draw);
    },
    /** Shows the latest progress without waiting for a frame, because browsers draw none for hidden tabs. */
    end(): Partial<Progress> | undefined {
      if (frame !== undefined) cancelAnimationFrame(frame);
      draw();
      return latest;
    },
  };
}

export function useConversation(key: string | undefined) {
  const [messages, setMessages] = useState<readonly ShownMessage[]>([]);
  const [fault, setFault] = useState<TurnFault>();
  const [isBusy, setBusy] = useState(false);
  const running = useRef<AbortController>(undefined);
  /** Number of the current conversation, used to ignore late results of earlier conversations. */
  const number = useRef(0);
  const { visitor, isClosed, refresh } = useVisitor(setFault);

  /** Runs a turn. If there was no answer, restores the earlier messages for another attempt and returns false. */
  const turn = async (
    target: TurnTarget,
    asked: readonly ShownMessage[],
    parameters: Parameters,
  ): Promise<boolean> => {
    const { signal } = beginTurn();
    const own = number.current;
    const put = (shown: readonly ShownMessage[]): void => {
      if (number.current === own) setMessages(shown);
    };
    put(asked);
    const shown = oncePerFrame((progress) =>
      put([...asked, { role: 'assistant', content: progress.text, progress }]),
    );
    const attempt = () => send(target, requestBody(target, asked, parameters), { key, signal }, shown.add);
    const isVisitor = key === undefined;
    const problem = await runAttempt(attempt, isVisitor);
    const { isWhole = false, text = '' } = shown.end() ?? {};
    const isAnswered = text !== '' || isWhole;
    const isCurrent = number.current === own;
    if (isCurrent) {
      setFault(faultAfter(isWhole, signal.aborted ? undefined : problem, isVisitor));
      if (!isAnswered) put(messages);
      setBusy(false);
    }
    if (isVisitor) await refresh(isWhole);
    return isAnswered || !isCurrent;
  };

  const beginTurn = (): AbortController => {
    const controller = new AbortController();
    running.current = controller;
    setBusy(true);
    setFault(undefined);
    return controller;
  };

  const ask = (target: TurnTarget, content: string, parameters: Parameters): Promise<boolean> =>
    turn(target, [...messages, { role: 'user', content }], parameters);

  /** Requests another answer to the last message. */
  const again = (target: TurnTarget, parameters: Parameters): Promise<boolean> =>
    turn(target, messages.slice(0, messages.findLastIndex(({ role }) => role === 'user') + 1), parameters);

  /** Clears the conversation, because answers that one key obtained must not be sent with another key or as a visitor. */
  const clear = (): void => {
    number.current++;
    running.current?.abort();
    setBusy(false);
    setFault(undefined);
    setMessages([]);
  };

  const stop = (): void => running.current?.abort();
  return { visitor, isClosed, refresh, messages, fault, isBusy, ask, again, clear, stop };
}

/** Runs an attempt and returns its fault. If the visitor's cookie is missing or outdated, gets a new one and retries once. */
async function runAttempt(attempt: () => Promise<void>, isVisitor: boolean): Promise<TurnFault | undefined> {
  try {
    await attempt();
    return undefined;
  } catch (error) {
    const isUnknown = isVisitor && error instanceof CallError && error.type === 'Unauthorized';
    if (!isUnknown) return toFault(error);
  }
  try {
    await visitorState();
    await attempt();
    return undefined;
  } catch (error) {
    return toFault(error);
  }
}
