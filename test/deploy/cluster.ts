/**
 * Models how Kubernetes connects rendered objects: pods with their variables, the pods behind each name, and the callers that
 * network policies admit. Each process has the options from its command line and variables.
 */
import { checkFlags } from './flags.ts';
import {
  type Container,
  type Labels,
  namespace,
  type Peer,
  type Resource,
  selects,
} from './rendered-chart.ts';

interface ProcessOptions {
  readonly bind: string;
  readonly port: number;
  readonly metricsBind: string;
  readonly metricsPort: number;
  readonly tlsCert?: string;
  readonly advertise?: string;
  readonly controlPlane?: readonly string[];
  readonly gatewayTlsName?: string;
  readonly consolePort?: number;
  readonly playPort?: number;
}

export interface ClusterPod {
  readonly name: string;
  readonly labels: Labels;
  /** Name of the headless Service that gives the pod its host name. */
  readonly service: string;
  readonly ports: Readonly<Record<string, number>>;
  readonly env: Readonly<Record<string, string>>;
  readonly kind: string;
  readonly options: ProcessOptions;
}

export interface Endpoint {
  readonly pod: ClusterPod;
  readonly port: number;
}

/** A pod of the release, or a peer from another namespace that a policy names. */
export type Caller = { readonly labels: Labels } | { readonly peer: Peer };

export class Cluster {
  readonly pods: readonly ClusterPod[];
  readonly #resources: readonly Resource[];

  constructor(resources: readonly Resource[]) {
    this.#resources = resources;
    this.pods = this.#ofKind('StatefulSet').flatMap(podsOf);
  }

  ofComponent(component: string): ClusterPod[] {
    return this.pods.filter(({ labels }) => labels['app.kubernetes.io/component'] === component);
  }

  /** Names of the Services, in every form that pods of the same namespace can use. */
  get serviceNames(): string[] {
    return this.#ofKind('Service').flatMap(({ metadata }) => formsOf(metadata.name));
  }

  /**
   * Returns the endpoints that a pod of the namespace reaches at this name and port, either while all pods are ready or while
   * none is.
   */
  resolve(host: string, port: number, are: 'ready' | 'unready'): Endpoint[] {
    return this.#ofKind('Service').flatMap(({ metadata: { name }, spec }): Endpoint[] => {
      const forms = formsOf(name);
      const selected = this.pods.filter(({ labels }) => selects(spec.selector as Labels, labels));
      const known = are === 'ready' || spec.publishNotReadyAddresses === true ? selected : [];
      if (spec.clusterIP === 'None')
        return known
          .filter(
            (pod) =>
              forms.includes(host) ||
              (pod.service === name && forms.some((form) => host === `${pod.name}.${form}`)),
          )
          .map((pod) => ({ pod, port }));
      if (!forms.includes(host)) return [];
      const target = spec.ports?.find((each) => each.port === port)?.targetPort ?? '';
      return known.flatMap((pod) =>
        pod.ports[target] === undefined ? [] : [{ pod, port: pod.ports[target] }],
      );
    });
  }

  /** Whether the name belongs to the pod, or to a Service that leads to it. */
  leadsTo(host: string, pod: ClusterPod): boolean {
    return this.#ofKind('Service').some(({ metadata: { name }, spec }) => {
      if (!selects(spec.selector as Labels, pod.labels)) return false;
      const isOwn = spec.clusterIP === 'None' && pod.service === name;
      return formsOf(name).some((form) => host === form || (isOwn && host === `${pod.name}.${form}`));
    });
  }

  /** Whether the network policies let the caller reach the endpoint. */
  admits(caller: Caller, { pod, port }: Endpoint): boolean {
    const policies = this.#ofKind('NetworkPolicy').filter(({ spec }) =>
      selects(spec.podSelector?.matchLabels ?? {}, pod.labels),
    );
    const rules = policies.flatMap(({ spec }) => spec.ingress ?? []);
    return (
      policies.length === 0 ||
      rules.some(
        ({ ports, from }) =>
          ports.some((each) => pod.ports[each.port] === port) &&
          (from === undefined || from.some((peer) => isPeer(caller, peer))),
      )
    );
  }

  #ofKind(kind: string): Resource[] {
    return this.#resources.filter((resource) => resource.kind === kind);
  }
}

function formsOf(service: string): string[] {
  const own = `${service}.${namespace}`;
  return [service, own, `${own}.svc`, `${own}.svc.cluster.local`];
}

function isPeer(caller: Caller, peer: Peer): boolean {
  if ('peer' in caller) return JSON.stringify(caller.peer) === JSON.stringify(peer);
  const isHere = peer.namespaceSelector === undefined && peer.ipBlock === undefined;
  return isHere && selects(peer.podSelector?.matchLabels ?? {}, caller.labels);
}

function podsOf({ metadata, spec }: Resource): ClusterPod[] {
  const { metadata: labelled, spec: pod } = spec.template ?? { metadata: { labels: {} }, spec };
  const [container] = pod.containers as [Container];
  const ports = Object.fromEntries(
    (container.ports ?? []).map(({ name, containerPort }) => [name, containerPort]),
  );
  return Array.from({ length: spec.replicas ?? 1 }, (_, ordinal) => {
    const name = `${metadata.name}-${ordinal}`;
    const env = envOf(container, { 'metadata.name': name, 'metadata.namespace': namespace });
    return {
      ...{ name, labels: labelled.labels, service: spec.serviceName ?? '', ports, env },
      kind: container.args[0] ?? '',
      options: checkFlags(container.args, env) as unknown as ProcessOptions,
    };
  });
}

/** Resolves variables as the kubelet does: `$(NAME)` refers to an earlier variable. Secrets get a placeholder text. */
export function envOf({ env }: Container, fields: Labels): Record<string, string> {
  const made: Record<string, string> = {};
  for (const { name, value, valueFrom } of env)
    made[name] =
      value?.replaceAll(/\$\((\w+)\)/g, (text, variable: string) => made[variable] ?? text) ??
      fields[valueFrom?.fieldRef?.fieldPath ?? ''] ??
      'a-value-from-elsewhere';
  return made;
}
