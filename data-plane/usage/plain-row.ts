/**
 * Fast path for usage rows of organisations, which are nearly all rows. Recognises such a row by the order in which the meter
 * writes its fields. A row that matches is valid for `usageRowSchema`. Matching costs a tenth of parsing and validating,
 * which all other rows need.
 */
import type { CounterEntry } from '../../schemas/records/limits.ts';

const id = '"[a-z0-9-]{1,64}"';
/** Matches a month and day, except 29 February, which not every year has. Rows of that day are parsed instead. */
const monthDay =
  '(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)';
const time = '(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d\\.\\d{3}Z';
const count = '(?:0|[1-9]\\d{0,8})';
const plainRow = new RegExp(
  `^\\{"at":"20\\d\\d-${monthDay}T${time}","organisation":(${id}),"period":"(20\\d\\d-${monthDay})"` +
    `,"draw":"(pool|stack|own)","model":"[A-Za-z0-9._:/-]{1,200}"` +
    `,"promptTokens":(${count}),"completionTokens":(${count})` +
    `(?:,"stack":"stk-[a-z]{1,18}-[a-z]{1,18}-[a-z0-9]{1,18}")?(?:,"key":${id})?(?:,"ttftMs":${count})?(?:,"durationMs":${count})?` +
    `(?:,"estimated":true)?,"requestId":"[!#-[\\]-~]{1,100}"\\}$`,
);

/** Sums that a row adds to the counters, or undefined if the row is not of this form and must be parsed. */
export function entriesOfPlainRow(text: string): readonly CounterEntry[] | undefined {
  const [, organisation, period, draw, promptTokens, completionTokens] = plainRow.exec(text) ?? [];
  if (organisation === undefined || period === undefined) return undefined;
  if (draw !== 'pool') return [];
  return [[organisation.slice(1, -1), period, Number(promptTokens) + Number(completionTokens), 1]];
}
