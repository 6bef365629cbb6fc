/** Renders the Helm chart with values and parses the result. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseAllDocuments, stringify } from 'yaml';
import { runs } from '../support/budget.ts';

export const root = resolve(import.meta.dirname, '../..');
const chart = join(root, 'deploy/helm/headgate');
export const tools = join(root, '.cache/deploy');
export const [helm4, helm3] = ['4.1.4', '3.17.2'].map((version) => join(tools, `helm-${version}`)) as [
  string,
  string,
];

const areThere = existsSync(helm4) && existsSync(helm3) && existsSync(join(tools, 'kubernetes-validate'));
const isRequired = (process.env['HEADGATE_REQUIRE'] ?? '').split(',').includes('helm');
// Skipped in the fast tier, because each row takes a second or two of CPU time.
export const isAsked = isRequired || (areThere && runs({ fast: 0, full: 1 }) > 0);
if (!areThere && !isRequired) console.warn('SKIPPED: the chart needs `node test/deploy/install.mjs`');

export type Values = Readonly<Record<string, unknown>>;
export const minimal: Values = {
  log: { url: 'kafka://kafka-0.kafka:9092,kafka-1.kafka:9092' },
  secrets: { operatorToken: { name: 'operator' }, gatewayToken: { name: 'gateways' } },
  hosts: { shared: ['api.example.net'], stackDomain: 'stacks.example.net' },
};
const prometheus = { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } };
const monitoring: Values = {
  networkPolicy: { metricsFrom: [prometheus] },
  serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
  rules: { enabled: true },
  dashboards: { enabled: true },
};
const playground: Values = {
  playground: { enabled: true, host: 'play.example.net', trustedProxies: ['10.0.0.0/8', 'fd00::/8'] },
};
const console_: Values = { console: { enabled: true, host: 'console.example.net' } };
const parents = [{ name: 'edge', namespace: 'gateways' }];
export const everything: Values = {
  ...minimal,
  ...monitoring,
  ...console_,
  ...playground,
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
  ingress: {
    enabled: true,
    className: 'nginx',
    tlsSecretName: 'edge',
    consoleTlsSecretName: 'edge',
    playgroundTlsSecretName: 'edge',
  },
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
    kafka: { envSecret: 'kafka-gateways', filesSecret: 'kafka-gateway-files' },
  },
  controlPlane: { holdUpgrade: true },
  rules: { enabled: true, runbookBase: 'https://git.example.net/headgate/blob/main/' },
  networkPolicy: {
    apiFrom: [{ ipBlock: { cidr: '10.0.0.0/8' } }],
    adminFrom: [{ namespaceSelector: { matchLabels: { engines: 'true' } } }],
    consoleFrom: [{ namespaceSelector: {} }],
    playgroundFrom: [{ namespaceSelector: { matchLabels: { edge: 'true' } } }],
    metricsFrom: [prometheus],
  },
};
export const table: readonly (readonly [string, Values])[] = [
  ['the least that it needs', minimal],
  ['gateways without a volume', { ...minimal, gateway: { ephemeral: true } }],
  ['TLS', { ...minimal, tls: { secretName: 'certificate' } }],
  ['snapshots over plain HTTP', { ...minimal, insecureSnapshots: true }],
  ['an Ingress with the console', { ...minimal, ...console_, ingress: { enabled: true } }],
  ['an HTTPRoute', { ...minimal, httpRoute: { enabled: true, parentRefs: parents } }],
  ['monitoring', { ...minimal, ...monitoring }],
  ['a playground behind an Ingress', { ...minimal, ...playground, ingress: { enabled: true } }],
  [
    'a playground behind an HTTPRoute',
    { ...minimal, ...playground, httpRoute: { enabled: true, parentRefs: parents } },
  ],
  ['Kafka credentials of the gateways alone', { ...minimal, gateway: { kafka: { envSecret: 'gateways' } } }],
  ['long names', { ...minimal, fullnameOverride: `h${'x'.repeat(120)}`, networkPolicy: { enabled: false } }],
  ['everything', everything],
];

interface NamedObject {
  readonly name: string;
}
export interface Container extends NamedObject {
  readonly args: readonly string[];
  readonly env: readonly (NamedObject & {
    readonly value?: string;
    readonly valueFrom?: {
      readonly secretKeyRef?: NamedObject;
      readonly fieldRef?: { readonly fieldPath: string };
    };
  })[];
  readonly ports?: readonly (NamedObject & { readonly containerPort: number })[];
  readonly securityContext: object;
  readonly volumeMounts: readonly (NamedObject & { readonly mountPath: string })[];
  readonly envFrom?: readonly { readonly secretRef: NamedObject }[];
  readonly readinessProbe?: { readonly httpGet: { readonly path: string } };
}
export interface PodSpec {
  readonly automountServiceAccountToken: boolean;
  readonly serviceAccountName: string;
  readonly terminationGracePeriodSeconds?: number;
  readonly securityContext: object;
  readonly containers: readonly Container[];
  readonly volumes?: readonly (NamedObject & { readonly secret?: { readonly secretName: string } })[];
}
export type Labels = Readonly<Record<string, string>>;
export interface Peer {
  readonly podSelector?: { readonly matchLabels?: Labels };
  readonly namespaceSelector?: { readonly matchLabels?: Labels };
  readonly ipBlock?: object;
}
interface Backend {
  readonly service: NamedObject & { readonly port: NamedObject };
}
/** The members of `spec` that the tests read, for all kinds of resources together. */
interface Spec extends PodSpec {
  readonly template?: { readonly metadata: { readonly labels: Labels }; readonly spec: PodSpec };
  readonly selector?: Labels & { readonly matchLabels?: Labels };
  readonly serviceName?: string;
  readonly replicas?: number;
  readonly clusterIP?: string;
  readonly unhealthyPodEvictionPolicy?: string;
  readonly updateStrategy?: { readonly rollingUpdate: { readonly partition: number } };
  readonly publishNotReadyAddresses?: boolean;
  readonly podSelector?: { readonly matchLabels: Labels };
  readonly volumeClaimTemplates?: readonly { readonly metadata: NamedObject }[];
  readonly ports?: readonly (NamedObject & { readonly port: number; readonly targetPort: string })[];
  readonly ingress?: readonly {
    readonly ports: readonly { readonly port: string }[];
    readonly from?: readonly Peer[];
  }[];
  readonly rules?: readonly {
    readonly http?: { readonly paths: readonly { readonly backend: Backend }[] };
    readonly backendRefs?: readonly (NamedObject & { readonly port: number })[];
  }[];
  readonly endpoints?: readonly {
    readonly port: string;
    readonly scheme: string;
    readonly tlsConfig?: { readonly serverName: string };
    readonly relabelings: readonly { readonly replacement: string }[];
  }[];
}
export interface Resource {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: NamedObject & { readonly namespace?: string; readonly labels: Labels };
  readonly spec: Spec;
  readonly data?: Labels;
}

export const run = (command: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env) =>
  spawnSync(command, args, { encoding: 'utf8', env });
/** Parses YAML 1.1 as Kubernetes does, so 0440 is an octal number. */
const documentsOf = (text: string): readonly Resource[] =>
  parseAllDocuments(text, { version: '1.1' })
    .map((document) => document.toJS() as Resource | null)
    .filter((resource) => resource !== null);
export const selects = (selector: Labels, labels: Labels) =>
  Object.entries(selector).every(([name, value]) => labels[name] === value);

/** Runs Helm once with these words, the chart, and the values in a file. */
export function withValues(values: Values, program: string, ...words: readonly string[]) {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-values-'));
  try {
    const file = join(dir, 'values.yaml');
    writeFileSync(file, stringify(values, { version: '1.1' }));
    return run(program, [...words, chart, '--values', file]);
  } finally {
    rmSync(dir, { recursive: true });
  }
}

export const namespace = 'inference';

/** Renders the chart. Throws Helm's error if rendering fails. */
export function rendered(values: Values, program = helm4): readonly Resource[] {
  const { status, stdout, stderr } = withValues(values, program, 'template', 'hg', '--namespace', namespace);
  if (status !== 0) throw new Error(stderr);
  return documentsOf(stdout);
}
