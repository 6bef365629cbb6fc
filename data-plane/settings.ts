/** Settings of a gateway, taken from its options and environment variables. */
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
  /** Address on which health checks and metrics are served. The default is loopback. */
  readonly metricsBind?: string | undefined;
  readonly metricsPort: number;
  /** Address at which control planes can reach the health listener, in a form that `advertisedUrl` accepts. */
  readonly advertise?: string | undefined;
  /** Limits on the connections of all listeners, except the listener for health checks and metrics. */
  readonly connections?: Partial<ConnectionLimits> | undefined;
  readonly hosts: HostNames;
  /** Ports that each serve one stack, whatever the Host header says. */
  readonly stackPorts: readonly { readonly stack: string; readonly port: number }[];
  /** Origins whose web pages may read the API's responses. The default is none. */
  readonly corsOrigins?: ReadonlySet<string> | undefined;
  /** Settings of the playground. Undefined if there is none. */
  readonly play?: PlaySettings | undefined;
  readonly whenStale: StalePolicy;
  readonly controlPlanes: readonly string[];
  /** Whether snapshots may also be downloaded from other machines over plain HTTP. */
  readonly insecureSnapshots?: boolean | undefined;
  /** Token that gateways and control planes share. It authenticates requests for snapshots and this gateway's reports. */
  readonly gatewayToken: string;
  /** Signers, as fingerprints, public keys or PEM files. One of them must have created the log, unless the list is empty. */
  readonly trustedSigners?: readonly string[] | undefined;
  readonly nodeCredentials?: CredentialSource;
  /** Whether requests to the pool contain `cache_salt`. False if the engines refuse it. */
  readonly saltsCaches?: boolean;
  /** Time-out in ms for connecting to a node. */
  readonly connectMs: number;
  readonly forwarding: ForwardSettings;
  /** Time in seconds between reporting itself as not ready and closing the listeners. */
  readonly drainDelaySeconds: number;
  /** Time in seconds that requests in flight have to finish after the listeners were closed. */
  readonly drainTimeoutSeconds: number;
  readonly certificate?: Certificate | undefined;
  /** Intervals for following the control log and keeping its snapshot. Missing ones have defaults. */
  readonly intervals?: Partial<SnapshotIntervals>;
  /** One in this many completed requests is in the decision journal, and all other requests are. 0 turns the journal off. */
  readonly decisionsOneIn?: number | undefined;
  readonly logger: Logger;
  /** Receives the log lines about requests. The default is `logger`. */
  readonly accessLog?: AccessLog;
}
