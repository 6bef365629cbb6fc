/** Settings of a gateway, from its options and environment variables. */
import type { StalePolicy } from '../schemas/records/status.ts';
import type { HostNames } from '../shared/decision/admission.ts';
import type { ConnectionLimits } from '../shared/runtime/connections.ts';
import type { AccessLog, Logger } from '../shared/runtime/logger.ts';
import type { CredentialSource } from '../shared/runtime/node-credentials.ts';
import type { Certificate } from '../shared/runtime/tls.ts';
import type { ForwardSettings } from './nodes/forward.ts';
import type { PlaySettings } from './playground/start-play.ts';
import type { SnapshotIntervals } from './snapshot/intervals.ts';

export interface GatewaySettings {
  readonly logUrl: string;
  readonly dataDir: string;
  readonly name: string;
  readonly bind: string;
  readonly port: number;
  /** Bind address of health and metrics; loopback by default. */
  readonly metricsBind?: string | undefined;
  readonly metricsPort: number;
  /** Address at which control planes reach the health listener, in the form that `advertisedUrl` accepts. */
  readonly advertise?: string | undefined;
  /** Connection limits of every listener except health and metrics. */
  readonly connections?: Partial<ConnectionLimits> | undefined;
  readonly hosts: HostNames;
  /** Ports that serve one stack each, regardless of the Host header. */
  readonly stackPorts: readonly { readonly stack: string; readonly port: number }[];
  /** Origins whose pages may read the API's answers; none by default. */
  readonly corsOrigins?: ReadonlySet<string> | undefined;
  /** Settings of the playground; undefined disables it. */
  readonly play?: PlaySettings | undefined;
  readonly whenStale: StalePolicy;
  readonly controlPlanes: readonly string[];
  /** Also fetches snapshots from other machines over plain HTTP. */
  readonly insecureSnapshots?: boolean | undefined;
  /** Token shared with the control planes. It authenticates snapshot requests and this gateway's reports. */
  readonly gatewayToken: string;
  /** Fingerprints, public keys or PEM files. One of these signers must have begun the log; if empty, any log will do. */
  readonly trustedSigners?: readonly string[] | undefined;
  readonly nodeCredentials?: CredentialSource;
  /** If false, requests to the pool are sent without `cache_salt`, for engines that refuse it. */
  readonly saltsCaches?: boolean;
  /** Timeout of a connection to a node, in ms. */
  readonly connectMs: number;
  readonly forwarding: ForwardSettings;
  /** Seconds between the loss of readiness and the refusal of new connections. */
  readonly drainDelaySeconds: number;
  /** Seconds for which streams may continue after that. */
  readonly drainTimeoutSeconds: number;
  /** Certificate of every listener. */
  readonly certificate?: Certificate | undefined;
  /** Intervals of the control log and its snapshot; omitted ones have defaults. */
  readonly intervals?: Partial<SnapshotIntervals>;
  /** Records one in this many completed requests in the decision journal, and every other request. 0 disables it. */
  readonly decisionsOneIn?: number | undefined;
  readonly logger: Logger;
  /** Receives the log lines of requests; `logger` by default. */
  readonly accessLog?: AccessLog;
}
