/**
 * Tests that every address that a pod of the chart reports or calls leads to the intended pod. The network policies must let
 * the call through, and its certificate must be checked for the one name that all certificates have. Names and policies are
 * resolved as in Kubernetes.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { advertisedUrl } from '../../shared/runtime/listener.ts';
import { type Caller, Cluster, type ClusterPod, type Endpoint } from './cluster.ts';
import { isAsked, type Peer, type Resource, rendered, table } from './rendered-chart.ts';

interface Address {
  readonly what: string;
  readonly caller: Caller;
  readonly url: URL;
  /** Name for which the caller checks the called pod's certificate. */
  readonly tlsName: string | undefined;
  /** Exactly the pods that the address must reach. */
  readonly leadsTo: readonly ClusterPod[];
  readonly port: number;
  /**
   * Pod states in which the address must work. Unready gateways can still explain refusals, but unready control planes have
   * no snapshots.
   */
  readonly are: readonly ('ready' | 'unready')[];
}

const hostOf = (url: string): string => new URL(url).hostname;

/** Returns the address that a gateway's process reports for itself. */
function reported({ options: { metricsBind, metricsPort, tlsCert, advertise } }: ClusterPod): string {
  return advertisedUrl(
    `${tlsCert === undefined ? 'http' : 'https'}://${metricsBind}:${metricsPort}`,
    advertise,
  );
}

function addressesOf(cluster: Cluster): Address[] {
  const [gateways, planes] = [cluster.ofComponent('gateway'), cluster.ofComponent('control-plane')];
  const snapshots = gateways.flatMap((caller) =>
    (caller.options.controlPlane ?? []).map(
      (url): Address => ({
        ...{ what: `${caller.name} fetches a snapshot`, caller, url: new URL(url) },
        ...{ tlsName: hostOf(url), leadsTo: planes, port: planes[0]?.options.port ?? 0 },
        are: ['ready'],
      }),
    ),
  );
  const decisions = planes.flatMap((caller) =>
    gateways.map((gateway): Address => {
      const url = new URL(reported(gateway));
      const tlsName = caller.options.gatewayTlsName ?? url.hostname;
      const what = `${caller.name} asks ${gateway.name} for decisions`;
      const { metricsPort: port } = gateway.options;
      return { what, caller, url, tlsName, leadsTo: [gateway], port, are: ['ready', 'unready'] };
    }),
  );
  return [...snapshots, ...decisions];
}

const podNames = (endpoints: readonly Endpoint[]) => endpoints.map(({ pod, port }) => `${pod.name}:${port}`);

describe.skipIf(!isAsked)('on the chart’s network', () => {
  describe.each(table)('with %s', (_, values) => {
    let resources: readonly Resource[];
    let cluster: Cluster;
    beforeAll(() => {
      resources = rendered(values);
      cluster = new Cluster(resources);
    });
    const certificateName = () =>
      `${resources.find(({ kind }) => kind === 'ServiceAccount')?.metadata.name}-control-plane`;

    test('addresses that pods report and call lead to the intended pods, which admit the calls', () => {
      const addresses = addressesOf(cluster);
      expect(addresses.length).toBeGreaterThan(0);
      for (const { what, caller, url, leadsTo, port, are: states } of addresses) {
        const wanted = leadsTo.map(({ name }) => `${name}:${port}`);
        for (const are of states) {
          const found = cluster.resolve(url.hostname, Number(url.port), are);
          expect([what, url.host, are, podNames(found)]).toEqual([what, url.host, are, wanted]);
          expect([what, found.filter((each) => !cluster.admits(caller, each)).length]).toEqual([what, 0]);
        }
      }
    });

    test('every certificate is checked for a single name', () => {
      const monitors = resources.flatMap(({ kind, spec }) =>
        kind === 'ServiceMonitor' ? (spec.endpoints ?? []) : [],
      );
      const checked = [
        ...addressesOf(cluster).flatMap(({ url, tlsName }) => (url.protocol === 'https:' ? [tlsName] : [])),
        ...monitors.flatMap(({ scheme, tlsConfig }) => (scheme === 'https' ? [tlsConfig?.serverName] : [])),
      ];
      expect([...new Set(checked)]).toEqual(values['tls'] === undefined ? [] : [certificateName()]);
    });

    test('the containers’ ports are those on which the processes listen, on all addresses', () => {
      for (const { ports, options } of cluster.pods) {
        const { port, metricsPort, consolePort, playPort, bind, metricsBind } = options;
        const listens = [port, metricsPort, consolePort, playPort].filter((each) => each !== undefined);
        expect(Object.values(ports).sort()).toEqual(listens.sort());
        expect([bind, metricsBind]).toEqual(['0.0.0.0', '0.0.0.0']);
      }
    });

    test('every Service in a pod’s variables is in the table of addresses', () => {
      const known = new Set(addressesOf(cluster).flatMap(({ url, tlsName }) => [url.hostname, tlsName]));
      for (const { env } of cluster.pods)
        for (const text of Object.values(env))
          for (const [host] of text.matchAll(/[a-z0-9][a-z0-9.-]*/g))
            if (cluster.serviceNames.some((name) => host === name || host.endsWith(`.${name}`)))
              expect(known).toContain(host);
    });

    test('unnamed callers reach only the API and the pages, and a policy admits those whom it names', () => {
      const policy = (values['networkPolicy'] ?? {}) as Readonly<Record<string, readonly Peer[] | undefined>>;
      if ('enabled' in policy) return;
      const unnamed: Caller = { labels: {} };
      const doors = cluster.pods.flatMap((pod) =>
        Object.entries(pod.ports).map(([name, port]) => ({
          name,
          component: pod.kind,
          endpoint: { pod, port },
        })),
      );
      const froms: Readonly<Record<string, string>> = {
        api: 'apiFrom',
        admin: 'adminFrom',
        console: 'consoleFrom',
        play: 'playgroundFrom',
        metrics: 'metricsFrom',
      };
      for (const { name, endpoint } of doors) {
        const peers = policy[froms[name] ?? ''] ?? [];
        const isOpen = ['api', 'console', 'play'].includes(name) && peers.length === 0;
        expect([name, cluster.admits(unnamed, endpoint)]).toEqual([name, isOpen]);
        for (const peer of peers) expect([name, cluster.admits({ peer }, endpoint)]).toEqual([name, true]);
      }
    });
  });
});
