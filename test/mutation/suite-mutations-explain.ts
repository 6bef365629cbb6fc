/** Mutations of what explains: the trace of the one composition, explanations, recorded decisions and past states. */
import { mutationsOf as of, type SuiteMutation } from './suite-runner.ts';

const traced = ['test/replay/traced.test.ts'];
const explained = ['test/explain/explain.test.ts'];
const recorded = ['test/explain/recorded-texts.test.ts'];
const history = ['control-plane/history/history.test.ts'];
const turned = 'and its first command turns it';
const replayed = 'replay decide';

export const explainMutations: readonly SuiteMutation[] = [
  ...of('shared/decision/trace.ts', traced, [
    [
      'a step that was refused stays refused',
      'if (!this.#steps.has(step)) this.#steps.set(step, { step, result, facts, reads });',
      'this.#steps.set(step, { step, result, facts, reads });',
    ],
    [
      'the first refusal of a step is its refusal',
      "if (!this.#steps.has(step))\n      this.#steps.set(step, { step, result: 'refused'",
      "this.#steps.set(step, { step, result: 'refused'",
    ],
    ['a refusal is of the step of its cause', 'const { step } = causes[cause];', "const step = 'host';"],
    ['the first refusal is the verdict', 'this.steps.find(', 'this.steps.findLast('],
    [
      'a check that throws a refusal refuses',
      'this.refuse(error, facts, reads);',
      "this.add(step, 'refused', facts, reads);",
    ],
    [
      'a fault of the program is no refusal',
      'if (!(error instanceof Refusal)) throw error;',
      'if (!(error instanceof Refusal)) return;',
    ],
    [
      'the steps of the route are steps',
      'for (const step of other.steps) if (',
      'for (const step of other.steps) if (step === undefined && ',
    ],
    ['a refusal does not end what is traced', 'if (trace === undefined) throw refusal;', 'throw refusal;'],
    [
      'a refusal ends what is served',
      'if (trace === undefined) throw refusal;\n  trace.refuse(',
      'trace?.refuse(',
    ],
  ]),
  ...of('shared/decision/admission.ts', traced, [
    [
      'the verdict of a trace is its first refusal',
      'if (first === undefined) return verdict;',
      'return verdict;',
    ],
    ['what the limits refuse is not counted', '&& verdict.refusal === first', ''],
  ]),
  ...of('shared/decision/route.ts', traced, [
    ['a missing stack is a step', 'trace?.refuse(refusal, { stack: stackId });', ''],
    ['the first refusal of a stack is its answer', 'return wrong ?? answer;', 'return answer;'],
    ['the first refusal of the pool is its answer', 'return first ?? answer;', 'return answer;'],
    [
      'nodes that do not serve refuse',
      'trace?.refuse(answer, { place });',
      "trace?.add('nodes', 'refused', { place });",
    ],
  ]),
  ...of('shared/decision/decide.ts', traced, [
    [
      'the route is explained after the limits',
      'if (routeTrace !== undefined) trace?.append(routeTrace);',
      '',
    ],
    [
      'the route is explained where there is no plan',
      '  trace.append(routeTrace);\n  return refusal;',
      '  return refusal;',
    ],
  ]),
  ...of('shared/decision/recorded-difference.ts', explained, [
    [
      'a verdict that differs is a difference',
      'if (wanted !== now.text)',
      'if (wanted === undefined)',
      replayed,
    ],
    [
      'the first of the steps that differ is named',
      'stepNames.find((name)',
      'stepNames.findLast((name)',
      replayed,
    ],
  ]),
  ...of('shared/decision/question.ts', explained, [
    ['a recorded key decides', '{ keyId: key, header }', '{ fault, carried }', replayed],
    ['the recorded clock decides', 'nowMs: record.at,', 'nowMs: 1e15,', 'a revoked key'],
    [
      'recorded counters decide',
      'counters: record.counters,',
      'counters: { windowUsed: 0, inFlight: 0, poolTokens: 0, freeTurns: 0 },',
      'an allowance that is used up',
    ],
  ]),
  ...of('shared/decision/question.ts', explained, [
    ['of two keys none is the key', "fault !== 'two different keys'", 'fault.length > 0', 'a switched stack'],
  ]),
  ...of('data-plane/decisions/compact.ts', explained, [
    [
      'what was refused before it was read is explained by no rule',
      "stage: stages.indexOf('http')",
      "stage: stages.indexOf('shape')",
      'headers that are too large',
    ],
    [
      'of two keys the record says so',
      "if (refusal.keyId !== undefined && refusal.cause !== 'two different keys') return null;",
      'if (refusal.keyId !== undefined) return null;',
      'a switched stack',
    ],
  ]),
  ...of('control-plane/server/live-counters.ts', explained, [
    [
      'a request that was not made finds the requests of the minute',
      '...(own ?? nothing),',
      '...nothing,',
      'a request that was not made',
    ],
  ]),
  ...of('shared/decision/step-texts.ts', explained, [
    [
      'the models of a tier are part of it',
      "{ table: 'tier', id: tier }, ...models)",
      "{ table: 'tier', id: tier })",
      'a change of the models',
    ],
  ]),
  ...of('shared/decision/step-texts.ts', recorded, [
    [
      'what is used here is said of this gateway',
      '{ used, here, elsewhere, held,',
      '{ used, here: elsewhere, elsewhere: here, held,',
    ],
    [
      'what others hold is more than they use',
      'Number(held) > Number(elsewhere)',
      'Number(held) > Number(here)',
    ],
    [
      'room is what is left at this gateway',
      'held, room, weight, allowed }',
      'held, allowed: room, weight, room: allowed }',
    ],
    ['a request counts as its weight', 'room, weight, allowed }', 'room, room: weight, allowed }'],
    [
      'the tokens of the prompt are without those of the answer',
      '{ needed, prompt, answer,',
      '{ needed, needed: prompt, answer,',
    ],
    ['a bound from above is said to be one', "isBound ? 'at most ' : ''", "isBound ? '' : 'at most '"],
    ['a bound from below is said to be one', "atLeast ? 'at least '", "atLeast ? 'at most '"],
    [
      'what counts against the allowance is said',
      '{ used, allowed, kind }',
      '{ used: allowed, allowed: used, kind }',
    ],
    ['turns and tokens are two things', "kind === 'turns'", "kind === 'tokens'"],
  ]),
  ...of('shared/decision/causes.ts', recorded, [
    ['a recorded cause is one of its stage', 'causes[name].stage === stage) ??', 'causes[name].stage) ??'],
    ['a cause is known by its whole text', 'reason === label', 'reason.startsWith(label)'],
    ['what is open is known by its beginning', 'reason.startsWith(opening)', 'reason === opening'],
  ]),
  ...of('shared/decision/admission.ts', recorded, [
    [
      'a refusal after which nothing is decided has its reason',
      'const facts = { type, reason, ',
      'const facts = { type, ',
    ],
  ]),
  ...of('shared/decision/recorded-difference.ts', recorded, [
    [
      'what a node counted had passed the limits',
      "step === 'context' && record.counted === 'node'",
      "step === 'host' && record.counted === 'node'",
    ],
  ]),
  ...of(
    'data-plane/request/reserve.ts',
    ['test/explain/true-texts.test.ts'],
    [
      [
        'a decision is as old as it is, however long its answer takes',
        'if (counters instanceof SeenCounters) counters.atMs = nowMs;',
        '',
        'however long its answer takes',
      ],
    ],
  ),
  ...of(
    'control-plane/history/undo.ts',
    ['control-plane/server/history-routes.test.ts'],
    [
      [
        'the last event is taken back first',
        'of events.toReversed()',
        'of events',
        'a commit of several events',
      ],
      [
        'what has changed since is not taken back',
        'JSON.stringify(inverse.subject(now)) === was',
        'was !== null',
        'has changed since',
      ],
    ],
  ),
  ...of('control-plane/explain/because-event.ts', explained, [
    [
      'the event of the aspect is named',
      'ofRow.findLast(({ type }) => types?.test(type)) ?? ofRow.at(-1)',
      'undefined',
      turned,
    ],
  ]),
  ...of('control-plane/explain/would.ts', explained, [
    [
      'a change that does not turn the answer is not shown',
      "if (verdict.kind !== 'refused') return true;",
      'if (verdict) return true;',
      turned,
    ],
    [
      'a drained node is what refuses',
      "if (fault === 'drained') yield",
      "if (fault === 'down') yield",
      turned,
    ],
    ['a limit is taken from its tier', '{ [limit.field]: undefined }', '{}', turned],
    ['a key is replaced', "if (step === 'key') yield* newKey", "if (step === 'host') yield* newKey", turned],
  ]),
  ...of(
    'control-plane/server/history-routes.ts',
    ['control-plane/server/history-routes.test.ts'],
    [
      [
        'a repeated undo does not ask the history',
        'const inverse = isRepeat',
        "const inverse = request.url === ''",
        'the history was cut since',
      ],
    ],
  ),
  ...of(
    'control-plane/gateways/ask-decisions.ts',
    ['control-plane/server/explain-routes.test.ts'],
    [
      [
        'who leaves gives the turn back before the gateways answer',
        'client ? AbortSignal.any([client, deadline]) : deadline',
        'deadline',
        'who leaves gives the turn back',
      ],
    ],
  ),
  ...of(
    'control-plane/history/undo-command.ts',
    ['control-plane/server/history-routes.test.ts'],
    [
      [
        'each command is decided on the state that those before it leave',
        'return { events, extra: { commands: inverse.commands.map(shownCommand) } };',
        'return { events: events.slice(0, 1), extra: { commands: inverse.commands.map(shownCommand) } };',
        'a commit of several events',
      ],
    ],
  ),
  ...of(
    'control-plane/gateways/person-turns.ts',
    ['control-plane/server/explain-routes.test.ts', 'control-plane/gateways/person-turns.test.ts'],
    [
      ['a person has one question at a time', 'this.#asking.add(caller);', ''],
      [
        'who signed in by the link of an organisation takes no turn elsewhere',
        "[within, person].join(' ')",
        'person',
      ],
      ['few persons ask at a time', 'const concurrencyMax = 2;', 'const concurrencyMax = 20;'],
      [
        'who leaves while others ask waits no longer',
        'acquire(caller, client)',
        'acquire(caller, new AbortController().signal)',
        'waits no longer',
      ],
      ['operators have no turns', 'if (person === undefined) return work();', "person ??= 'operator';"],
    ],
  ),
  ...of(
    'data-plane/decisions/decision-journal.ts',
    ['data-plane/decisions/decision-journal.test.ts'],
    [
      [
        'of refused unknown callers so many a second are kept',
        'if (limitedKind !== undefined && !this.#hasRoomFor(limitedKind)) return;',
        '',
        'refusals of unknown callers',
      ],
      [
        'of early refusals so many a second are kept',
        "if (this.#hasRoomFor('unknown') && this.#hasRoom())",
        'if (this.#hasRoom())',
        'refusals of unknown callers',
      ],
      [
        'listings without a key are of unknown callers',
        "caller?.kind === 'key' ||",
        "caller?.kind === 'key' || caller?.kind === 'nobody' ||",
        'listings that nobody asked for',
      ],
      [
        'what a fenced gateway refuses has a limit of its own',
        "? 'fenced' : 'unknown'",
        "? 'unknown' : 'unknown'",
        'credentials that a fenced gateway refused',
      ],
    ],
  ),
  ...of('control-plane/history/trim.ts', history, [
    ['what is valid at the begin is kept', 'AND end_seq < ?`', 'AND ? > 0`', 'cut at its old end'],
    ['who may sign is kept', ' AND signers IS NULL', '', 'cut at its old end'],
    ['subjects are cut too', 'yield* trimSubjects(db, beginOf(db));', '', 'cut at its old end'],
  ]),
  ...of('control-plane/history/queries.ts', history, [
    [
      'a past that was cut is refused',
      'if (seq >= begin || begin === 1) return;',
      'if (seq >= 0) return;',
      'cut at its old end',
    ],
  ]),
  ...of('control-plane/history/tables.ts', history, [
    ['a version ends', 'WHERE v.end_seq > $', 'WHERE 0 < $'],
    ['a version of a key ends', 'AND end_seq > $', 'AND 0 < $'],
    ['a later version is not of the past', 'AND x.set_seq <= $', 'AND 0 < $'],
  ]),
  ...of('control-plane/history/history-file.ts', history, [
    [
      'a file that differs from a checkpoint is discarded',
      'if (snapshot.divergedAt !== null)',
      'if (path === "")',
    ],
  ]),
];
