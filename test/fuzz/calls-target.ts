/**
 * Sends JSON bodies to the admin API, the console and the visitors' page. Bodies are drawn from each command's own schema,
 * then mutated, and sent by authorised and unauthorised callers. Each call must be answered, or refused in the listener's
 * envelope. The operator's commands are dry runs, so the fleet does not change.
 */
import { z } from 'zod';
import { commands } from '../../control-plane/commands/registry.ts';
import { post } from '../play/page-calls.ts';
import { consoleCookie, operatorToken } from '../support/process-fleet.ts';
import type { Note, Target } from './campaign.ts';
import { ask } from './client.ts';
import type { Draw, Json } from './draw.ts';
import { canary, FuzzFleet, models, stacks } from './fleet.ts';
import { FleetTarget } from './fleet-target.ts';
import { bodyText } from './json-bodies.ts';
import { jsonText, mutateJson } from './mutate.ts';
import { answerFault, type ListenerKind } from './raw-answers.ts';
import { type Opaque, valueFor } from './schema-draw.ts';

interface Call {
  readonly method: string;
  readonly path: string;
  readonly body: (draw: Draw) => string;
}

interface Entrance {
  readonly kind: ListenerKind;
  readonly base: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly query: string;
  readonly calls: readonly Call[];
}

const opaque: Opaque = (draw, field) => {
  if (field === 'fleet') return { version: 1, models: [{ id: draw.word(), family: draw.text() }] };
  return field === 'models' ? ['echo-small'] : undefined;
};

const commandCalls: readonly Call[] = commands.map(({ method, path, body }) => ({
  method,
  path,
  body: (draw) => (body === undefined ? '' : drawn(draw, body as z.ZodType)),
}));

const token = z.string().max(2048);
const publicBodies = z.union([
  z.strictObject({ link: token }),
  z.strictObject({ operatorToken: token }),
  z.strictObject({ demo: token }),
  z.strictObject({ invitation: token }),
]);
const publicCalls: readonly Call[] = ['/session', '/oidc'].map((path) => ({
  ...{ method: 'POST', path },
  body: (draw) => drawn(draw, publicBodies),
}));
const explainCall: Call = {
  ...{ method: 'POST', path: '/explain' },
  body: (draw) =>
    jsonText(draw, mutateJson(draw, { organisation: 'acme', model: draw.pick(models), host: 'shared' })),
};
const solution = z.object({
  solution: z.object({ challenge: z.object({ parameters: z.object({}) }), solution: z.object({}) }),
});
const visitorCalls: readonly Call[] = [
  { method: 'POST', path: '/visitor', body: (draw) => drawn(draw, solution) },
  ...['/chat', `/stacks/${stacks.openai}/chat`].map((path) => ({
    ...{ method: 'POST', path },
    body: (draw: Draw) => bodyText(draw, 'chat'),
  })),
];

function drawn(draw: Draw, schema: z.ZodType): string {
  let body: Json = valueFor({ draw, opaque, optional: 0.5 }, schema);
  if (draw.chance(0.6))
    for (let time = draw.between(1, 3); time > 0; time--) body = mutateJson(draw, body, 0.9);
  return jsonText(draw, body);
}

export const callsTarget: Target = {
  name: 'calls',
  start: async () => {
    const fleet = await FuzzFleet.start();
    return new CallsTarget(fleet, await entrancesOf(fleet));
  },
};

async function entrancesOf(fleet: FuzzFleet): Promise<Entrance[]> {
  const { admin, console: consoleUrl } = fleet.plane.started.ready;
  const { play } = fleet.gateway.started.ready;
  const address = '127.0.0.1';
  const { cookie = '' } = await post(new URL('/api/visitor', play), {}, { address });
  const visitor = `__Host-headgate-visitor-${new URL(play).port}=${cookie}`;
  const path = '/organisations/acme/members/vic/link';
  const session = await consoleCookie(fleet.operator, { console: consoleUrl, path });
  const bearer = { authorization: `Bearer ${operatorToken}` };
  const api = `${admin}/admin/v1`;
  const called = [...commandCalls, explainCall];
  const inConsole = { kind: 'console', base: `${consoleUrl}/api`, query: '' } as const;
  const origin = { origin: consoleUrl };
  return [
    { kind: 'admin', base: api, headers: bearer, query: '?dryRun=true', calls: called },
    { kind: 'admin', base: api, headers: { ...bearer, 'x-headgate-as': 'vic' }, query: '', calls: called },
    { kind: 'admin', base: api, headers: {}, query: '', calls: called },
    { ...inConsole, headers: { ...origin, cookie: session }, calls: called },
    { ...inConsole, headers: origin, calls: publicCalls },
    {
      ...{ kind: 'play', base: `${play}/api`, query: '', calls: visitorCalls },
      headers: { origin: play, cookie: visitor },
    },
  ];
}

class CallsTarget extends FleetTarget {
  readonly workers = 6;
  readonly #entrances: readonly Entrance[];
  #good = 0;

  constructor(fleet: FuzzFleet, entrances: readonly Entrance[]) {
    super(fleet);
    this.#entrances = entrances;
  }

  async tryCase(draw: Draw, note: Note): Promise<string[]> {
    const { kind, base, headers: own, query, calls } = draw.pick(this.#entrances);
    const { method, path: pattern, body: make } = draw.pick(calls);
    const path = pattern.replaceAll(/:[a-z]+/gi, () => encodeURIComponent(pathPart(draw)));
    const body = make(draw);
    const headers = { ...own, 'content-type': 'application/json' };
    note(JSON.stringify({ kind, method, path, body }));
    const answer = await ask({ url: `${base}${path}${query}`, method, headers, body, agent: this.agent });
    const { status } = answer;
    if (status === 0) return [`${kind} ${method} ${pattern}: no answer came`];
    if (status === 200) this.#good++;
    const faults: string[] = [];
    const bytes = Buffer.from(answer.body, 'utf8').toString('latin1');
    const fault = answerFault(kind, { ...answer, body: bytes });
    if (fault !== undefined) faults.push(fault);
    if (!answer.whole) faults.push('an answer was cut');
    if (status >= 400 && answer.body.includes(canary)) faults.push('a refusal holds the prompt');
    return faults.map((one) => `${kind} ${method} ${pattern}: ${one}`);
  }

  figures(): Record<string, number> {
    return { 'good answers': this.#good };
  }
}

function pathPart(draw: Draw): string {
  const known = ['acme', 'echo-small', 'Wide', 'pool-1', 'vic', stacks.openai, '1'];
  // Removes lone surrogates, because a URL cannot contain them.
  return draw.chance(0.7) ? draw.pick(known) : draw.word().replaceAll(/[\ud800-\udfff]/g, '') || 'x';
}
