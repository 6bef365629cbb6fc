/**
 * The Helm chart over a table of values: lint, every object against the schemas of Kubernetes, references between objects,
 * what the restricted security standard demands, and flags and variables as the CLI reads them. No cluster is involved.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { z } from 'zod';
import { runs } from '../support/budget.ts';
import { checkFlags } from './flags.ts';

const root = resolve(import.meta.dirname, '../..');
const chart = join(root, 'deploy/helm/headgate');
const tools = join(root, '.cache/deploy');
const [helm4, helm3] = ['4.1.4', '3.17.2'].map((version) => join(tools, `helm-${version}`)) as [
  string,
  string,
];

const areThere = existsSync(helm4) && existsSync(helm3) && existsSync(join(tools, 'kubernetes-validate'));
const isRequired = (process.env['HEADGATE_REQUIRE'] ?? '').split(',').includes('helm');
// A second or two of processor time for each row, which the fast tier does not have.
const isAsked = isRequired || (areThere && runs({ fast: 0, full: 1 }) > 0);
if (!areThere && !isRequired) console.warn('SKIPPED: the chart needs `node test/deploy/install.mjs`');

type Values = Readonly<Record<string, unknown>>;
const minimal: Values = {
  log: { url: 'kafka://kafka-0.kafka:9092,kafka-1.kafka:9092' },
  secrets: { operatorToken: { name: 'operator' }, gatewayToken: { name: 'gateways' } },
  hosts: { shared: ['api.example.net'], stackDomain: 'stacks.example.net' },
};
const monitoring: Values = {
  serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
  rules: { enabled: true },
  dashboards: { enabled: true },
};
const console_: Values = { console: { enabled: true, host: 'console.example.net' } };
const parents = [{ name: 'edge', namespace: 'gateways' }];
const everything: Values = {
  ...minimal,
  ...monitoring,
  ...console_,
  log: { ...(minimal['log'] as object), envSecret: 'kafka-env', filesSecret: 'kafka-files' },
  secrets: {
    ...(minimal['secrets'] as object),
    gatewayTokenPrevious: { name: 'gateways', key: 'previous' },
    signingKey: { name: 'signing', key: 'key.pem' },
    nodeCredentials: 'nodes',
  },
  trustSigners: ['a'.repeat(64), 'b'.repeat(64)],
  tls: { secretName: 'certificate', hasAuthority: true },
  image: { digest: `sha256:${'0'.repeat(64)}`, pullSecrets: [{ name: 'registry' }] },
  ingress: { enabled: true, className: 'nginx', tlsSecretName: 'edge', consoleTlsSecretName: 'edge' },
  httpRoute: { enabled: true, parentRefs: parents },
  gateway: {
    replicas: 5,
    whenStale: 'serve',
    drainDelaySeconds: 10,
    drainTimeoutSeconds: 600,
    storage: { size: '50Gi', className: 'fast' },
    args: ['--decisions', 'off', '--max-connections', '20000'],
    env: [{ name: 'HEADGATE_LOG_LEVEL', value: 'debug' }],
    annotations: { a: 'b' },
    nodeSelector: { pool: 'gateways' },
    tolerations: [{ key: 'dedicated', operator: 'Exists', effect: 'NoSchedule' }],
    affinity: { nodeAffinity: {} },
  },
  networkPolicy: {
    apiFrom: [{ ipBlock: { cidr: '10.0.0.0/8' } }],
    adminFrom: [{ namespaceSelector: { matchLabels: { engines: 'true' } } }],
    consoleFrom: [{ namespaceSelector: {} }],
    metricsFrom: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } }],
  },
};
const table: readonly (readonly [string, Values])[] = [
  ['the least that it needs', minimal],
  ['gateways without a volume', { ...minimal, gateway: { ephemeral: true } }],
  ['TLS', { ...minimal, tls: { secretName: 'certificate' } }],
  ['snapshots over plain HTTP', { ...minimal, insecureSnapshots: true }],
  ['an Ingress with the console', { ...minimal, ...console_, ingress: { enabled: true } }],
  ['an HTTPRoute', { ...minimal, httpRoute: { enabled: true, parentRefs: parents } }],
  ['monitoring', { ...minimal, ...monitoring }],
  ['long names', { ...minimal, fullnameOverride: `h${'x'.repeat(120)}`, networkPolicy: { enabled: false } }],
  ['everything', everything],
];

const anyMap = z.record(z.string(), z.string());
const parentSchema = z.strictObject({ name: z.string(), namespace: z.string().optional() });
/** The parts that the chart uses of resources whose schemas Kubernetes does not have. */
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

interface Named {
  readonly name: string;
}
interface Container extends Named {
  readonly args: readonly string[];
  readonly env: readonly (Named & {
    readonly value?: string;
    readonly valueFrom?: { readonly secretKeyRef?: Named; readonly fieldRef?: object };
  })[];
  readonly ports?: readonly (Named & { readonly containerPort: number })[];
  readonly securityContext: object;
  readonly volumeMounts: readonly (Named & { readonly mountPath: string })[];
}
interface PodSpec {
  readonly automountServiceAccountToken: boolean;
  readonly serviceAccountName: string;
  readonly terminationGracePeriodSeconds?: number;
  readonly securityContext: object;
  readonly containers: readonly Container[];
  readonly volumes?: readonly (Named & { readonly secret?: { readonly secretName: string } })[];
}
type Labels = Readonly<Record<string, string>>;
interface Backend {
  readonly service: Named & { readonly port: Named };
}
/** The members of all kinds that the tests read. */
interface Spec extends PodSpec {
  readonly template?: { readonly metadata: { readonly labels: Labels }; readonly spec: PodSpec };
  readonly selector?: Labels & { readonly matchLabels?: Labels };
  readonly serviceName?: string;
  readonly podSelector?: { readonly matchLabels: Labels };
  readonly volumeClaimTemplates?: readonly { readonly metadata: Named }[];
  readonly ports?: readonly (Named & { readonly port: number; readonly targetPort: string })[];
  readonly ingress?: readonly { readonly ports: readonly { readonly port: string }[] }[];
  readonly rules?: readonly {
    readonly http?: { readonly paths: readonly { readonly backend: Backend }[] };
    readonly backendRefs?: readonly (Named & { readonly port: number })[];
  }[];
  readonly endpoints?: readonly { readonly relabelings: readonly { readonly replacement: string }[] }[];
}
interface Resource {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Named & { readonly namespace?: string; readonly labels: Labels };
  readonly spec: Spec;
  readonly data?: Labels;
}

const run = (command: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env) =>
  spawnSync(command, args, { encoding: 'utf8', env });
/** YAML 1.1, as Kubernetes reads it: 0440 is octal. */
const documentsOf = (text: string): readonly Resource[] =>
  parseAllDocuments(text, { version: '1.1' })
    .map((document) => document.toJS() as Resource | null)
    .filter((resource) => resource !== null);
const selects = (selector: Labels, labels: Labels) =>
  Object.entries(selector).every(([name, value]) => labels[name] === value);

describe.skipIf(!isAsked)('the chart', () => {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-chart-'));
  afterAll(() => rmSync(dir, { recursive: true }));

  function withValues(values: Values, program: string, ...words: readonly string[]) {
    const file = join(dir, 'values.yaml');
    writeFileSync(file, stringify(values, { version: '1.1' }));
    return run(program, [...words, chart, '--values', file]);
  }

  test('asks for what it cannot know, and refuses what it does not know', () => {
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
    ];
    for (const [values, what] of refused) {
      const { status, stderr } = withValues(values, helm4, 'template', 'hg');
      expect([what, status]).toEqual([what, 1]);
      expect(stderr).toContain(what);
    }
  });

  test('is packed with the rules that it links to', () => {
    const packed = run(helm4, ['package', chart, '--destination', dir]);
    expect(packed.status, packed.stderr).toBe(0);
    const name = packed.stdout.trim().split('/').pop() ?? '';
    const { stdout } = run('tar', ['xzOf', join(dir, name), 'headgate/files/headgate.rules.yaml']);
    expect(stdout).toBe(readFileSync(join(root, 'deploy/prometheus/headgate.rules.yaml'), 'utf8'));
  });

  describe.each(table)('with %s', (_, values) => {
    let text: string;
    let resources: readonly Resource[];
    beforeAll(() => {
      const rendered = withValues(values, helm4, 'template', 'hg', '--namespace', 'inference');
      expect(rendered.status, rendered.stderr).toBe(0);
      text = rendered.stdout;
      resources = documentsOf(text);
    });
    const ofKind = (kind: string) => resources.filter((resource) => resource.kind === kind);
    const planes = () =>
      ofKind('StatefulSet').map(({ spec }) => ({
        labels: spec.template!.metadata.labels,
        pod: spec.template!.spec,
        spec,
      }));
    const pods = () => [...planes().map(({ pod }) => pod), ...ofKind('Pod').map(({ spec }) => spec)];

    test('passes lint; Helm 3 renders what Helm 4 renders', () => {
      const lint = withValues(values, helm4, 'lint', '--strict');
      expect(lint.status, lint.stdout).toBe(0);
      if (values !== everything) return;
      const other = withValues(values, helm3, 'template', 'hg', '--namespace', 'inference');
      expect(documentsOf(other.stdout)).toEqual(expect.arrayContaining([...resources]));
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

    test('makes no secret, no job and nothing outside of its namespace, and no name that is too long', () => {
      const kinds = 'StatefulSet Service PodDisruptionBudget ServiceAccount NetworkPolicy Ingress HTTPRoute';
      const more = 'ServiceMonitor PrometheusRule ConfigMap Pod';
      expect(resources.map(({ kind }) => kind).filter((kind) => !`${kinds} ${more}`.includes(kind))).toEqual(
        [],
      );
      // A pod of a StatefulSet has a label with its name and a hash of ten characters.
      expect(resources.map(({ metadata: { name } }) => name).filter((name) => name.length > 52)).toEqual([]);
      expect(new Set(resources.map(({ kind, metadata: { name } }) => `${kind} ${name}`)).size).toBe(
        resources.length,
      );
    });

    test('each pod is restricted and has no token of the cluster', () => {
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

    test('each process starts with its words and variables, and only control planes have the operator token', () => {
      for (const pod of planes().map((plane) => plane.pod)) {
        const [{ args, env }] = pod.containers as [Container];
        const given = env.map(({ name, value, valueFrom }) => {
          expect([name, (value === undefined) !== (valueFrom === undefined)]).toEqual([name, true]);
          return [name, value ?? 'a-value-from-elsewhere'];
        });
        expect(new Set(given.map(([name]) => name)).size).toBe(given.length);
        checkFlags(args, Object.fromEntries(given));
        expect(env.some(({ name }) => name === 'HEADGATE_OPERATOR_TOKEN')).toBe(args[0] === 'control-plane');
        const own = env.find(({ name }) => name === 'HEADGATE_DRAIN_DELAY')?.value;
        const drain = env.find(({ name }) => name === 'HEADGATE_DRAIN_TIMEOUT')?.value;
        expect(pod.terminationGracePeriodSeconds).toBe(Number(own) + Number(drain) + 25);
      }
    });

    test('what refers to something refers to what is there', () => {
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

    test('a monitor selects the pods of one plane, under the name that the alerts select', () => {
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
      const file = readFileSync(join(root, 'deploy/prometheus/headgate.rules.yaml'), 'utf8');
      expect(rules).toEqual(isOn ? [parse(file)] : []);
    });
  });
});
