/** Components that show a node's state in one word, its place and its models, and the dialog that drains a node. */
import type { LiveNodeResource } from '../../schemas/admin/admin.ts';
import { CommandDialog } from '../ui/effect.tsx';
import { Name, Names } from '../ui/name.tsx';
import { State } from '../ui/parts.tsx';

export function NodeState({ node: { up, drained, reason } }: { readonly node: LiveNodeResource }) {
  if (drained) return <State tone="idle">drained</State>;
  if (up) return <State tone="good">up</State>;
  return (
    <span title={reason}>
      <State tone="bad">down</State>
    </span>
  );
}

/** Lists the models that the node's agent is loading or could not load. */
export function Installs({ node: { installs = [] } }: { readonly node: LiveNodeResource }) {
  if (installs.length === 0) return null;
  return (
    <ul class="row small">
      {installs.map((install) => (
        <li key={install.model}>
          <InstallState install={install} about={install.model} />
        </li>
      ))}
    </ul>
  );
}

type Install = NonNullable<LiveNodeResource['installs']>[number];

export function InstallState({
  install: { state, percent, reason },
  about,
}: {
  readonly install: Install;
  /** Name of the model, or of the node that loads it. */
  readonly about: string;
}) {
  if (state === 'failed')
    return (
      <State tone="bad">
        {about}: {reason ?? 'could not be loaded'}
      </State>
    );
  return (
    <State tone="info">
      {about}: loading{percent === undefined ? '' : `, ${percent} %`}
    </State>
  );
}

/** Lists the loaded models by their catalog ids. */
export function LoadedModels({ node: { loaded, models = {} } }: { readonly node: LiveNodeResource }) {
  const idOf = new Map(Object.entries(models).map(([id, name]) => [name, id]));
  return <Names kind="model" ids={loaded.map((name) => idOf.get(name) ?? name)} none="nothing loaded" />;
}

export function Place({ node: { place } }: { readonly node: LiveNodeResource }) {
  if (place.kind === 'pool') return <>the pool</>;
  return <Name of={{ kind: place.kind, id: place.id }} />;
}

export function DrainDialog({
  node: { id, drained },
  onClose,
}: {
  readonly node: LiveNodeResource;
  readonly onClose: () => void;
}) {
  return (
    <CommandDialog
      title={`${drained ? 'Undrain' : 'Drain'} ${id}`}
      action={drained ? 'Undrain' : 'Drain'}
      command={{ name: drained ? 'node.undrain' : 'node.drain', input: { id } }}
      onClose={onClose}
      onDone={onClose}
    >
      <p>
        {drained
          ? 'It gets requests again as soon as it is up.'
          : 'It gets no new requests. Requests in flight finish. To drain the last node of a model, use the command line with --force.'}
      </p>
    </CommandDialog>
  );
}
