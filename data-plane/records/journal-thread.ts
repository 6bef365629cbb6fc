/** The thread of the decision journal: writes what the main thread sends, and answers what is asked of it. */
import type { MessagePort } from 'node:worker_threads';
import { DecisionFile } from './decision-file.ts';
import type { DecisionGroup } from './decision-group.ts';

export type JournalRequest =
  | ({ readonly kind: 'decisions' } & DecisionGroup)
  | ({ readonly kind: 'find'; readonly req: string } & Ask)
  | ({ readonly kind: 'page'; readonly after: number; readonly sinceMs: number } & Ask)
  | { readonly kind: 'close' };

interface Ask {
  readonly ask: number;
  /** Nobody waits for the answer any more, ms since 1970. */
  readonly untilMs: number;
}

export type JournalEvent =
  /** `written`: decisions of one message that are in the file; `dropped`: that could not be written. */
  | { readonly kind: 'state'; readonly written: number; readonly dropped: number; readonly bytes: number }
  /** A JSON list of ids and compact decisions; one or none for `find`. Undefined where the file cannot be read. */
  | { readonly kind: 'answer'; readonly ask: number; readonly rows: string | undefined }
  | { readonly kind: 'closed' };

export interface JournalThreadOptions {
  readonly path: string;
}

const rowsPerPage = 500;

export function serveJournal(port: MessagePort, { path }: JournalThreadOptions): void {
  const post = (event: JournalEvent): void => port.postMessage(event);
  let file: DecisionFile | undefined;
  /** A disk may be full only for a while, so each message tries again. */
  const open = (): DecisionFile => {
    file ??= new DecisionFile(path);
    return file;
  };
  /** A file that was damaged while it was open is found so when it is opened again. */
  const reopen = (): void => {
    try {
      file?.close();
    } finally {
      file = undefined;
    }
  };
  const answer = (
    request: Exclude<JournalRequest, { kind: 'decisions' | 'close' }>,
  ): object[] | undefined => {
    if (Date.now() > request.untilMs) return undefined;
    try {
      if (request.kind === 'page') return open().page(request.after, request.sinceMs, rowsPerPage);
      const cells = open().find(request.req);
      return cells === undefined ? [] : [{ id: 0, cells: JSON.stringify(cells) }];
    } catch {
      reopen();
      return undefined;
    }
  };
  port.on('message', (request: JournalRequest) => {
    if (request.kind === 'decisions') {
      try {
        open().write(request, Date.now());
        post({ kind: 'state', written: request.count, dropped: 0, bytes: open().bytes() });
      } catch {
        post({ kind: 'state', written: 0, dropped: request.count, bytes: 0 });
        reopen();
      }
    } else if (request.kind === 'close') {
      file?.close();
      post({ kind: 'closed' });
      port.close();
    } else post({ kind: 'answer', ask: request.ask, rows: JSON.stringify(answer(request)) });
  });
}
