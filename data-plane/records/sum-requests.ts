/** Sums of requests by group, of what a journal has in its folder. */
import { setPriority } from 'node:os';
import { firstTokenBucket, type GatewayQuery, type GatewayStat } from '../../schemas/gateway-requests.ts';
import { SegmentLog } from '../segments/segment-log.ts';
import { meantGroups, type ReadBounds } from './read-requests.ts';
import { groupHeading } from './record-group.ts';
import { countsOf, groupOf, ownerOf, type WrittenRequest } from './request-row.ts';

export interface SumTask extends ReadBounds {
  readonly folder: string;
  readonly query: GatewayQuery;
}

export interface SummedRequests {
  readonly stats: readonly GatewayStat[];
  /** More was there than was read, or than there may be groups. */
  readonly partial: boolean;
}

const groupsMax = 1000;
/** As `nice -n 5`. */
const threadPriority = 5;

/** Reads as another process would: of what is written meanwhile it sees whole groups. */
export async function sumRequests({ folder, query, charactersMax }: SumTask): Promise<SummedRequests> {
  const log = new SegmentLog(folder, { heading: groupHeading });
  const groups = new Map<string, GatewayStat>();
  let partial = false;
  for await (const { meant, isLast } of meantGroups(log, query, { charactersMax })) {
    for (const { request } of meant) if (!count(groups, request, query)) partial = true;
    if (isLast) partial = true;
  }
  return { stats: [...groups.values()], partial };
}

/** On a machine whose processors are all busy, requests come first. On Linux this is of the calling thread alone. */
export function yieldToOthers(): void {
  if (process.platform === 'linux') setPriority(threadPriority);
}

/** False where there are too many groups for it. */
function count(groups: Map<string, GatewayStat>, request: WrittenRequest, query: GatewayQuery): boolean {
  const { by, organisation } = query;
  const { verdict, promptTokens, completionTokens, firstTokenMs, key } = countsOf(request);
  const isUnknown = ownerOf(request) === undefined && (by === 'organisation' || organisation !== undefined);
  const ofKey = isUnknown ? key : undefined;
  const group = groupOf(request, by);
  const name = JSON.stringify([group, ofKey]);
  let stat = groups.get(name);
  if (stat === undefined) {
    if (groups.size >= groupsMax) return false;
    stat = { by: group, ...(ofKey !== undefined && { ofKey }), ...emptyCounts() };
    groups.set(name, stat);
  }
  stat.requests++;
  stat[verdict]++;
  stat.promptTokens += promptTokens;
  stat.completionTokens += completionTokens;
  if (firstTokenMs !== undefined) {
    const bucket = firstTokenBucket(firstTokenMs);
    stat.firstToken[bucket] = (stat.firstToken[bucket] ?? 0) + 1;
  }
  return true;
}

function emptyCounts(): Omit<GatewayStat, 'by' | 'ofKey'> {
  return {
    ...{ requests: 0, served: 0, refused: 0, ended: 0, promptTokens: 0, completionTokens: 0 },
    firstToken: {},
  };
}
