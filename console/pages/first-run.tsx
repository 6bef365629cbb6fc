/** Shows the steps that set up an empty fleet, as commands that can be run one after the other without editing. */
import type { Addresses } from '../lib/addresses.ts';
import { shellWord } from '../lib/format.ts';
import type { FleetReads } from '../lib/holes.ts';
import { pickChatModel } from '../lib/model-kinds.ts';
import { usePath, useRead } from '../lib/read.ts';
import { Empty, Id, State } from '../ui/parts.tsx';

/** Placeholder for a model in commands while no model is known. */
const anyModel = 'MODEL';
const anyGateway = 'http://127.0.0.1:8080/v1';
/** Model names that are safe in commands. A node may report any text, even one that a command mistakes for an option. */
const modelPattern = /^[A-Za-z0-9][A-Za-z0-9._:/-]*$/;

/** Picks a model for chat. Prefers an installed one; otherwise picks one that a node has loaded. */
function pickModel({ nodes, pool, stacks }: FleetReads): string {
  const installed = [...pool.models, ...stacks.flatMap(({ models }) => models)];
  const loaded = nodes.flatMap((node) => node.loaded);
  const safe = [...installed, ...loaded].filter((model) => modelPattern.test(model));
  return pickChatModel(safe) ?? anyModel;
}

function setupCommands(state: FleetReads, gateway: string): readonly (readonly [string, string])[] {
  const model = pickModel(state);
  const id = shellWord(model);
  const body = shellWord(JSON.stringify({ model, messages: [{ role: 'user', content: 'hello' }] }));
  return [
    [
      'Register a node',
      'headgate node register pool-1 --url http://127.0.0.1:8000 --dialect vllm --place pool',
    ],
    ['Offer its model', `headgate model set ${id} --family ${id} && headgate pool install ${id}`],
    [
      'Create a tier, an organisation and a key',
      "headgate tier set Starter --models '*' && headgate org create acme --name Acme --tier Starter && headgate key create --org acme --name first --expires 90d",
    ],
    [
      'Send a request',
      `curl ${gateway}/chat/completions -H 'Authorization: Bearer KEY' -H 'Content-Type: application/json' -d ${body}`,
    ],
  ];
}

/** Shows the setup steps. Ticks off each step when the events that complete it arrive. */
export function FirstRun({ state }: { readonly state: FleetReads }) {
  const { nodes, pool, stacks, organisations } = state;
  const keys = useRead(organisations.length > 0 ? 'key.list' : undefined, { limit: 1 }).data;
  const uses = useRead('usage.keys', {}, { everyMs: 3000 }).data;
  const { shared = anyGateway } = usePath<Addresses>('/addresses').data ?? {};
  const done = [
    nodes.length > 0,
    pool.models.length > 0 || stacks.some(({ models }) => models.length > 0),
    (keys?.items.length ?? 0) > 0,
    (uses?.items.length ?? 0) > 0,
  ];
  return (
    <Empty title="Four steps to the first answer">
      <ol class="rows">
        {setupCommands(state, shared).map(([title, command], index) => (
          <li key={title}>
            <strong>{title}</strong>
            <State tone={done[index] ? 'good' : 'idle'}>{done[index] ? 'done' : 'to do'}</State>
            <Id id={command} label={`Copy: ${title}`} />
          </li>
        ))}
      </ol>
    </Empty>
  );
}
