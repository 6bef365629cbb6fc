/** Prints a staged change: its waves, figures for the gateways inside and outside the waves, and the next step. */

import type { Change, ChangeSide } from '../../schemas/events/changes.ts';
import type { Resource } from '../admin-client/answers.ts';
import type { Session } from '../terminal/session.ts';

export function isStaged(answer: object): answer is Change & Resource {
  return 'holdSeconds' in answer && 'waves' in answer;
}

function waveText(wave: Change['waves'][number]): string {
  if ('gateways' in wave) return wave.gateways.join(', ');
  return wave.share === 1 ? 'all gateways' : `${Number((wave.share * 100).toFixed(3))}% of the gateways`;
}

function sideText(name: string, side: ChangeSide): string {
  const { gateways, requests, refusals, errors, nodeFailures, ownP95Ms } = side;
  const parts = [
    gateways === 1 ? '1 gateway' : `${gateways} gateways`,
    `${requests} requests`,
    `${refusals} refused`,
    `${errors} internal errors`,
    `${nodeFailures} failed at nodes`,
    ...(ownP95Ms === undefined ? [] : [`own time ${ownP95Ms} ms (p95)`]),
  ];
  return `  ${name.padEnd(8)} ${parts.join(', ')}`;
}

export function showChange(session: Session, change: Change & Resource): Promise<void> {
  const { id, state, wave, waves, holdSeconds, watch, figures, next, reason } = change;
  const would = session.globals.dryRun ? 'would be ' : '';
  const lines = [
    `change ${id} ${would}${state}: wave ${wave} of ${waves.length}${reason === undefined ? '' : `, ${reason}`}`,
    ...waves.map((each, at) => `  ${at < wave ? '*' : ' '} wave ${at + 1}: ${waveText(each)}`),
    `  each for ${holdSeconds} s and ${watch.least} requests at least; withdrawn if ${watch.refusals} more in 100 are refused`,
    ...(figures ? [sideText('inside:', figures.inside), sideText('outside:', figures.outside)] : []),
    `  next: ${next}`,
  ];
  return session.out.lines(lines, change, id);
}
