/** Formats requests for both the list and the live tail. */
import type { RequestRow } from '../../schemas/admin/requests.ts';
import type { Session } from '../terminal/session.ts';
import { cellText } from '../terminal/text.ts';

/** Names the node that served the request, or says why none did. */
export function verdictText({ verdict, node, type, endedBy }: Partial<RequestRow>): string {
  if (verdict === 'refused') return type ?? 'refused';
  if (verdict === 'ended') return `ended by ${endedBy ?? 'a node'}`;
  return node === undefined ? 'served' : `served by ${node}`;
}

export function callerText({ visitor, organisation, keyName, key }: Partial<RequestRow>): string {
  return visitor ? 'visitor' : [organisation, keyName ?? key].filter(Boolean).join(' ');
}

export function msText(ms: unknown): string {
  if (typeof ms !== 'number') return '-';
  return ms < 1000 ? `${Math.round(ms)}ms` : `${(ms / 1000).toFixed(1)}s`;
}

/** Formats numbers of tokens as `12→340`, or `-` if none were counted. */
export function tokensText({ promptTokens, completionTokens }: Partial<RequestRow>): string {
  return promptTokens === undefined ? '-' : `${promptTokens}→${completionTokens ?? 0}`;
}

export function timeText(at: unknown): string {
  return String(at).slice(11, 23);
}

/** Formats a request as one line of the live tail. */
export function formatRow(row: Partial<RequestRow>): string {
  const { at, model, status, firstTokenMs, durationMs, gateway, request } = row;
  const parts = [
    ...[timeText(at), status ?? '-', verdictText(row), callerText(row), model, tokensText(row)],
    ...[`first ${msText(firstTokenMs)}`, `took ${msText(durationMs)}`, gateway, request],
  ];
  return parts.map(cellText).join('  ');
}

export function noteSilent(session: Session, silent: readonly unknown[]): void {
  if (silent.length === 0) return;
  session.note(
    `without ${silent.map(cellText).join(', ')}: no answer, or no recorded decisions (--decisions off)`,
  );
}
