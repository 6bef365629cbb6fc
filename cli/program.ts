/** The commands that run processes, in the order in which help lists them, and the variables that are no option of any. */
import type { CommandModule } from './command-modules.ts';

export const processCommands: readonly CommandModule[] = [
  { names: ['dev'], load: async () => (await import('../dev/dev.ts')).devCommand },
  {
    names: ['control-plane'],
    load: async () => (await import('./processes/control-plane.ts')).controlPlaneCommand,
  },
  { names: ['gateway'], load: async () => (await import('./processes/gateway.ts')).gatewayCommand },
  { names: ['node-agent'], load: async () => (await import('./processes/node-agent.ts')).nodeAgentCommand },
  { names: ['sim-node'], load: async () => (await import('./processes/sim-node.ts')).simNodeCommand },
];

/** `…_FILE`: its value may be the name of a file instead. */
export const variables: readonly (readonly [name: string, meaning: string])[] = [
  ['HEADGATE_ADMIN', 'address of the control plane for the admin commands, as `--admin`'],
  ['HEADGATE_TOKEN', 'the token that admin commands send; `HEADGATE_OPERATOR_TOKEN` where it is unset'],
  [
    'HEADGATE_CONTEXT',
    'the context file that `headgate dev` writes and admin commands read; `.headgate/context.json` in the working folder, above it, or in the home folder by default',
  ],
  [
    'HEADGATE_OPERATOR_TOKEN',
    'token of the admin API, at least 16 characters; `HEADGATE_OPERATOR_TOKEN_FILE`',
  ],
  [
    'HEADGATE_GATEWAY_TOKEN',
    'token that gateways and control planes share, at least 16 characters; `HEADGATE_GATEWAY_TOKEN_FILE`',
  ],
  [
    'HEADGATE_GATEWAY_TOKEN_PREVIOUS',
    'the gateway token before a rotation, which control planes also accept; `HEADGATE_GATEWAY_TOKEN_PREVIOUS_FILE`',
  ],
  ['HEADGATE_NODE_TOKEN', 'token of a node agent; `HEADGATE_NODE_TOKEN_FILE`'],
  ['HEADGATE_NODE_CREDENTIAL_NAME', 'the credential NAME of a node, where `--node-credentials` is not set'],
  ['HEADGATE_SIGNING_KEY', 'Ed25519 PEM file that signs the log'],
  [
    'HEADGATE_LOG_LEVEL',
    'trace, debug, info, warn, error, fatal or silent; info by default, warn in `headgate dev`',
  ],
  ['HEADGATE_KAFKA_TLS', '`system`: TLS to the brokers with the authorities that Node.js trusts'],
  ['HEADGATE_KAFKA_TLS_CA', 'PEM file of the authority that signed the certificates of the brokers'],
  ['HEADGATE_KAFKA_TLS_CERT', 'PEM file of a client certificate, with `HEADGATE_KAFKA_TLS_KEY`'],
  ['HEADGATE_KAFKA_TLS_KEY', 'PEM file of its private key'],
  ['HEADGATE_KAFKA_SASL_MECHANISM', 'plain, scram-sha-256 or scram-sha-512'],
  ['HEADGATE_KAFKA_SASL_USERNAME', 'with the mechanism'],
  ['HEADGATE_KAFKA_SASL_PASSWORD', 'with the mechanism; `HEADGATE_KAFKA_SASL_PASSWORD_FILE`'],
  ['NO_COLOR', 'no colour, as `--no-color`'],
];
