/**
 * Table of every line that a process can log. Alerts and searches use the codes, so a text may be improved but its code must
 * never change. Loggers accept no other texts. `docs/log-events.md` contains the same table.
 */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'fatal';

export const logEvents = {
  'access_log.dropped': ['warn', 'lines of the access log were dropped'],
  'agent.model_load_failed': ['warn', 'model could not be loaded; it will be retried'],
  'agent.model_loaded': ['info', 'model loaded'],
  'agent.model_loading': ['info', 'loading a model'],
  'agent.model_unload_failed': ['warn', 'model could not be unloaded'],
  'agent.model_unloaded': ['info', 'model unloaded'],
  'agent.not_attached': ['warn', 'not attached to a control plane'],
  'agent.not_attached_here': ['debug', 'not attached to this control plane; trying the next one'],
  'agent.started': ['info', 'agent started'],
  'agents.attached': ['info', 'agent attached'],
  'agents.disconnected': ['info', 'agent disconnected'],
  'agents.refused': ['warn', 'agents refused'],
  'bodies.thread_ended': ['error', 'the thread for large bodies ended; the next large body starts a new one'],
  'change.advanced': ['info', 'staged change advanced'],
  'change.not_moved': ['warn', 'staged change could not be advanced or withdrawn'],
  'change.withdrawn': ['error', 'staged change withdrawn'],
  'command.internal_error': ['error', 'command failed'],
  'connections.capped': [
    'warn',
    'the limit of open files allows fewer connections than --max-connections; raise ulimit -n',
  ],
  'connections.refused': ['warn', 'connections refused: too many'],
  'control_log.reachability': ['warn', 'reachability of the control log'],
  'control_plane.started': ['info', 'control plane started'],
  'counters.copy_unwritable': ['warn', 'the copy of the counters could not be written'],
  'counters.differ': [
    'warn',
    'the counters of the gateways differ from the usage rows; after a data folder was lost, they differ until the period ends',
  ],
  'counters.folder_copied': [
    'error',
    'the data folder of this gateway was copied or restored, or another gateway uses a copy of it, so its counters continue under a new replica id; never copy or restore the data folder of a gateway',
  ],
  'counters.not_caught_up': [
    'warn',
    'not all counters of other gateways have been read yet; until then, allowances count only what this gateway knows',
  ],
  'counters.reachability': ['warn', 'reachability of the counters topic'],
  'counters.reading_ended': ['fatal', 'counters of other gateways are no longer read'],
  'event_tail.ended': ['warn', 'event tail ended'],
  'event_tail.failed': ['error', 'event tail failed'],
  'fold.checkpoint_failed': ['warn', 'checkpoint not written'],
  'fold.rows_differ': [
    'fatal',
    'state.db is damaged: this replica ends, and rebuilds the file when it starts again',
  ],
  'fold.stopped': ['fatal', 'the fold has stopped; see docs/recover.md'],
  'gateway.started': ['info', 'gateway started'],
  'gateways.forgotten': ['info', 'an operator told the control plane to forget the gateway'],
  'gateways.publish_failed': ['warn', 'the list of silent gateways could not be published; retrying'],
  'gateways.quarantined': [
    'error',
    'gateways.db is corrupt and was quarantined; confirmations no longer wait for gateways that no other replica knows',
  ],
  'gateways.unwritable': ['warn', 'gateways.db cannot be written; known gateways are kept only in memory'],
  'history.rebuilt': ['warn', 'history.db is being rebuilt from the log'],
  'history.reopened': ['warn', 'the history had stopped, and is opened again'],
  'history.thread_failed': ['error', 'the history thread failed'],
  'keys.forgotten': ['info', 'keys that ended long ago were forgotten'],
  'keys.not_forgotten': ['debug', 'keys that ended long ago could not be forgotten yet; retrying'],
  'limits.reachability': ['warn', 'reachability of the fleet limits'],
  'limits.reading_ended': ['fatal', 'limits of the fleet are no longer read'],
  'limits.records_ignored': ['warn', 'records of the gauges topic were ignored'],
  'memory.capped': [
    'warn',
    'bodies and answers get less memory than usual, because this process may use less than 4 GiB',
  ],
  'nodes.most_silent': ['warn', 'most nodes fell silent at once; their state is left unchanged'],
  'nodes.not_claimed': ['debug', 'node not claimed'],
  'nodes.not_reported': ['debug', 'node not reported'],
  'nodes.reports_withheld': [
    'warn',
    'nodes reported more than the log accepts from one node; the excess is withheld',
  ],
  'nodes.usage_clamped': ['warn', 'nodes reported more tokens than a request can use; less is billed'],
  'play.internal_error': ['error', 'a playground call failed'],
  'process.close_failed': ['error', 'a resource could not be closed; closing continues'],
  'process.close_timeout': ['error', 'closing took too long: ending now'],
  'process.closing': ['info', 'closing'],
  'process.drain_ended': [
    'warn',
    'the drain timed out: requests in flight are refused, and answers that have begun are cut off',
  ],
  'process.out_of_files': ['warn', 'no file descriptor is left; raise ulimit -n'],
  'process.second_signal': ['warn', 'second signal: ending now'],
  'process.shutdown_failed': ['error', 'shutdown failed'],
  'process.uncaught_exception': ['fatal', 'unhandled exception: the process ends'],
  'process.unhandled_rejection': ['fatal', 'unhandled rejection: the process ends'],
  'request.finished': ['info', 'request'],
  'request.internal_error': ['error', 'request failed'],
  'requests.stream_failed': ['warn', 'a stream of requests failed'],
  'sessions.operator': ['info', 'an operator signed in through the identity provider'],
  'sessions.provider_failed': ['warn', 'a sign-in through the identity provider failed'],
  'sessions.unreadable': ['error', 'the ends of sessions cannot be read, so no session is accepted'],
  'sessions.unwritable': ['warn', 'the ends of sessions were not stored; the next start reads the log again'],
  'sim_node.started': ['info', 'simulated node is ready'],
  'snapshot.checkpoint_differs': [
    'error',
    'a checkpoint differs from a replay of the log: its writer is wrong, or runs another build',
  ],
  'snapshot.fetch_failed': ['warn', 'no snapshot could be fetched'],
  'snapshot.fetched': ['info', 'started from the snapshot of a control plane'],
  'snapshot.fold_halted': ['error', 'the fold has halted: this build is too old for the log'],
  'snapshot.log_refused': [
    'error',
    'this log is refused; the last good state stays in use: see docs/recover.md',
  ],
  'snapshot.not_caught_up': ['warn', 'not caught up with the log'],
  'snapshot.quarantined': [
    'error',
    'this snapshot is quarantined: no key is accepted until it has been rebuilt',
  ],
  'snapshot.rebuilt': ['warn', 'state.db was quarantined and is rebuilt from the log'],
  'snapshot.rebuilt_here': ['warn', 'state.db was quarantined and is rebuilt'],
  'snapshot.recovered': ['warn', 'the snapshot has recovered'],
  'snapshot.recovery_failed': ['warn', 'recovery failed; retrying'],
  'snapshot.started_without_log': ['warn', 'the control log cannot be read; starting from the state on disk'],
  'snapshot.unwritable': ['error', 'the snapshot cannot be written; its state stays in use'],
  'status.ignored': [
    'warn',
    'status records were ignored, because they lack a valid MAC of the gateway token or are of another version',
  ],
  'status.reachability': ['warn', 'reachability of the status topic'],
  'status.refused': ['error', 'status records were not accepted by the log'],
  'tls.authorities_kept': ['error', 'the new authorities cannot be used; the previous ones stay in use'],
  'tls.authorities_outdated': [
    'warn',
    'the authorities changed, but this version of Node reads them only when it starts; restart this process',
  ],
  'tls.authorities_reloaded': ['info', 'authorities reloaded'],
  'tls.kafka_files_kept': [
    'error',
    'the new TLS files or password for Kafka cannot be used; the previous ones stay in use',
  ],
  'tls.no_certificate': ['info', 'there is no certificate to reload'],
  'tls.reload_failed': ['error', 'the new certificate cannot be used; the previous one stays in use'],
  'tls.reloaded': ['info', 'certificate reloaded'],
  'tokens.wrong': ['warn', 'too many wrong tokens'],
  'topics.reachability': ['warn', 'reachability of a topic'],
  'topics.skipped': ['warn', 'batches of records were skipped: they are compressed, too large or broken'],
  'traces.no_receiver': ['warn', 'no traces are sent, because the address of the receiver is empty'],
  'traces.reachability': ['warn', 'reachability of the trace receiver'],
  'usage.damaged': ['fatal', 'usage.db is damaged; no more usage is folded'],
  'usage.day_removed': ['info', 'a day of usage rows was removed'],
  'usage.file_damaged': ['error', 'usage.db is damaged: see docs/recover.md'],
  'usage.file_unchecked': ['warn', 'usage.db could not be checked; retrying'],
  'usage.log_reachability': ['warn', 'reachability of the usage log'],
  'usage.publisher_reachability': ['warn', 'reachability of the usage publisher'],
  'usage.not_closed': ['error', 'usage could not be closed'],
  'usage.rows_not_moved': ['warn', 'usage rows could not be moved into the files of their days'],
  'usage.rows_missing': ['error', 'usage rows are missing; later rows of the incarnation wait for them'],
  'usage.rows_unreadable': ['error', 'rows of usage.db cannot be read and are left out: see docs/recover.md'],
  'usage.rows_wrong': ['error', 'usage rows differ from the rows they repeat, or are not counted'],
  'usage.lost': ['error', 'usage rows could not be written to any file and are lost'],
  'usage.unwritable': ['error', 'usage could not be written'],
  'usage.worker_ended': ['fatal', 'usage can no longer be recorded: this gateway ends'],
  'usage.worker_not_closed': [
    'error',
    'the usage worker did not close cleanly; rows on the disk are published at the next start',
  ],
} as const satisfies Readonly<Record<string, readonly [level: LogLevel, text: string]>>;

type Row = (typeof logEvents)[keyof typeof logEvents];
/** Texts of the lines with the given level. */
export type LogText<Level extends LogLevel = LogLevel> = Extract<Row, readonly [Level, string]>[1];

const codes = new Map<string, string>(Object.entries(logEvents).map(([code, [, text]]) => [text, code]));

/** Returns the code of a log text, or undefined if the text is not in the table because a library wrote it. */
export function logTextCode(text: string): string | undefined {
  return codes.get(text);
}
