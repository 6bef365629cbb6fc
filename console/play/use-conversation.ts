/** The state of the conversation, and of the visitor whose turns it uses. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { CallError, type VisitorState, visitorState } from './api.ts';
import {
  bodyOf,
  type Message,
  type Parameters,
  type Progress,
  send,
  type TurnTarget,
} from './conversation.ts';

export interface Shown extends Message {
  readonly progress?: Progress;
}

export interface TurnFault {
  readonly message: string;
  readonly type: string;
  readonly requestId?: string | undefined;
}

function faultOf(error: unknown): TurnFault {
  if (error instanceof CallError) return error;
  return { message: error instanceof Error ? error.message : 'The call failed.', type: '' };
}

const early: TurnFault = { message: 'The answer ended early. It does not count as a turn.', type: '' };

function useVisitor(report: (fault: TurnFault) => void) {
  const [visitor, setVisitor] = useState<VisitorState>();
  /** `counted`: a completed answer counts at once here, and on the gateway a moment later. */
  const refresh = async (counted = false): Promise<void> => {
    try {
      const state = await visitorState();
      setVisitor((before) => {
        const most = counted && before ? Math.max(before.turns.left - 1, 0) : state.turns.left;
        return { ...state, turns: { ...state.turns, left: Math.min(state.turns.left, most) } };
      });
    } catch (error) {
      report(faultOf(error));
    }
  };
  useEffect(() => {
    void refresh();
  }, []);
  return { visitor, refresh };
}

export function useConversation(key: string | undefined) {
  const [messages, setMessages] = useState<readonly Shown[]>([]);
  const [fault, setFault] = useState<TurnFault>();
  const [isBusy, setBusy] = useState(false);
  const running = useRef<AbortController>(undefined);
  /** Of the conversation: what a turn of an earlier one still shows goes nowhere. */
  const number = useRef(0);
  const { visitor, refresh } = useVisitor(setFault);

  /** False where nothing was answered: the message may be sent again. */
  const ask = async (target: TurnTarget, content: string, parameters: Parameters): Promise<boolean> => {
    const asked: Shown[] = [...messages, { role: 'user', content }];
    const { signal } = beginTurn();
    const own = number.current;
    const put = (shown: readonly Shown[]): void => {
      if (number.current === own) setMessages(shown);
    };
    put(asked);
    let latest: Progress | undefined;
    const show = (progress: Progress): void => {
      latest = progress;
      put([...asked, { role: 'assistant', content: progress.text, progress }]);
    };
    const attempt = () => send(target, bodyOf(target, asked, parameters), { key, signal }, show);
    const problem = await outcomeOf(attempt, key === undefined);
    const { isWhole = false, text = '' } = latest ?? ({} as Partial<Progress>);
    if (problem !== undefined && !signal.aborted) setFault(problem);
    else if (!isWhole) setFault(early);
    if (text === '' && !isWhole) put(messages);
    setBusy(false);
    if (key === undefined) await refresh(isWhole);
    return text !== '' || isWhole;
  };

  const beginTurn = (): AbortController => {
    const controller = new AbortController();
    running.current = controller;
    setBusy(true);
    setFault(undefined);
    return controller;
  };

  /** What was answered with a key is sent with no other, and not as a visitor. */
  const clear = (): void => {
    number.current++;
    running.current?.abort();
    setMessages([]);
  };

  return { visitor, refresh, messages, fault, isBusy, ask, clear, stop: () => running.current?.abort() };
}

/** What went wrong. A cookie that is gone, or of before, is replaced once. */
async function outcomeOf(attempt: () => Promise<void>, isVisitor: boolean): Promise<TurnFault | undefined> {
  try {
    await attempt();
    return undefined;
  } catch (error) {
    const isUnknown = isVisitor && error instanceof CallError && error.type === 'Unauthorized';
    if (!isUnknown) return faultOf(error);
  }
  try {
    await visitorState();
    await attempt();
    return undefined;
  } catch (error) {
    return faultOf(error);
  }
}
