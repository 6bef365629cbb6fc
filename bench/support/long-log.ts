/** The events of a long log: mostly keys, with people, organisations and the health of nodes. */
import type { KnownEvent } from '../../schemas/events.ts';
import { known, sha256 } from '../../test/support/commits.ts';
import { type Random, seededRandom } from '../../test/support/random.ts';

const organisations = 1000;
const nodes = 50;

function keyCreated(n: number): KnownEvent {
  return known('key.created', {
    id: `key-${n}`,
    organisation: `org-${n % organisations}`,
    name: `service ${n % 77}`,
    hash: sha256(`key ${n}`),
    expires: 'never',
    expiresAt: null,
  });
}

/** What a fleet has before its first key: tiers, models, organisations and nodes that serve. */
function foundation(): KnownEvent[] {
  const events: KnownEvent[] = [];
  for (const [rank, id] of ['Starter', 'Team', 'Platinum'].entries())
    events.push(known('tier.set', { id, rank, requestsPerMinute: 60, models: '*' }));
  for (const id of ['echo-small', 'echo-large']) {
    events.push(known('model.set', { id, family: 'echo', added: '2026-01-01T00:00:00Z', weight: 1 }));
    events.push(known('pool.model_installed', { model: id }));
  }
  for (let n = 0; n < organisations; n++) events.push(organisationSet(n));
  for (let n = 0; n < nodes; n++) {
    const url = `http://127.0.0.1:${9000 + n}`;
    events.push(
      known('node.registered', {
        id: `node-${n}`,
        place: { kind: 'pool' },
        url,
        dialect: 'vllm',
        agent: true,
      }),
      known('node.joined', { id: `node-${n}`, owner: 'control-1', generation: 1 }),
      healthChanged(n, true),
    );
  }
  return events;
}

function organisationSet(n: number): KnownEvent {
  const id = `org-${n % organisations}`;
  return known('organisation.set', { id, name: `Organisation ${n}`, tier: 'Team', anchor: '2026-01-01' });
}
function healthChanged(n: number, up: boolean): KnownEvent {
  return known('node.health_changed', {
    id: `node-${n % nodes}`,
    owner: 'control-1',
    generation: 1,
    up,
    models: ['echo-small', 'echo-large'],
  });
}

/** Of a hundred events: 90 keys made, 4 revoked, 2 members, 2 changes of health, 2 changes of organisations. */
function laterEvent(n: number, random: Random): KnownEvent {
  const draw = random() * 100;
  if (draw < 90) return keyCreated(n);
  if (draw < 94) return known('key.revoked', { id: `key-${Math.floor(random() * n)}` });
  if (draw < 96)
    return known('member.set', {
      organisation: `org-${n % organisations}`,
      person: `p-${n}`,
      role: 'member',
    });
  return draw < 98 ? healthChanged(n, random() < 0.9) : organisationSet(n);
}

/** The events of the log, in order and in batches; the same at every call. */
export function* longLog(eventCount: number, batchSize: number): Generator<KnownEvent[]> {
  const random = seededRandom(1);
  const begin = foundation();
  yield begin;
  for (let done = begin.length; done < eventCount; done += batchSize) {
    const count = Math.min(batchSize, eventCount - done);
    yield Array.from({ length: count }, (_, index) => laterEvent(done + index, random));
  }
}
