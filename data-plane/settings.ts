/** Settings of a gateway, as its options and variables give them. */
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
  /** Of health and metrics; loopback unless given. */
  readonly metricsBind?: string | undefined;
  readonly metricsPort: number;
  /** Where control planes reach that listener, as `advertisedUrl` takes it. */
  readonly advertise?: string | undefined;
  /** Of each listener but that of health and metrics. */
  readonly connections?: Partial<ConnectionLimits> | undefined;
  readonly hosts: HostNames;
  /** Ports that serve one stack each, whatever the Host header is. */
  readonly stackPorts: readonly { readonly stack: string; readonly port: number }[];
  /** Origins whose pages may read answers of the API; left out: none. */
  readonly corsOrigins?: ReadonlySet<string> | undefined;
  /** The page for visitors; left out: none. */
  readonly play?: PlaySettings | undefined;
  readonly whenStale: StalePolicy;
  readonly controlPlanes: readonly string[];
  /** Also fetch snapshots over plain HTTP from another machine. */
  readonly insecureSnapshots?: boolean | undefined;
  /** Shared with the control planes: fetches snapshots, and authenticates this gateway's reports. */
  readonly gatewayToken: string;
  /** Fingerprints, public keys or PEM files: one of them must have begun the log. None: any log will do. */
  readonly trustedSigners?: readonly string[] | undefined;
  readonly nodeCredentials?: CredentialSource;
  /** false: requests to the pool go without `cache_salt`, for engines that refuse it. */
  readonly saltsCaches?: boolean;
  /** For a connection to a node. */
  readonly connectMs: number;
  readonly forwarding: ForwardSettings;
  /** Between the loss of readiness and the end of new connections, seconds. */
  readonly drainDelaySeconds: number;
  /** How long streams may continue after that, seconds. */
  readonly drainTimeoutSeconds: number;
  /** Of every listener. */
  readonly certificate?: Certificate | undefined;
  /** Of the control log and its snapshot; the defaults where they are left out. */
  readonly intervals?: Partial<SnapshotIntervals>;
  /** Of completed requests one in so many is kept in the decision journal, of all others each; 0: no journal. */
  readonly decisionsOneIn?: number | undefined;
  readonly logger: Logger;
  /** For the lines of requests; `logger` unless it is given. */
  readonly accessLog?: AccessLog;
}
