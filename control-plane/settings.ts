/** Settings of a control-plane replica, as its options and variables give them. */
import type { ConnectionLimits } from '../shared/runtime/connections.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import type { CredentialSource } from '../shared/runtime/node-credentials.ts';
import type { Certificate } from '../shared/runtime/tls.ts';
import type { ConsoleSettings } from './console-server/start-console.ts';
import type { NodeIntervals } from './nodes/intervals.ts';

export interface ControlPlaneSettings {
  readonly logUrl: string;
  readonly dataDir: string;
  readonly name: string;
  readonly bind: string;
  readonly port: number;
  /** The option of the port; another where a process has several ports. */
  readonly portFlag?: string;
  /** Of health and metrics; loopback unless given. */
  readonly metricsBind?: string | undefined;
  readonly metricsPort: number;
  /** Of the admin API. */
  readonly connections?: Partial<ConnectionLimits> | undefined;
  readonly operatorToken: string;
  readonly gatewayToken: string;
  /** Also accepted, while gateways change over. */
  readonly previousGatewayToken?: string | undefined;
  /** PEM file with an Ed25519 private key; signs the log. */
  readonly signingKeyFile?: string | undefined;
  /** Start even if a key is given and the log is not signed. */
  readonly allowUnsigned?: boolean | undefined;
  /** Fingerprints, public keys or PEM files: one of them must have created the log. None: any log is accepted. */
  readonly trustedSigners?: readonly string[] | undefined;
  /** Folder with one file for each node credential. */
  readonly nodeCredentials?: CredentialSource;
  /** Between the loss of readiness and the end of new connections, seconds; 0 unless it is given. */
  readonly drainDelaySeconds?: number;
  /** How long requests in flight may run after that, seconds. */
  readonly drainTimeoutSeconds?: number;
  /** The console for people; none where it is left out. */
  readonly console?: ConsoleSettings | undefined;
  /** Of every listener. */
  readonly certificate?: Certificate | undefined;
  /** Each completed request is kept for so many days; its sums always. */
  readonly usageKeepDays?: number | undefined;
  /** Of history.db, above which its oldest past is cut. */
  readonly historyBytesMax?: number | undefined;
  /** How long after its end a key is forgotten; 90 days unless it is given, never where it is infinite. */
  readonly forgetKeysAfterMs?: number | undefined;
  /** The defaults where they are left out. */
  readonly nodeIntervals?: Partial<NodeIntervals> | undefined;
  /** See gatewayAgent. */
  readonly gatewayTlsName?: string | undefined;
  /** See AdminContext. */
  readonly askTimeoutMs?: number | undefined;
  readonly logger: Logger;
}
