/** Messages between the history thread and the thread that owns it. */
import type { LogText } from '../../schemas/records/log-events.ts';
import type { CommandErrorType } from '../core/command-error.ts';
import type { HistoryQueries } from './queries.ts';

export interface ThreadData {
  readonly path: string;
  readonly logUrl: string;
  readonly bytesMax?: number | undefined;
}

export type ToThread =
  | { readonly stop: true }
  /** The answer to the question with this id is no longer needed. */
  | { readonly cancel: number }
  | { readonly id: number; readonly name: keyof HistoryQueries; readonly args: readonly unknown[] };

export type FromThread =
  | { readonly kind: 'closed' }
  | { readonly note: LogText<'warn'>; readonly because: string }
  | { readonly id: number; readonly answer: unknown }
  | {
      readonly id: number;
      readonly error: {
        readonly type: CommandErrorType;
        readonly message: string;
        readonly next?: string | undefined;
      };
    };
