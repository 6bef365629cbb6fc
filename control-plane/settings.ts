/** Settings of a control-plane replica, which come from its options and environment variables. */
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
  /** Name of the option that sets the port. Default: `--port`. It differs if the process has several ports. */
  readonly portFlag?: string;
  /** Address of the listener for health and metrics. Default: loopback. */
  readonly metricsBind?: string | undefined;
  readonly metricsPort: number;
  readonly connections?: Partial<ConnectionLimits> | undefined;
  readonly operatorToken: string;
  readonly gatewayToken: string;
  /** Previous gateway token. It is still accepted while gateways switch to the new token. */
  readonly previousGatewayToken?: string | undefined;
  /** PEM file with the Ed25519 private key with which this replica signs the log. */
  readonly signingKeyFile?: string | undefined;
  /** Whether to start even if a signing key is set but the log is not signed. */
  readonly allowUnsigned?: boolean | undefined;
  /** Fingerprints, public keys or PEM files of the signers who may have created the log. If empty, any log is accepted. */
  readonly trustedSigners?: readonly string[] | undefined;
  /** Returns a node credential by name. */
  readonly nodeCredentials?: CredentialSource;
  /** Seconds between reporting itself as not ready and refusing new connections. Default: 0. */
  readonly drainDelaySeconds?: number;
  /** Seconds that requests in flight may take after new connections are refused. Default: 5. */
  readonly drainTimeoutSeconds?: number;
  /** Settings of the console, or undefined if this replica does not have one. */
  readonly console?: ConsoleSettings | undefined;
  /** Certificate for all listeners. */
  readonly certificate?: Certificate | undefined;
  /** Number of days for which each completed request is kept. Hourly sums of requests are kept forever. */
  readonly usageKeepDays?: number | undefined;
  /** Size of `history.db` in bytes above which its oldest states are removed. */
  readonly historyBytesMax?: number | undefined;
  /**
   * Time in ms after which a key that has ended is removed from the state. Default: 90 days. If infinite, no key is removed.
   */
  readonly forgetKeysAfterMs?: number | undefined;
  /** Intervals at which nodes are probed and scanned, if they differ from the defaults. */
  readonly nodeIntervals?: Partial<NodeIntervals> | undefined;
  /** Minimum pause between two passes of the background verification, in ms. Default: 3 s. */
  readonly verifyPauseMs?: number | undefined;
  /** Name that the gateways' TLS certificates share; see `gatewayAgent`. */
  readonly gatewayTlsName?: string | undefined;
  /** Time limit in ms for questions to gateways; see `AdminContext`. */
  readonly askTimeoutMs?: number | undefined;
  readonly logger: Logger;
}
