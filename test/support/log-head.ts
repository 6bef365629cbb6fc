/**
 * Computes the head of a log's chain, which is the position that the next commit must extend. Uses only the rule that decides
 * which records are accepted.
 */
import { batchesToEnd } from '../../shared/log/core/batches-to-end.ts';
import { emptyHead, type Head, judge } from '../../shared/log/core/chain.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';

export async function headOf(log: ControlLog): Promise<Head> {
  let head = emptyHead();
  for await (const records of batchesToEnd(log))
    for (const record of records) {
      const judgement = judge(head, record);
      if ('accepted' in judgement) head = judgement.head;
    }
  return head;
}
