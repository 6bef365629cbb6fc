/** Settings of a control-plane replica, from its options and environment variables. */
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
  /** Name of the port's option; `--port` unless the process has several ports. */
  readonly portFlag?: string;
  /** Address of health and metrics; loopback by default. */
  readonly metricsBind?: string | undefined;
  readonly metricsPort: number;
  readonly connections?: Partial<ConnectionLimits> | undefined;
  readonly operatorToken: string;
  readonly gatewayToken: string;
  /** Previous token, still accepted while gateways change over. */
  readonly previousGatewayToken?: string | undefined;
  /** PEM file with the Ed25519 private key that signs the log. */
  readonly signingKeyFile?: string | undefined;
  /** Whether to start even if a signing key is given but the log is not signed. */
  readonly allowUnsigned?: boolean | undefined;
  /** Fingerprints, public keys or PEM files. One of these signers must have created the log. If empty, any log will do. */
  readonly trustedSigners?: readonly string[] | undefined;
  /** Folder with one file for each node credential. */
  readonly nodeCredentials?: CredentialSource;
  /** Seconds between the loss of readiness and the refusal of new connections; default 0. */
  readonly drainDelaySeconds?: number;
  /** Seconds that requests in flight may run after new connections are refused; default 5. */
  readonly drainTimeoutSeconds?: number;
  /** Settings of the console, or undefined if this replica has none. */
  readonly console?: ConsoleSettings | undefined;
  /** Certificate of every listener. */
  readonly certificate?: Certificate | undefined;
  /** Number of days for which each completed request is kept. Its sums are kept forever. */
  readonly usageKeepDays?: number | undefined;
  /** Size of history.db above which its oldest states are removed. */
  readonly historyBytesMax?: number | undefined;
  /** Time after which an ended key is forgotten; default 90 days. If infinite, no key is forgotten. */
  readonly forgetKeysAfterMs?: number | undefined;
  /** Intervals that differ from their defaults. */
  readonly nodeIntervals?: Partial<NodeIntervals> | undefined;
  /** TLS name of the gateways; see gatewayAgent. */
  readonly gatewayTlsName?: string | undefined;
  /** Timeout for questions to gateways; see AdminContext. */
  readonly askTimeoutMs?: number | undefined;
  readonly logger: Logger;
}
