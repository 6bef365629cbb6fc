/**
 * Tests the Helm chart for a table of values without a cluster: lint, every object against the Kubernetes schemas, references
 * between objects, the restricted security standard, and flags and variables against the CLI.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { z } from 'zod';
import { folderOfFile } from '../support/folders.ts';
import { envOf } from './cluster.ts';
import { checkFlags } from './flags.ts';
import {
  type Container,
  everything,
  helm3,
  helm4,
  isAsked,
  type Labels,
  minimal,
  type Resource,
  rendered,
  root,
  run,
  selects,
  table,
  tools,
  type Values,
  withValues,
} from './rendered-chart.ts';

const anyMap = z.record(z.string(), z.string());
const parentSchema = z.strictObject({ name: z.string(), namespace: z.string().optional() });
/** Schemas of the resources that Kubernetes itself does not define, as far as the chart uses them. */
const foreignSpecs: Readonly<Record<string, z.ZodType>> = {
  'monitoring.coreos.com/v1 ServiceMonitor': z.strictObject({
    selector: z.strictObject({ matchLabels: anyMap }),
    endpoints: z.array(
      z.strictObject({
        port: z.string(),
        interval: z.string().regex(/^\d+[ms]$/),
        scheme: z.enum(['http', 'https']),
        tlsConfig: z
          .strictObject({
            serverName: z.string(),
            ca: z.strictObject({ secret: z.strictObject({ name: z.string(), key: z.string() }) }).optional(),
          })
          .optional(),
        relabelings: z.array(z.strictObject({ targetLabel: z.string(), replacement: z.string() })),
      }),
    ),
  }),
  'monitoring.coreos.com/v1 PrometheusRule': z.strictObject({
    groups: z.array(
      z.strictObject({
        name: z.string(),
        interval: z.string().optional(),
        rules: z.array(
          z.strictObject({
            alert: z.string().optional(),
            record: z.string().optional(),
            expr: z.string(),
            for: z.string().optional(),
            labels: anyMap.optional(),
            annotations: anyMap.optional(),
          }),
        ),
      }),
    ),
  }),
  'gateway.networking.k8s.io/v1 HTTPRoute': z.strictObject({
    parentRefs: z.array(parentSchema).min(1),
    hostnames: z.array(z.string()).max(16),
    rules: z.array(
      z.strictObject({
        timeouts: z.strictObject({ request: z.string() }),
        backendRefs: z.array(z.strictObject({ name: z.string(), port: z.number() })),
      }),
    ),
  }),
};

describe.skipIf(!isAsked)('the chart', () => {
  const dir = folderOfFile('chart');

  test('requires the values that it cannot know, and refuses unknown ones', () => {
    const refused: readonly (readonly [Values, string])[] = [
      [{}, 'log'],
      [{ ...minimal, log: { url: 'sqlite:/data/log' } }, 'url'],
      [{ ...minimal, log: { url: 'kafka://user:password@kafka:9092' } }, 'url'],
      [{ ...minimal, secrets: { operatorToken: { name: 'operator' } } }, 'gatewayToken'],
      [{ ...minimal, hosts: { shared: [], stackDomain: 'stacks.example.net' } }, 'shared'],
      [{ ...minimal, gateway: { replica: 3 } }, 'replica'],
      [{ ...minimal, gateway: { env: [{ name: 'HEADGATE_OPERATOR_TOKEN', value: 'x' }] } }, 'env'],
      [{ ...minimal, console: { enabled: true } }, 'host'],
      [{ ...minimal, httpRoute: { enabled: true } }, 'parentRefs'],
      [{ ...minimal, serviceMonitor: { enabled: true } }, 'metricsFrom'],
      [{ ...minimal, playground: { enabled: true } }, 'host'],
      [{ ...minimal, playground: { trustedProxies: ['everyone'] } }, 'trustedProxies'],
      [{ ...minimal, rules: { enabled: true, runbookBase: 'docs' } }, 'runbookBase'],
    ];
    for (const [values, what] of refused) {
      const { status, stderr } = withValues(values, helm4, 'template', 'hg');
      expect([what, status]).toEqual([what, 1]);
      expect(stderr).toContain(what);
    }
  });

  test('accepts a ServiceMonitor without a NetworkPolicy and without admitted peers', () => {
    const values = { ...minimal, serviceMonitor: { enabled: true }, networkPolicy: { enabled: false } };
    expect(withValues(values, helm4, 'template', 'hg').status).toBe(0);
  });

  test.each<[string, Values, RegExp]>([
    ['a fleet that nobody scrapes', minimal, /metricsFrom is empty/],
    ['an admin API that nobody reaches', minimal, /adminFrom is empty/],
    ['gateways that read the whole log', minimal, /reads the whole log/],
    [
      'a single Kafka user for both planes',
      { ...minimal, log: { ...(minimal['log'] as object), envSecret: 'kafka' } },
      /gateway\.kafka\.envSecret/,
    ],
    [
      'an Ingress that speaks plain HTTP to pods with TLS',
      { ...minimal, tls: { secretName: 'c' }, ingress: { enabled: true } },
      /backend-protocol/,
    ],
    [
      'a Gateway that does the same',
      { ...everything, httpRoute: { enabled: true, parentRefs: [{ name: 'edge' }] } },
      /BackendTLSPolicy/,
    ],
    [
      'the certificate’s names',
      { ...minimal, tls: { secretName: 'c' } },
      /valid for hg-headgate-control-plane/,
    ],
    ['usage that is lost', { ...minimal, gateway: { ephemeral: true } }, /lost with the pod/],
  ])('mentions in its notes %s', (_, values, text) => {
    const words = ['install', 'hg', '--dry-run=client', '--namespace', 'inference'];
    const { status, stdout, stderr } = withValues(values, helm4, ...words);
    expect(status, stderr).toBe(0);
    expect(stdout.split('NOTES:')[1]).toMatch(text);
  });

  test('is packaged with the alert rules that it links to', () => {
    const packed = run(helm4, ['package', join(root, 'deploy/helm/headgate'), '--destination', dir]);
    expect(packed.status, packed.stderr).toBe(0);
    const name = packed.stdout.trim().split('/').pop() ?? '';
    const { stdout } = run('tar', ['xzOf', join(dir, name), 'headgate/files/headgate.rules.yaml']);
    expect(stdout).toBe(readFileSync(join(root, 'deploy/prometheus/headgate.rules.yaml'), 'utf8'));
  });

  describe.each(table)('with %s', (_, values) => {
    let resources: readonly Resource[];
    beforeAll(() => {
      resources = rendered(values);
    });
    const ofKind = (kind: string) => resources.filter((resource) => resource.kind === kind);
    const planes = () =>
      ofKind('StatefulSet').map(({ spec }) => ({
        labels: spec.template!.metadata.labels,
        pod: spec.template!.spec,
        spec,
      }));
    const pods = () => [...planes().map(({ pod }) => pod), ...ofKind('Pod').map(({ spec }) => spec)];

    test('passes lint, and Helm 3 renders the same as Helm 4', () => {
      const lint = withValues(values, helm4, 'lint', '--strict');
      expect(lint.status, lint.stdout).toBe(0);
      if (values !== everything) return;
      expect(rendered(values, helm3)).toEqual(expect.arrayContaining([...resources]));
    });

    test('is valid for Kubernetes 1.37, and with everything for 1.27', () => {
      const [own, foreign] = [resources, resources].map((all, index) =>
        all.filter(({ apiVersion, kind }) => `${apiVersion} ${kind}` in foreignSpecs === (index === 1)),
      ) as [Resource[], Resource[]];
      const file = join(dir, 'rendered.yaml');
      writeFileSync(file, own.map((resource) => stringify(resource, { version: '1.1' })).join('---\n'));
      const env = { ...process.env, PYTHONPATH: join(tools, 'kubernetes-validate') };
      const versions = (values === everything ? ['1.27', '1.37'] : ['1.37']).flatMap((version) => [
        '-k',
        version,
      ]);
      const words = ['-m', 'kubernetes_validate', '--strict', '--quiet', ...versions, file];
      const checked = run('python3', words, env);
      expect(checked.status, `${checked.stdout}${checked.stderr}`).toBe(0);
      for (const { apiVersion, kind, spec } of foreign) foreignSpecs[`${apiVersion} ${kind}`]?.parse(spec);
    });

    test('creates no secret, no job, nothing outside its namespace and no overlong name', () => {
      const kinds = 'StatefulSet Service PodDisruptionBudget ServiceAccount NetworkPolicy Ingress HTTPRoute';
      const more = 'ServiceMonitor PrometheusRule ConfigMap Pod';
      expect(resources.map(({ kind }) => kind).filter((kind) => !`${kinds} ${more}`.includes(kind))).toEqual(
        [],
      );
      // The pods of a StatefulSet get a label that appends a hash of ten characters to its name, so the name must be short.
      expect(resources.map(({ metadata: { name } }) => name).filter((name) => name.length > 52)).toEqual([]);
      expect(new Set(resources.map(({ kind, metadata: { name } }) => `${kind} ${name}`)).size).toBe(
        resources.length,
      );
    });

    test('restricts each pod and gives it no cluster token', () => {
      expect(pods()).toHaveLength(3);
      for (const pod of pods()) {
        expect(pod.automountServiceAccountToken).toBe(false);
        expect(ofKind('ServiceAccount').map(({ metadata }) => metadata.name)).toContain(
          pod.serviceAccountName,
        );
        expect(pod.securityContext).toMatchObject({
          runAsNonRoot: true,
          runAsUser: 1000,
          seccompProfile: { type: 'RuntimeDefault' },
        });
        for (const { securityContext } of pod.containers)
          expect(securityContext).toMatchObject({
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
          });
      }
    });

    test('starts each process with its arguments and variables, and only control planes get the operator token', () => {
      for (const pod of planes().map((plane) => plane.pod)) {
        const [container] = pod.containers as [Container];
        const { args, env } = container;
        for (const { name, value, valueFrom } of env)
          expect([name, (value === undefined) !== (valueFrom === undefined)]).toEqual([name, true]);
        const given = envOf(container, { 'metadata.name': 'a-pod-0' });
        expect(Object.keys(given)).toHaveLength(env.length);
        checkFlags(args, given);
        expect(env.some(({ name }) => name === 'HEADGATE_OPERATOR_TOKEN')).toBe(args[0] === 'control-plane');
        const own = env.find(({ name }) => name === 'HEADGATE_DRAIN_DELAY')?.value;
        const drain = env.find(({ name }) => name === 'HEADGATE_DRAIN_TIMEOUT')?.value;
        expect(pod.terminationGracePeriodSeconds).toBe(Number(own) + Number(drain) + 25);
      }
    });

    test('gives each plane, and the test pod, its own Kafka Secrets or the common ones', () => {
      const log = values['log'] as { readonly envSecret?: string; readonly filesSecret?: string };
      const own = (plane: string) => ((values[plane] ?? {}) as { kafka?: typeof log }).kafka;
      const [gateways, controlPlanes] = ['gateway', 'controlPlane'].map((plane) => ({
        ...log,
        ...own(plane),
      }));
      for (const pod of pods()) {
        const [{ args, envFrom = [] }] = pod.containers as [Container];
        const expected = args[0] === 'control-plane' ? controlPlanes : gateways;
        expect(envFrom.map(({ secretRef }) => secretRef.name)).toEqual(
          expected?.envSecret ? [expected.envSecret] : [],
        );
        const files = pod.volumes?.find(({ name }) => name === 'kafka')?.secret?.secretName;
        expect(files).toBe(expected?.filesSecret);
        const tls = pod.volumes?.find(({ name }) => name === 'tls')?.secret?.secretName;
        expect(tls).toBe((values['tls'] as { secretName?: string } | undefined)?.secretName);
      }
    });

    test('lets unready pods be evicted, and control planes serve reads without the log', () => {
      expect(ofKind('PodDisruptionBudget').map(({ spec }) => spec.unhealthyPodEvictionPolicy)).toEqual([
        'AlwaysAllow',
        'AlwaysAllow',
      ]);
      const ready = planes().map(({ pod }) => pod.containers[0]?.readinessProbe?.httpGet.path);
      expect(ready.sort()).toEqual(['/readyz', '/readyz?reads']);
      const held = planes().map(({ spec }) => spec.updateStrategy?.rollingUpdate.partition);
      expect(held.filter((each) => each !== undefined)).toEqual(values === everything ? [2] : []);
    });

    test('refers only to existing resources', () => {
      for (const { pod, spec, labels } of planes()) {
        const volumes = [
          ...(pod.volumes ?? []),
          ...(spec.volumeClaimTemplates ?? []).map((it) => it.metadata),
        ];
        const mounts = pod.containers.flatMap(({ volumeMounts }) => volumeMounts);
        expect(mounts.map(({ name }) => name).sort()).toEqual(volumes.map(({ name }) => name).sort());
        expect(selects(spec.selector!.matchLabels!, labels)).toBe(true);
        expect(ofKind('Service').map(({ metadata }) => metadata.name)).toContain(spec.serviceName);
        for (const { value = '' } of pod.containers.flatMap(({ env }) => env))
          for (const [path] of value.matchAll(/\/etc\/headgate\/[a-z-]+/g))
            expect(mounts.map(({ mountPath }) => mountPath)).toContain(path);
      }
      const selectors = [
        ...ofKind('Service').map(({ spec }) => spec.selector as Labels),
        ...ofKind('PodDisruptionBudget').map(({ spec }) => spec.selector!.matchLabels!),
        ...ofKind('NetworkPolicy').map(({ spec }) => spec.podSelector!.matchLabels),
      ];
      const targets = selectors.map((selector) => planes().filter(({ labels }) => selects(selector, labels)));
      expect(targets.map((found) => found.length)).toEqual(targets.map(() => 1));
      const portsOf = (selector: Labels) =>
        planes()
          .filter(({ labels }) => selects(selector, labels))
          .flatMap(({ pod }) => pod.containers.flatMap(({ ports = [] }) => ports.map(({ name }) => name)));
      for (const { spec } of ofKind('Service'))
        for (const { targetPort } of spec.ports!)
          expect(portsOf(spec.selector as Labels)).toContain(targetPort);
      for (const { spec } of ofKind('NetworkPolicy'))
        for (const { port } of spec.ingress!.flatMap(({ ports }) => ports))
          expect(portsOf(spec.podSelector!.matchLabels)).toContain(port);
      const services = new Map(ofKind('Service').map(({ metadata, spec }) => [metadata.name, spec.ports!]));
      for (const { service } of ofKind('Ingress').flatMap(({ spec }) =>
        spec.rules!.flatMap(({ http }) => http!.paths.map(({ backend }) => backend)),
      ))
        expect(services.get(service.name)!.map(({ name }) => name)).toContain(service.port.name);
      for (const { name, port } of ofKind('HTTPRoute').flatMap(({ spec }) =>
        spec.rules!.flatMap(({ backendRefs }) => backendRefs!),
      ))
        expect(services.get(name)!.map((it) => it.port)).toContain(port);
    });

    test('has monitors that each select one plane’s pods, under the name that the alerts use', () => {
      const found = ofKind('ServiceMonitor').map(({ spec }) => {
        const services = ofKind('Service').filter(({ metadata }) =>
          selects(spec.selector!.matchLabels!, metadata.labels),
        );
        return [
          services.map(({ metadata }) => metadata.name),
          spec.endpoints![0]!.relabelings[0]!.replacement,
        ];
      });
      const isOn = values['serviceMonitor'] !== undefined;
      expect(found).toHaveLength(isOn ? 2 : 0);
      for (const [services, job] of found) {
        expect(services).toEqual([expect.stringMatching(/-pods$/)]);
        expect(['headgate-gateway', 'headgate-control-plane']).toContain(job);
      }
      const rules = ofKind('PrometheusRule').map(({ spec }) => spec);
      const base = values === everything ? 'https://git.example.net/headgate/blob/main/' : '';
      const file = readFileSync(join(root, 'deploy/prometheus/headgate.rules.yaml'), 'utf8').replaceAll(
        'docs/runbooks/',
        `${base}docs/runbooks/`,
      );
      expect(rules).toEqual(isOn ? [parse(file)] : []);
    });
  });
});
