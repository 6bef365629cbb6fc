/** Mutations of what operators rely on: backups, restores, traces and secrets in files. */
import { mutationsOf as of, type SuiteMutation } from './suite-runner.ts';

const backupTests = ['cli/backup.test.ts'];

export const operateMutations: readonly SuiteMutation[] = [
  ...of('cli/commands/backup-create.ts', backupTests, [
    ['a total in a backup is not replaced by less', ' || has >= had) return;', ' || true) return;'],
    ['a backup continues its own log', 'recordHash(last.value) !== this.head.hash', 'false'],
    ['a log that has lost commits is refused', 'if (end <= this.offset) throw', 'if (end < 0) throw'],
    [
      'a folder with other files is refused',
      'if (names.length === 0) chmodSync(dir, 0o700);\n  else if (!names.includes(lockName)',
      'if (names.length === 0) chmodSync(dir, 0o700);\n  else if (names.includes(lockName)',
    ],
    ['what an interrupted backup left is removed', 'if (!kept.has(name) && ', 'if (kept.has(name) && '],
  ]),
  ...of('cli/commands/backup-files.ts', backupTests, [
    ['a changed file is refused', 'if (sum !== sha256) throw', 'if (sum.length !== sha256.length) throw'],
    [
      'a restored file is for its owner alone',
      "createWriteStream(to, { flags: 'wx', mode: 0o600 })",
      "createWriteStream(to, { flags: 'wx', mode: 0o644 })",
    ],
  ]),
  ...of('cli/commands/backup-manifest.ts', backupTests, [
    [
      'each byte of the manifest counts',
      'manifest === undefined || render(manifest) !== text',
      'manifest === undefined',
    ],
  ]),
  ...of('cli/commands/backup-verify.ts', backupTests, [
    ['the manifest names the log of its segments', 'log !== manifest.log.id || ', ''],
    [
      'the manifest names the signers of its segments',
      ' || JSON.stringify(signers) !== JSON.stringify(manifest.log.signers)',
      '',
    ],
  ]),
  ...of('cli/commands/backup-restore.ts', backupTests, [
    [
      'a log that is not empty is refused',
      'if (head.isEmpty || (head.log === log.id && head.seq <= log.position)) return;',
      'return;',
    ],
    ['a data folder that is not empty is refused', 'if (found === undefined) return;\n', 'return;\n'],
    ['an interrupted restore is repeated', '(?:lock|gateways|counters)', 'lock'],
    ['a whole restore is not repeated', 'const own = names.includes(', 'const own = !names.includes('],
    ['only named signers are believed', 'trusted.checkBeginning(records)', 'true'],
    [
      'the usage topic is read from its beginning',
      'store.restart(partition);',
      'store.nextOffset(partition);',
    ],
    [
      'totals stand for counters that are lost',
      'state.restore(replica, entries,',
      'state.restore(replica, [],',
    ],
  ]),
  ...of('cli/commands/restore-counters.ts', backupTests, [
    [
      'only records with the gateway token count',
      'signature !== null && mac.accepts(value, signature) ?',
      'signature !== null ?',
    ],
    ['a foreign token is refused', 'if (accepted === 0) throw foreign();', ''],
    [
      'what control planes publish is not what gateways counted',
      'tokens: all.tokens - rows.tokens,',
      'tokens: all.tokens,',
    ],
  ]),
  ...of(
    'shared/runtime/secrets.ts',
    ['shared/runtime/secrets.test.ts'],
    [
      [
        'a secret in a file is never cut',
        'if (Buffer.byteLength(text) > tokenLengthMax)',
        'if (Buffer.byteLength(text) < 0)',
      ],
    ],
  ),
  ...of(
    'data-plane/core/trace-context.ts',
    ['data-plane/core/trace-context.test.ts'],
    [
      ['a client that records nothing is followed', '(followsClient ? parent?.sampled : undefined) ??', ''],
      ['the trace of the client is continued', 'parent?.traceId ?? newId(16)', 'newId(16)'],
      [
        'of later versions no more is read',
        "if (version === '00' && rest !== undefined) return undefined;",
        '',
      ],
      ['a header has a bound', ' || header.length > lengthMax', ''],
    ],
  ),
  ...of(
    'data-plane/tracing/trace-settings.ts',
    ['data-plane/tracing/trace-settings.test.ts'],
    [
      [
        'an endpoint is an address',
        "if (url?.protocol === 'http:' || url?.protocol === 'https:') return;",
        'return;',
      ],
      ['gRPC is not spoken', "settingOf(variable, env) === 'grpc'", 'settingOf(variable, env) === undefined'],
      ['a certificate can be read', 'accessSync(path, constants.R_OK);', ''],
      ['a sampler is known', 'if (kind === undefined)\n', 'if (kind === null)\n'],
      ['a ratio is from 0 to 1', 'if (ratio >= 0 && ratio <= 1) return', 'if (ratio >= 0) return'],
      [
        'a batch fits into the queue',
        "Math.min(number('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', 512), maxQueueSize)",
        "number('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', 512)",
      ],
    ],
  ),
  ...of(
    'data-plane/tracing/request-spans.ts',
    ['data-plane/tracing/request-spans.test.ts'],
    [
      [
        'the name of a stack is shown only where it was reached',
        ' && isPlaced(record) ? target.stack',
        ' ? target.stack',
      ],
      [
        'a model of no catalog is not named',
        'model !== undefined && isKnown(model) ? model',
        'model !== undefined ? model',
      ],
      [
        'a refusal ends the phase as failed',
        'const failed = to === undefined && record.refusal !== undefined;',
        'const failed = false;',
      ],
      [
        'a failed node fails the request',
        "failed: status >= 500 || outcome?.kind === 'ended-early',",
        'failed: status >= 500,',
      ],
    ],
  ),
];
