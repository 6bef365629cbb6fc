/** Admits a request by its head alone: its host, operation and caller. Listeners without keys subclass `RequestAdmission`. */
import {
  type Admission,
  type AdmittedInference,
  admit,
  type RequestHead,
} from '../../shared/decision/admission.ts';
import type { Target } from '../../shared/decision/route.ts';
import type { SharedBudget } from '../../shared/runtime/byte-budget.ts';
import { badHttp, credentialHeader } from '../http/answers.ts';
import { type Body, readBody } from '../http/body.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Gateway } from './gateway.ts';
import type { RequestRecord } from './request-record.ts';

/** Age of an admission in ms from which it must be checked again before the request is decided. */
const admissionMsMax = 1000;

export class RequestAdmission {
  protected readonly gateway: Gateway;
  protected readonly exchange: Exchange;
  protected readonly head: RequestHead;
  readonly #record: RequestRecord;
  #admitted: Admission | undefined;
  /** Wall-clock time at which the request was admitted, in ms since 1970. */
  #admittedMs = 0;
  #monotonicMs = 0;

  /** If `target` is undefined, the Host header selects it. Throws a `Refusal` if the request's head is ambiguous HTTP. */
  constructor(
    gateway: Gateway,
    exchange: Exchange,
    record: RequestRecord,
    target: Target | undefined,
    path: string = record.path,
  ) {
    const bad = badHttp(exchange);
    if (bad !== undefined) throw bad;
    this.gateway = gateway;
    this.exchange = exchange;
    this.#record = record;
    this.head = {
      host: exchange.head.headers.host,
      fixed: target,
      method: record.method,
      path,
      authorization: credentialHeader(exchange.head, 'authorization'),
      xApiKey: credentialHeader(exchange.head, 'x-api-key'),
    };
  }

  /** Identifies the caller and the operation. Throws a `Refusal` if the request is not admitted. */
  admit(nowMs: number): Admission {
    const admitted = this.decide(nowMs);
    this.#admitted = admitted;
    this.#admittedMs = nowMs;
    this.#monotonicMs = performance.now();
    this.#record.at.accepted = this.#monotonicMs;
    return admitted;
  }

  /** Repeats the admission check if the body took long to arrive, because the key may have been revoked or expired. */
  again(nowMs: number): AdmittedInference {
    const admitted = this.isOld(nowMs) ? this.decide(nowMs) : this.#admitted;
    if (admitted?.kind !== 'inference') throw new Error('only inference is admitted again');
    return admitted;
  }

  /** Reads the request's body. Rejects with a `Refusal` if the body is not accepted, or with `ClientGone`. */
  readBody(memory: SharedBudget, bytesMax: number): Promise<Body> {
    return readBody(this.exchange, memory, { bytesMax });
  }

  protected isOld(nowMs: number): boolean {
    // Take the larger of two ages, because one clock can be set back and the other stops while the machine sleeps.
    const ageMs = Math.max(nowMs - this.#admittedMs, performance.now() - this.#monotonicMs);
    return ageMs > admissionMsMax;
  }

  protected decide(nowMs: number): Admission {
    return this.decideFor(this.head, nowMs);
  }

  protected decideFor(head: RequestHead, nowMs: number): Admission {
    const { lookup, hosts } = this.gateway;
    return admit(lookup, hosts, head, { fenced: this.gateway.fenced(), nowMs }, this.#record);
  }
}

/** Creates the admission of a request. A listener whose callers have no API keys uses another function of this type. */
export type Authenticator = (
  gateway: Gateway,
  exchange: Exchange,
  record: RequestRecord,
  target: Target | undefined,
) => RequestAdmission;

export const authenticateByKey: Authenticator = (gateway, exchange, record, target) =>
  new RequestAdmission(gateway, exchange, record, target);
